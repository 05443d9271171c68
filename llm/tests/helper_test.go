//go:build native

package tests

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/sluice-rag/sluice/internal/models"
	"github.com/sluice-rag/sluice/internal/testmodels/generator"
	"github.com/sluice-rag/sluice/llm"
)

const (
	// Other packages are tested concurrently, and two threads that wait for each other at every operation would then
	// be much slower than one.
	testThreads     = 1
	maxAlternatives = 20 // of llm.Request.Alternatives
	smolSHA256      = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
)

// testModel returns the path of the default generator, or of $SLUICE_TEST_GGUF; it skips the test if there is no such
// file.
func testModel(t testing.TB) string {
	t.Helper()
	if path := os.Getenv("SLUICE_TEST_GGUF"); path != "" {
		return path
	}
	path, err := models.LocateGGUF("SmolLM2-135M-Instruct")
	if err != nil {
		t.Skipf("SKIP: no SLUICE_TEST_GGUF, and the default language model is not there: %v", err)
	}
	return path
}

// shared is the model that most tests use: eight slots over one set of weights.
var shared struct {
	once  sync.Once
	model *llm.Model
	err   error
}

// written holds the files of presets, which are read-only: writing one takes longer than opening and using it,
// especially under a sanitizer.
var written struct {
	sync.Mutex
	dir   string
	files []presetWritten
}

type presetWritten struct {
	model generator.Model
	path  string
}

// presetFile returns the path of a model's file, which it writes on first use.
func presetFile(m generator.Model) (path string, err error) {
	written.Lock()
	defer written.Unlock()
	for _, f := range written.files {
		if reflect.DeepEqual(f.model, m) {
			return f.path, nil
		}
	}
	if written.dir == "" {
		if written.dir, err = os.MkdirTemp("", "presets"); err != nil {
			return "", err
		}
	}
	dir := filepath.Join(written.dir, strconv.Itoa(len(written.files)))
	path = filepath.Join(dir, m.Name+".gguf")
	if err := errors.Join(os.Mkdir(dir, 0o700), generator.Write(path, m)); err != nil {
		return "", err
	}
	written.files = append(written.files, presetWritten{m, path})
	return path, nil
}

func sharedModel(t testing.TB) *llm.Model {
	path := testModel(t)
	shared.once.Do(func() {
		shared.model, shared.err = llm.Open(context.Background(), path, llm.Options{
			ContextSize: 2048, CacheTokens: 8192, Slots: 8, Threads: testThreads, Logger: slog.New(slog.DiscardHandler),
		})
	})
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.model
}

func openModel(t testing.TB, o llm.Options) *llm.Model {
	t.Helper()
	o.Threads = cmp.Or(o.Threads, testThreads)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	m, err := llm.Open(context.Background(), testModel(t), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

func generate(t testing.TB, m *llm.Model, r llm.Request) llm.Result {
	t.Helper()
	res, err := m.Generate(context.Background(), r, nil)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

func system(text string) llm.Message    { return llm.Message{Role: llm.System, Content: text} }
func user(text string) llm.Message      { return llm.Message{Role: llm.User, Content: text} }
func assistant(text string) llm.Message { return llm.Message{Role: llm.Assistant, Content: text} }

func ask(question string) []llm.Message { return []llm.Message{user(question)} }

// TestMain checks that nothing keeps running once the shared model is closed, and removes the presets' files.
func TestMain(m *testing.M) {
	code := m.Run()
	if shared.model != nil {
		shared.model.Close()
	}
	if err := os.RemoveAll(written.dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}
