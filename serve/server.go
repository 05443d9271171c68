package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace/noop"

	"github.com/sluice-rag/sluice"
	"github.com/sluice-rag/sluice/internal/panics"
	"github.com/sluice-rag/sluice/serve/mcp"
	"github.com/sluice-rag/sluice/serve/page"
)

// Server answers requests. It is a http.Handler; Serve adds listening and shutdown.
type Server struct {
	cfg      Config
	log      *slog.Logger
	bases    map[string]*base
	first    *base
	handler  http.Handler
	routes   []endpoint
	origins  *http.CrossOriginProtection
	room     chan struct{} // a token for each request under way
	bodies   *bodies
	bulks    chan struct{} // a token for each large request for embeddings
	ready    atomic.Pointer[readiness]
	draining atomic.Bool
	underWay atomic.Int64 // admitted requests, except those of monitoring

	answering atomic.Int64 // requests to the language model
	warming   atomic.Bool
	pages     http.Handler
	protocol  *mcp.Handler
	started   time.Time
	metrics   *metrics
	jobs      *jobs
	views     views
}

// base is a knowledge base with its state in the server.
type base struct {
	Base
	mu     sync.Mutex
	err    error // why it does not answer, else nil
	intake intake

	compare func(context.Context) // follows the scores of all servers of a shared store; nil: the store is a folder
}

// New checks a configuration. Nothing is opened before Warm, Serve or a request.
func New(c Config) (*Server, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	s := &Server{cfg: c, log: c.Logger, bases: map[string]*base{}, room: make(chan struct{}, c.Limits.Requests),
		bulks: make(chan struct{}, bulkRequests), bodies: newBodies(c.Limits),
		started: time.Now(), origins: http.NewCrossOriginProtection()}
	for _, origin := range c.Origins {
		if err := s.origins.AddTrustedOrigin(origin); err != nil {
			return nil, fmt.Errorf("%w: the origin %q: %w (an example: https://example.org)", ErrConfig, origin, err)
		}
	}
	for _, b := range c.Bases {
		s.bases[b.Name] = &base{Base: b}
	}
	if c.Traces == nil {
		c.Traces = noop.NewTracerProvider()
	}
	s.cfg = c
	s.metrics = s.newMetrics()
	s.pages = page.Handler()
	s.protocol = s.newProtocol()
	s.first = s.bases[c.Bases[0].Name]
	s.jobs = newJobs(s.bases, c.Keys, s.log)
	s.handler = s.middleware(s.mux())
	return s, nil
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.handler.ServeHTTP(w, r) }

// Serve answers requests from l, which it closes, until ctx ends: it then refuses new requests, lets those under way
// finish within Limits.Drain, and ends the rest. Warm, called concurrently, loads the models. It returns nil after ctx
// has ended.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	// requests outlive ctx until they are drained
	requests, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	defer stop(nil)
	h := &http.Server{
		Handler: s, TLSConfig: s.cfg.TLS, ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
		ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
		BaseContext: func(net.Listener) context.Context { return requests },
	}
	defer s.leaveUploads()
	defer s.views.close()
	defer s.protocol.Close()
	var background sync.WaitGroup
	defer background.Wait()
	following, unfollow := context.WithCancel(ctx)
	defer unfollow()
	for _, b := range s.bases {
		if every := s.cfg.Limits.Follow; every > 0 {
			background.Go(func() { b.Store().Follow(following, every) })
		}
		if b.compare != nil {
			background.Go(func() {
				defer panics.Log(s.log, "comparing scores")
				b.compare(following)
			})
		}
		if !s.cfg.ReadOnly {
			background.Go(func() { s.waitForUploads(following, b) })
		}
	}
	for _, b := range s.bases { // an earlier process may have left unfinished work
		s.recalibrate(following, b)
	}
	background.Go(func() { s.jobs.run(following) }) // run turns a job's panic into an error
	background.Go(func() { releaseMemory(following) })
	failed := make(chan error, 1)
	go func() {
		if s.cfg.TLS != nil {
			failed <- h.ServeTLS(l, "", "")
			return
		}
		failed <- h.Serve(l)
	}()
	select {
	case err := <-failed:
		return fmt.Errorf("serve: %w", err)
	case <-ctx.Done():
	}
	s.draining.Store(true)
	h.SetKeepAlivesEnabled(false)
	s.log.Info("ending: requests under way are finished", "requests", s.underWay.Load(), "at_most",
		s.cfg.Limits.Drain.String())
	if !s.drained(s.cfg.Limits.Drain) {
		s.log.Warn("requests are cut off that were not finished in time", "requests", s.underWay.Load())
		stop(errEnding)
		s.drained(lastWords)
	}
	patience, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastWords)
	defer cancel()
	err := h.Shutdown(patience)
	if errors.Is(err, context.DeadlineExceeded) {
		err = h.Close()
	}
	<-failed // http.ErrServerClosed
	return err
}

// lastWords is the time that ended requests have to send an error.
const lastWords = 2 * time.Second

// drained waits until no request is under way, and reports whether that took less than within. Meanwhile the server
// listens, so that GET /readyz is answered.
func (s *Server) drained(within time.Duration) bool {
	for end := time.Now().Add(within); s.underWay.Load() > 0; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}

// errEnding is the error of requests that come too late, or are ended, at a shutdown.
var errEnding = &requestError{Status: http.StatusServiceUnavailable, Code: "shutting_down",
	Message: "the server is ending", Hint: "try again later, or at another server"}

// base returns the knowledge base that a request names, in its body or as storeOf reads it, else the first one that its
// key may use.
func (s *Server) base(r *http.Request, inBody string) (*base, error) {
	k := keyOf(r.Context())
	name, err := storeOf(r, inBody)
	if err != nil {
		return nil, err
	}
	if name == "" {
		if len(k.Bases) > 0 {
			name = k.Bases[0]
		} else {
			name = s.first.Name
		}
	}
	b, ok := s.bases[name]
	if !ok || !k.May(name) { // without access, its existence is not revealed
		return nil, &requestError{Status: http.StatusNotFound, Code: "unknown_store", Param: "store",
			Message: fmt.Sprintf("there is no knowledge base %q", shortened(name)),
			Hint:    "GET /info lists those that there are"}
	}
	return s.views.of(r.Context(), b, k), nil
}

// allowed returns the bases that a request's key may use, as its groups may read them, in the order of the
// configuration.
func (s *Server) allowed(ctx context.Context) (list []*base) {
	k := keyOf(ctx)
	for _, b := range s.cfg.Bases {
		if k.May(b.Name) {
			list = append(list, s.views.of(ctx, s.bases[b.Name], k))
		}
	}
	return list
}

// writable returns an error if the server is read-only.
func (s *Server) writable() error {
	if s.cfg.ReadOnly {
		return &requestError{Status: http.StatusForbidden, Code: "read_only",
			Message: "this server changes no knowledge base", Hint: "it was started with --read-only"}
	}
	return nil
}

var _ http.Handler = (*Server)(nil)

// models returns the Sluice whose models all bases share.
func (s *Server) models() *sluice.Sluice { return s.first.Sluice }
