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

// ErrConfig is wrapped by what New says of a Config.
var ErrConfig = errors.New("serve: bad configuration")

// Config configures New: DefaultConfig with bases, at least.
type Config struct {
	Bases []Base // the first is the default one; the caller closes them after Serve has returned
	Keys  *Keys  // nil: everybody who reaches the server may use it

	// Hosts are the names, besides loopback ones and IP addresses, that requests may be addressed to. It keeps web
	// pages of other sites out that have their name resolve to this machine. Nil allows any if there are Keys.
	Hosts []string `key:"hosts" doc:"names that requests may be addressed to besides localhost and IP addresses, with commas between them"`
	// Origins are the web sites ("https://example.org") whose pages may use the server. None: its own page only.
	Origins  []string    `key:"origins" doc:"web sites whose pages may use the server (https://example.org), with commas between them"`
	TLS      *tls.Config // nil: plain HTTP
	ReadOnly bool        `key:"read_only" doc:"no request changes a knowledge base"`
	Aliases  []Alias     // other names that requests may give models
	// Retrieve and Ask are what requests leave out.
	Retrieve retrieve.Options
	Ask      answer.Options
	Ingest   ingest.Options // of documents that are uploaded
	// KeepCalibration leaves the calibration of a base as it is when documents are uploaded; otherwise a job asks a few
	// questions about the new passages (calibrate.Options.Few).
	KeepCalibration bool
	Limits
	Drift
	// Traces gets a span for each request and for each of its steps, without texts; nil: nobody.
	Traces  trace.TracerProvider
	Logger  *slog.Logger // a record for each request, and what goes wrong; nil is slog.Default()
	Version string       // of the program, for /info
}

// Base is a knowledge base with the name that requests use.
type Base struct {
	Name string // letters, digits, ".", "_" and "-"
	*sluice.Sluice
}

// Drift says when the gate's scores have moved away from the calibration's.
type Drift struct {
	Scores    int     `key:"drift_scores" bounds:"20,1000000" doc:"how many of the gate's last scores are compared with the calibration's"`
	Threshold float64 `key:"drift_threshold" bounds:"0,1" doc:"largest difference of the two distributions (Kolmogorov-Smirnov, 0 to 1) that is not an alarm; part of it is the questions that have nothing to do with the base"`
}

// Limits bounds what clients can take.
type Limits struct {
	Body     int64         `key:"max_body_mib" unit:"MiB" bounds:"1,1024" doc:"largest JSON body of a request, MiB"`
	Upload   int64         `key:"max_file_mib" unit:"MiB" bounds:"1,65536" doc:"largest uploaded file, MiB"`
	Batch    int           `key:"max_batch" bounds:"1,65536" doc:"most texts of one request"`
	Requests int           `key:"max_requests" bounds:"1,65536" doc:"most requests under way, those that wait included; one more is answered 429"`
	Timeout  time.Duration `key:"timeout_s" unit:"s" bounds:"1,86400" doc:"longest time of a request, seconds"`
	Drain    time.Duration `key:"drain_s" unit:"s" bounds:"0,3600" doc:"how long requests under way may go on when the server is to end, seconds"`

	Answers int           // requests under way for the language model; one more is answered 429; 0: any number
	Read    time.Duration // for a body to arrive; uploads have ten times that
	Write   time.Duration // for a piece of a response to be taken
	Follow  time.Duration // how often a base is looked at for changes
}

// DefaultConfig returns the default configuration, which needs bases.
func DefaultConfig() Config {
	return Config{Retrieve: retrieve.DefaultOptions(), Ask: answer.DefaultOptions(), Ingest: ingest.DefaultOptions(),
		Limits: Limits{Body: 8 << 20, Upload: 64 << 20, Batch: 1024, Requests: 256, Timeout: 10 * time.Minute,
			Drain: 30 * time.Second, Read: time.Minute, Write: 30 * time.Second, Follow: 200 * time.Millisecond},
		Drift: Drift{Scores: 500, Threshold: .3}}
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
