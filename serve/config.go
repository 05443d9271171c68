package serve

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/sluice-rag/sluice"
	"github.com/sluice-rag/sluice/rag/answer"
	"github.com/sluice-rag/sluice/rag/ingest"
	"github.com/sluice-rag/sluice/rag/retrieve"
)

// ErrConfig is wrapped by New's errors about a Config.
var ErrConfig = errors.New("serve: bad configuration")

// Config configures New: DefaultConfig with at least one base.
type Config struct {
	Bases []Base // the first is the default; the caller closes them after Serve has returned
	Keys  *Keys  // nil: no key is needed

	// Hosts are the names, besides loopback names and IP addresses, that requests may be addressed to. This protects
	// against web pages of other sites whose name resolves to this machine. Nil allows any name if there are Keys.
	Hosts []string `key:"hosts" doc:"names that requests may be addressed to besides localhost and IP addresses, with commas between them"`
	// Origins are the web sites ("https://example.org") whose pages may use the server, besides its own page.
	Origins  []string    `key:"origins" doc:"web sites whose pages may use the server (https://example.org), with commas between them"`
	TLS      *tls.Config // nil: plain HTTP
	ReadOnly bool        `key:"read_only" doc:"no request changes a knowledge base"`
	Aliases  []Alias     // other names of models
	// Retrieve and Ask are the defaults for requests.
	Retrieve retrieve.Options
	Ask      answer.Options
	Ingest   ingest.Options // options for uploaded documents
	// KeepCalibration leaves a base's calibration unchanged when documents are uploaded; otherwise a job asks a few
	// questions about the new passages (calibrate.Options.Few).
	KeepCalibration bool
	Limits
	Drift
	// MCPIngest lets programs that speak the Model Context Protocol put texts into a base.
	MCPIngest bool
	// Traces receives a span for each request and each of its steps, without texts; nil: no traces.
	Traces  trace.TracerProvider
	Logger  *slog.Logger // a record for each request, and failures; nil is slog.Default()
	Version string       // the program's version, for /info
}

// Base is a knowledge base with its name in requests.
type Base struct {
	Name string // letters, digits, ".", "_" and "-"
	*sluice.Sluice
}

// Drift configures the alarm for gate scores that differ from the calibration's.
type Drift struct {
	Scores    int     `key:"drift_scores" bounds:"20,1000000" doc:"how many of the gate's last scores are compared with the calibration's"`
	Threshold float64 `key:"drift_threshold" bounds:"0,1" doc:"largest difference of the two distributions (Kolmogorov-Smirnov, 0 to 1) that is not an alarm; part of it is the questions that have nothing to do with the base"`
	Delta     float64 `key:"drift_delta" bounds:"0,0.5" doc:"chance of a false alarm, ever, of the test whether questions that open the gate are like the calibration's; 0 tests nothing"`
}

// Limits bounds the resources that clients can use.
type Limits struct {
	Body     int64         `key:"max_body_mib" unit:"MiB" bounds:"1,1024" doc:"largest JSON body of a request, MiB"`
	Upload   int64         `key:"max_file_mib" unit:"MiB" bounds:"1,65536" doc:"largest uploaded file, MiB"`
	Batch    int           `key:"max_batch" bounds:"1,65536" doc:"most texts of one request"`
	Requests int           `key:"max_requests" bounds:"1,65536" doc:"most requests under way, those that wait included; one more is answered 429"`
	Timeout  time.Duration `key:"timeout_s" unit:"s" bounds:"1,86400" doc:"longest time of a request, seconds"`
	Drain    time.Duration `key:"drain_s" unit:"s" bounds:"0,3600" doc:"how long requests under way may go on when the server is to end, seconds"`

	Answers int           // requests to the language model under way; beyond it 429; 0: no limit
	Read    time.Duration // time for a body to arrive; ten times that for uploads
	Write   time.Duration // time for a client to receive a piece of a response
	Follow  time.Duration // interval at which a base is checked for changes
}

// DefaultConfig returns the default configuration, without bases.
func DefaultConfig() Config {
	return Config{Retrieve: retrieve.DefaultOptions(), Ask: answer.DefaultOptions(), Ingest: ingest.DefaultOptions(),
		Limits: Limits{Body: 8 << 20, Upload: 64 << 20, Batch: 1024, Requests: 256, Timeout: 10 * time.Minute,
			Drain: 30 * time.Second, Read: time.Minute, Write: 30 * time.Second, Follow: 200 * time.Millisecond},
		Drift: Drift{Scores: 500, Threshold: .3, Delta: .01}}
}

var baseName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

func (c Config) check() error {
	if len(c.Bases) == 0 {
		return fmt.Errorf("%w: no knowledge base", ErrConfig)
	}
	seen := map[string]bool{}
	for _, b := range c.Bases {
		switch {
		case !baseName.MatchString(b.Name):
			return fmt.Errorf("%w: a knowledge base is named %q: letters, digits, '.', '_' and '-' only, at most 64",
				ErrConfig, b.Name)
		case seen[b.Name]:
			return fmt.Errorf("%w: two knowledge bases are named %q", ErrConfig, b.Name)
		case b.Sluice == nil:
			return fmt.Errorf("%w: the knowledge base %q is nil", ErrConfig, b.Name)
		}
		seen[b.Name] = true
	}
	if err := checkAliases(c.Aliases); err != nil {
		return err
	}
	for _, name := range c.Keys.bases() {
		if !seen[name] {
			return fmt.Errorf("%w: a key is for the knowledge base %q, which is not served", ErrConfig, name)
		}
	}
	if err := c.Retrieve.Check(); err != nil {
		return fmt.Errorf("%w: %w", ErrConfig, err)
	}
	return nil
}
