package serve

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/sluice-rag/sluice/internal/panics"
	"github.com/sluice-rag/sluice/internal/printable"
	"github.com/sluice-rag/sluice/internal/spans"
)

// contextKey is the type of the keys of a request's context.
type contextKey int

const (
	keyKey contextKey = iota
	idKey
	baseKey
)

func keyOf(ctx context.Context) key {
	k, _ := ctx.Value(keyKey).(key)
	return k
}

// requestID returns the id of a request, which its response and the log carry.
func requestID(ctx context.Context) string {
	id, _ := ctx.Value(idKey).(string)
	return id
}

var idPattern = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

// response is a http.ResponseWriter that records what was written, and sets a deadline for each piece.
type response struct {
	http.ResponseWriter
	status  int
	bytes   int64
	within  time.Duration
	control *http.ResponseController
	err     error // error that the handler returned
	path    string
}

func (w *response) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *response) WriteHeader(status int) {
	w.status = cmp.Or(w.status, status)
	w.ResponseWriter.WriteHeader(status)
}

func (w *response) Write(b []byte) (int, error) {
	w.status = cmp.Or(w.status, http.StatusOK)
	_ = w.control.SetWriteDeadline(time.Now().Add(w.within)) // fails only for the connections of tests
	n, err := w.ResponseWriter.Write(b)
	w.bytes += int64(n)
	return n, err
}

// middleware wraps the handling of every request.
func (s *Server) middleware(next http.Handler) http.Handler {
	return http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		id := r.Header.Get("X-Request-Id")
		if !idPattern.MatchString(id) {
			id = strings.ToLower(rand.Text())
		}
		w := &response{ResponseWriter: out, within: s.cfg.Limits.Write, path: r.URL.Path,
			control: http.NewResponseController(out)}
		h := w.Header()
		h.Set("X-Request-Id", id)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Cache-Control", "no-store")
		ctx, span := s.trace(r)
		r = r.WithContext(context.WithValue(ctx, idKey, id))
		started := time.Now()
		defer func() {
			defer span.End()
			if why := recover(); why != nil {
				s.panicked(w, r, why)
			}
			s.logRequest(w, r, time.Since(started))
		}()
		if err := s.reachable(w, r); err != nil {
			w.err = err
			writeError(w, err)
			return
		}
		if r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != "" {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// trace begins the span of a request, below the caller's if it names one (W3C Trace Context). Names and attributes
// follow OpenTelemetry's conventions for HTTP.
func (s *Server) trace(r *http.Request) (context.Context, trace.Span) {
	ctx := propagation.TraceContext{}.Extract(r.Context(), propagation.HeaderCarrier(r.Header))
	return s.cfg.Traces.Tracer(spans.Scope).Start(ctx, r.Method, trace.WithSpanKind(trace.SpanKindServer),
		trace.WithAttributes(attribute.String("http.request.method", r.Method),
			attribute.String("url.path", r.URL.Path)))
}

// traced records the result of a request in its span.
func traced(r *http.Request, status int, cause string) {
	span := trace.SpanFromContext(r.Context())
	if !span.IsRecording() {
		return
	}
	if r.Pattern != "" {
		span.SetName(r.Pattern)
		_, route, _ := strings.Cut(r.Pattern, " ")
		span.SetAttributes(attribute.String("http.route", route))
	}
	span.SetAttributes(attribute.Int("http.response.status_code", status),
		attribute.String("sluice.request", requestID(r.Context())))
	if status >= 500 {
		span.SetStatus(codes.Error, cause)
	}
}

// panicked responds for a handler that has panicked. A response that has begun is aborted.
func (s *Server) panicked(w *response, r *http.Request, why any) {
	if why == http.ErrAbortHandler { //nolint:errorlint // the value itself is what net/http documents
		panic(why)
	}
	s.log.Error("a handler panicked", "request", requestID(r.Context()), "panic", fmt.Sprint(why),
		"stack", string(debug.Stack()))
	if w.status != 0 {
		panic(http.ErrAbortHandler)
	}
	writeError(w, errors.New("panic"))
}

func (s *Server) logRequest(w *response, r *http.Request, took time.Duration) {
	level, status := slog.LevelInfo, w.status
	status = cmp.Or(status, 499) // the client left before the response; nginx's number for that
	attrs := []slog.Attr{slog.String("request", requestID(r.Context())), slog.String("method", r.Method),
		slog.String("path", printable.Message(r.URL.Path)), slog.Int("status", status), slog.Int64("bytes", w.bytes),
		slog.Float64("ms", float64(took.Microseconds())/1000), slog.String("from", r.RemoteAddr)}
	if id := trace.SpanContextFromContext(r.Context()); id.IsSampled() {
		attrs = append(attrs, slog.String("trace", id.TraceID().String()))
	}
	said := ""
	if w.err != nil {
		cause := w.err
		if e, ok := errors.AsType[*requestError](w.err); ok && e.cause != nil {
			cause = e.cause
		}
		said = cause.Error()
		attrs = append(attrs, slog.String("error", printable.Message(said)))
		if s := panics.Stack(cause); s != "" { // of a goroutine that worked for the handler
			attrs = append(attrs, slog.String("stack", s))
		}
		if status >= 500 {
			level = slog.LevelError
		}
	}
	traced(r, status, said)
	s.log.LogAttrs(r.Context(), level, "request", attrs...)
	s.metrics.request(r.Pattern, status, took)
}

// reachable refuses requests that another site's web page makes with the user's browser, and sets the headers for
// allowed pages.
func (s *Server) reachable(w http.ResponseWriter, r *http.Request) error {
	if !s.knownHost(r.Host) {
		return &requestError{Status: http.StatusForbidden, Code: "unknown_host",
			Message: fmt.Sprintf("this server is not called %q", r.Host),
			Hint:    "serve.hosts lists the names that it may be addressed by"}
	}
	origin := r.Header.Get("Origin")
	if origin != "" && slices.Contains(s.cfg.Origins, origin) {
		h := w.Header()
		h.Set("Access-Control-Allow-Origin", origin)
		h.Add("Vary", "Origin")
		h.Set("Access-Control-Allow-Methods", "GET, POST, DELETE")
		h.Set("Access-Control-Allow-Headers", allowedHeaders(r.Header.Get("Access-Control-Request-Headers")))
		h.Set("Access-Control-Expose-Headers", "Mcp-Session-Id, Retry-After, X-Request-Id")
		h.Set("Access-Control-Max-Age", "600")
	}
	if err := s.origins.Check(r); err != nil {
		return &requestError{Status: http.StatusForbidden, Code: "cross_origin", cause: err,
			Message: fmt.Sprintf("the page at %q may not use this server", origin),
			Hint:    "serve.origins lists the sites whose pages may"}
	}
	return nil
}

// allowedHeaders returns the headers that a page may send: OpenAI's client adds a dozen of its own, which have no
// effect here.
func allowedHeaders(asked string) string {
	const always = "Authorization, Content-Type, Mcp-Method, Mcp-Name, Mcp-Protocol-Version, Mcp-Session-Id, " +
		"Sluice-Store, X-Api-Key, X-Request-Id"
	allowed := always
	for name := range strings.SplitSeq(asked, ",") {
		name = strings.ToLower(strings.TrimSpace(name))
		if strings.HasPrefix(name, "x-stainless-") && idPattern.MatchString(name) {
			allowed += ", " + name
		}
	}
	return allowed
}

// knownHost reports whether a request is addressed to this server: by an IP address, as localhost, or by a configured
// name. A page whose name an attacker makes resolve to this machine sends that name.
func (s *Server) knownHost(host string) bool {
	if s.cfg.Keys != nil && s.cfg.Hosts == nil {
		return true // a page does not have a key
	}
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	name = strings.Trim(strings.TrimSuffix(name, "."), "[]")
	if strings.EqualFold(name, "localhost") || net.ParseIP(name) != nil {
		return true
	}
	return slices.ContainsFunc(s.cfg.Hosts, func(h string) bool { return strings.EqualFold(h, name) })
}
