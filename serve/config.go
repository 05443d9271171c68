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
)

// ErrConfig is wrapped by what New says of a Config.
var ErrConfig = errors.New("serve: bad configuration")

// Config of New. Bases is needed; the zero value of everything else is its default.
type Config struct {
	Bases []Base // the first is the default one; the caller closes them after Serve has returned
	Keys  *Keys  // nil: everybody who reaches the server may use it

	// Hosts are the names, besides loopback ones and IP addresses, that requests may be addressed to. It keeps web
	// pages of other sites out that have their name resolve to this machine. Nil allows any if there are Keys.
	Hosts []string
	// Origins are the web sites ("https://example.org") whose pages may use the server. None: its own page only.
	Origins  []string
	TLS      *tls.Config // nil: plain HTTP
	ReadOnly bool        // no request changes a base
	Aliases  []Alias     // other names that requests may give models
	// Retrieve and Ask are what requests leave out.
	Retrieve sluice.RetrieveOptions
	Ask      sluice.AskOptions
	Ingest   sluice.IngestOptions // of documents that are uploaded
	// KeepCalibration leaves the calibration of a base as it is when documents are uploaded; otherwise a job asks a few
	// questions about the new passages (sluice.CalibrateOptions.Few).
	KeepCalibration bool
	Limits          Limits
	Drift           Drift
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

// Drift is when the gate's scores are said to have moved away from the calibration's. Zero values are defaults.
type Drift struct {
	Scores    int     // last ones of each base that are compared: 500
	Threshold float64 // of the Kolmogorov-Smirnov statistic, above which there is an alarm: 0.3
}

// Limits bound what clients can take. Zero values are defaults.
type Limits struct {
	Body     int64         // bytes of a JSON body: 8 MiB
	Upload   int64         // bytes of an uploaded file: 64 MiB
	Batch    int           // texts of one request: 1024
	Requests int           // under way at a time, those that wait included: 256; one more is 429
	Answers  int           // of them, those for the language model; one more is 429; 0: any
	Timeout  time.Duration // of one request: 10 minutes
	Drain    time.Duration // that Serve waits for requests under way when it ends: 30 seconds
	Read     time.Duration // for a body to arrive: 1 minute; uploads have ten times that
	Write    time.Duration // for a piece of a response to be taken: 30 seconds
	Follow   time.Duration // how often a base is looked at for changes: 200 ms; negative: at each request
}

func orDefault[T int | int64 | float64 | time.Duration](v *T, initial T) {
	if *v == 0 {
		*v = initial
	}
}

func (l Limits) withDefaults() Limits {
	orDefault(&l.Body, 8<<20)
	orDefault(&l.Upload, 64<<20)
	orDefault(&l.Batch, 1024)
	orDefault(&l.Requests, 256)
	orDefault(&l.Timeout, 10*time.Minute)
	orDefault(&l.Drain, 30*time.Second)
	orDefault(&l.Read, time.Minute)
	orDefault(&l.Write, 30*time.Second)
	orDefault(&l.Follow, 200*time.Millisecond)
	return l
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
	return nil
}
