package serve

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/sluice-rag/sluice/serve/page"
)

// handler answers a request or returns an error, which is written as kinds says unless the response has begun.
type handler func(w http.ResponseWriter, r *http.Request) error

// taking returns a handler of requests whose body is a T (decode).
func taking[T any](f func(w http.ResponseWriter, r *http.Request, in *T) error) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		in := new(T)
		if err := decode(r, in); err != nil {
			return err
		}
		return f(w, r, in)
	}
}

// about returns a handler of requests whose address names a knowledge base.
func (s *Server) about(f func(w http.ResponseWriter, r *http.Request, b *base) error) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		b, err := s.base(r, "")
		if err != nil {
			return err
		}
		return f(w, r, b)
	}
}

// use is what a route requires of the middleware.
type use int

const (
	public  use = iota // no key, no limit on requests under way
	keyed              // needs a key, if there are Keys
	managed            // as keyed, with a key that may read everything
	scraped            // as managed, but without the limit on requests: monitoring must see a full server
	answers            // as keyed, for routes on which the language model generates
	upload             // as managed, with a body as large as a file
)

type endpoint struct {
	pattern string // for http.ServeMux
	use     use
	handler handler
	query   string // names of its parameters in the URL; not checked for public and scraped routes
}

func (s *Server) table() []endpoint {
	return []endpoint{
		{"GET /{$}", public, s.page, ""},
		{"GET /page/", public, s.page, ""},
		{"GET /healthz", public, s.health, ""},
		{"GET /readyz", public, s.readyz, ""},
		{"GET /info", keyed, s.info, ""},
		{"GET /metrics", scraped, s.metrics.serve, ""},
		{"GET /openapi.json", public, s.describe, ""},
		{"POST /v1/gate", keyed, taking(s.gate), "store"},
		{"POST /v1/retrieve", keyed, s.retrieve, "store"},
		{"POST /v1/feedback", keyed, taking(s.feedback), "store"},

		{"GET /v1/documents", keyed, s.about(s.listDocuments), "store q topic offset limit"},
		{"POST /v1/documents", upload, s.addDocuments, "store"},
		{"GET /v1/documents/{id}", keyed, s.about(s.showDocument), "store offset limit"},
		{"DELETE /v1/documents/{id}", managed, s.about(s.deleteDocument), "store"},
		{"GET /v1/chunks/{id}", keyed, s.about(s.showChunk), "store"},
		{"GET /v1/calibration", managed, s.about(s.showCalibration), "store name"},
		{"POST /v1/calibration", managed, taking(s.calibrate), "store"},
		{"POST /v1/calibration/policy", managed, taking(s.changePolicy), "store"},
		{"GET /v1/jobs", managed, s.listJobs, "store"},
		{"GET /v1/jobs/{id}", managed, s.showJob, ""},
		{"DELETE /v1/jobs/{id}", managed, s.cancelJob, ""},
		{"GET /v1/jobs/{id}/events", managed, s.followJob, ""},

		{"GET /v1/keys", managed, s.listKeys, ""},
		{"POST /v1/keys", managed, taking(s.addKey), ""},
		{"POST /v1/keys/{name}/rotate", managed, taking(s.rotateKey), ""},
		{"DELETE /v1/keys/{name}", managed, s.removeKey, ""},

		{"POST /v1/chat/completions", answers, taking(s.chat), "store *"},
		{"POST /v1/completions", answers, taking(s.completions), "*"},
		{"POST /v1/embeddings", keyed, taking(s.embeddings), "*"},
		{"POST /v1/rerank", keyed, taking(s.rerank), "*"},
		{"POST /v2/rerank", keyed, taking(s.rerankV2), "*"},
		{"POST /v1/classify", keyed, taking(s.classify), "*"},
		{"GET /v1/models", keyed, s.modelList, "*"},
		{"GET /v1/models/{model...}", keyed, s.oneModel, "*"},
		{"POST /tokenize", keyed, taking(s.tokenize), "*"},

		{"POST /v1/responses", answers, taking(s.responses), "store *"},
		{"POST /v1/messages", answers, taking(s.messages), "store *"},
		{"GET /api/version", public, s.ollamaVersion, ""},
		{"GET /api/tags", keyed, s.ollamaTags, ""},
		{"POST /api/show", keyed, s.ollamaShow, ""},
		{"POST /api/chat", answers, taking(s.ollamaChat), "store"},
		{"POST /api/generate", answers, taking(s.ollamaGenerate), "store"},
		{"POST /api/embed", keyed, s.ollamaEmbed, ""},
		{"POST /retrieval", keyed, s.difyRetrieve, "store"},

		{"POST /mcp", keyed, s.about(s.message), "store"},
		{"DELETE /mcp", keyed, s.about(s.message), "store"},
	}
}

// mux routes requests to their handlers.
func (s *Server) mux() http.Handler {
	m := http.NewServeMux()
	s.routes = s.table()
	methods := map[string][]string{}
	for _, r := range s.routes {
		m.Handle(r.pattern, s.run(r))
		method, path, _ := strings.Cut(r.pattern, " ")
		methods[path] = append(methods[path], method)
	}
	for path, list := range methods { // other methods are a 405 in this package's format
		allow := strings.Join(list, ", ")
		m.Handle(path, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Allow", allow)
			s.fail(w, &requestError{Status: http.StatusMethodNotAllowed, Code: "method",
				Message: r.URL.Path + " takes " + allow + ", given " + r.Method})
		}))
	}
	if _, ok := methods["/"]; !ok {
		m.Handle("/", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			s.fail(w, &requestError{Status: http.StatusNotFound, Code: "unknown_route",
				Message: "there is nothing at " + r.URL.Path, Hint: "GET /openapi.json lists what there is"})
		}))
	}
	return m
}

// fail writes an error as the response and keeps it for the log.
func (s *Server) fail(w http.ResponseWriter, err error) {
	if out, ok := w.(*response); ok {
		out.err = err
	}
	writeError(w, err)
}

// run wraps a route's handler with what its use requires.
func (s *Server) run(at endpoint) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := s.enter(w, r, at); err != nil {
			out, _ := w.(*response)
			if out != nil {
				out.err = err
			}
			switch {
			case context.Cause(r.Context()) == errEnding: //nolint:errorlint // it is set as it is
				err = errEnding
			case r.Context().Err() != nil && errors.Is(err, context.Canceled):
				return // the client does not read a response
			}
			switch {
			case out == nil || out.status == 0:
				writeError(w, err)
			case errors.Is(err, errEnding) && strings.HasPrefix(w.Header().Get("Content-Type"), "text/event-stream"):
				last := stream{w: w, begun: true}
				_ = last.send("data: ", errorBody{errEnding.finish()}, "\n\n") // the client has left
			}
		}
	})
}

// enter admits a request: key, body, room and deadline.
func (s *Server) enter(w http.ResponseWriter, r *http.Request, at endpoint) error {
	if r.ProtoMajor == 1 && len(r.TransferEncoding) > 0 {
		// net/http drops a Content-Length beside chunks, and what follows may belong to another request.
		w.Header().Set("Connection", "close")
	}
	if at.use == public {
		return at.handler(w, r)
	}
	k, err := s.cfg.Keys.of(r)
	if err != nil {
		return err
	}
	r = r.WithContext(k.scope.In(context.WithValue(r.Context(), keyKey, k)))
	if at.use == managed || at.use == scraped || at.use == upload {
		if err := k.whole(); err != nil {
			return err
		}
	}
	if at.use == scraped {
		return at.handler(w, r)
	}
	s.underWay.Add(1)
	defer s.underWay.Add(-1)
	if s.draining.Load() {
		return errEnding
	}
	if err := at.checkQuery(r); err != nil {
		return err
	}
	end, err := s.receive(w, r, at, k)
	if err != nil {
		return err
	}
	defer end()
	ctx, cancel := context.WithTimeout(r.Context(), s.cfg.Limits.Timeout)
	defer cancel()
	r = r.WithContext(ctx)
	if at.use == upload { // its handler receives the body, and the ingest waits in a queue
		return at.handler(w, r)
	}
	select {
	case s.room <- struct{}{}:
		defer func() { <-s.room }()
	default:
		return &requestError{Status: http.StatusTooManyRequests, Code: "too_many_requests",
			Message: "too many requests are under way", Hint: "serve.max_requests is the limit"}
	}
	if at.use == answers {
		if err := s.mayAnswer(); err != nil {
			return err
		}
		defer s.answering.Add(-1)
	}
	return at.handler(w, r)
}

// mayAnswer admits a request to the language model, unless there are too many. A later refusal would be too late: a
// stream sends its sources before the model is asked, and a flow asks it more than once.
func (s *Server) mayAnswer() error {
	n, limit := s.answering.Add(1), int64(s.cfg.Limits.Answers)
	if limit == 0 || n <= limit {
		return nil
	}
	s.answering.Add(-1)
	return &requestError{Status: http.StatusTooManyRequests, Code: "busy",
		Message: fmt.Sprintf("%d answers are being written or wait, the limit is %d", n-1, limit),
		Hint:    "the limit is the language model's slots and serve.queue"}
}

// page serves the web page and its files.
func (s *Server) page(w http.ResponseWriter, r *http.Request) error {
	if !page.Has(r.URL.Path) {
		return &requestError{Status: http.StatusNotFound, Code: "unknown_route",
			Message: fmt.Sprintf("the page has no file %q", shortened(r.URL.Path))}
	}
	s.pages.ServeHTTP(w, r)
	return nil
}

// openAPI describes the endpoints in OpenAPI 3.1. Tests compare it with the table of routes, and all responses in this
// package's tests with it. The schemas with "x-from" are generated from Go types: go test -run OpenAPI -update.
//
//go:embed openapi.json
var openAPI []byte

// describe answers GET /openapi.json.
func (s *Server) describe(w http.ResponseWriter, _ *http.Request) error {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	_, err := w.Write(openAPI)
	return err
}
