package serve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"github.com/sluice-rag/sluice"
	"github.com/sluice-rag/sluice/internal/testmodels/doubles"
	"github.com/sluice-rag/sluice/internal/testmodels/overlay"
	"github.com/sluice-rag/sluice/llm"
	"github.com/sluice-rag/sluice/rag/calibrate"
	"github.com/sluice-rag/sluice/rag/ingest"
)

// TestMain makes the test binary act as a server until it is killed, if serverEnv is set.
func TestMain(m *testing.M) {
	if dir := os.Getenv(serverEnv); dir != "" {
		if err := serveForTest(dir); err != nil {
			fmt.Fprintln(os.Stderr, "server:", err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// serverEnv is the variable with the store of a server in its own process.
const serverEnv = "SLUICE_TEST_SERVER"

// serveForTest serves a store with doubles for the models until SIGTERM. Writing beyond the file size limit is an error
// of the write and does not kill the process.
func serveForTest(dir string) error {
	signal.Ignore(syscall.SIGXFSZ)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	logger := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
	base, err := sluice.Open(ctx, sluice.Config{Store: dir, Embedder: doubles.NewEncoder(),
		Generator: doubles.NewModel("An answer."), Logger: logger})
	if err != nil {
		return err
	}
	s, err := New(overlay.On(DefaultConfig(),
		Config{Bases: []Base{{"sea", base}}, Logger: logger, Ingest: ingest.Options{Chunk: "32/0"}}))
	if err != nil {
		return err
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(l.Addr())
	return errors.Join(s.Serve(ctx, l), base.Close())
}

// world is a server over a small library, with doubles for the models.
type world struct {
	*Server
	sluice  *sluice.Sluice
	encoder *doubles.Encoder
	model   *doubles.Model
	other   llm.Generator // the language model, if it is not nil
	log     *lockedBuilder
	dir     string
	change  func(*sluice.Config) // nil: no change
}

// newWorld returns a warm server over a calibrated base named "sea"; change may be nil.
func newWorld(t testing.TB, change func(*Config)) *world {
	t.Helper()
	return (&world{model: doubles.NewModel("An answer [1].")}).open(t, change)
}

// newWorldOf is newWorld with another language model.
func newWorldOf(t testing.TB, model llm.Generator) *world {
	t.Helper()
	return (&world{model: doubles.NewModel(""), other: model}).open(t, nil)
}

// newWorldWith is newWorld with other settings of the library.
func newWorldWith(t testing.TB, change func(*sluice.Config)) *world {
	t.Helper()
	return (&world{model: doubles.NewModel("An answer [1]."), change: change}).open(t, nil)
}

func (w *world) open(t testing.TB, change func(*Config)) *world {
	t.Helper()
	w.encoder, w.log, w.dir = doubles.NewEncoder(), &lockedBuilder{}, t.TempDir()
	var model llm.Generator = w.model
	if w.other != nil {
		model = w.other
	}
	logger := slog.New(slog.NewJSONHandler(w.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	var err error
	cfg := sluice.Config{Store: filepath.Join(w.dir, "store"), Embedder: w.encoder, Generator: model, Logger: logger}
	if w.change != nil {
		w.change(&cfg)
	}
	w.sluice, err = sluice.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.sluice.Close(); err != nil {
			t.Error(err)
		}
	})
	w.fill(t, w.sluice)
	c := overlay.On(DefaultConfig(),
		Config{Bases: []Base{{"sea", w.sluice}}, Logger: logger, Ingest: ingest.Options{Chunk: "32/0"}})
	if change != nil {
		change(&c)
	}
	if w.Server, err = New(c); err != nil {
		t.Fatal(err)
	}
	if err := w.Warm(t.Context()); err != nil {
		t.Fatal(err)
	}
	return w
}

// fill ingests the small library and calibrates.
func (w *world) fill(t testing.TB, s *sluice.Sluice) {
	t.Helper()
	path := filepath.Join(w.dir, "a.jsonl")
	if err := os.WriteFile(path, []byte(doubles.Contexts), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Ingest(t.Context(), []string{path}, ingest.Options{NoChunk: true}); err != nil {
		t.Fatal(err)
	}
	o := calibrate.Options{Queries: strings.NewReader(doubles.Questions), Source: "questions"}
	if _, err := s.Calibrate(t.Context(), o); err != nil {
		t.Fatal(err)
	}
}

// do sends a request to a handler and returns status and body. It checks the response against openapi.json.
func do(t testing.TB, h http.Handler, r *http.Request) (int, string) {
	t.Helper()
	w := httptest.NewRecorder()
	s, err := loadSpec()
	if err != nil {
		t.Fatal(err)
	}
	h.ServeHTTP(w, r)
	s.check(t, r, w.Code, w.Header().Get("Content-Type"), w.Body.String())
	return w.Code, w.Body.String()
}

// post returns a request with a JSON body.
func post(path, body string) *http.Request {
	r := httptest.NewRequestWithContext(context.Background(), http.MethodPost, "http://localhost"+path,
		strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	return r
}

func get(path string) *http.Request {
	return httptest.NewRequestWithContext(context.Background(), http.MethodGet, "http://localhost"+path, http.NoBody)
}

// as decodes a JSON body.
func as[T any](t testing.TB, body string) (v T) {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(body))
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	if _, err := d.Token(); err != io.EOF {
		t.Fatalf("more than one value: %s", body)
	}
	return v
}

// failure returns the error of a body.
func failure(t testing.TB, body string) requestError {
	t.Helper()
	e := as[errorBody](t, body).Error
	if e == nil || e.Message == "" || e.Type == "" {
		t.Fatalf("no error: %s", body)
	}
	return *e
}
