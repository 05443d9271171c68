//go:build native

package llm

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"go.uber.org/goleak"
)

const (
	defaultGGUF = "SmolLM2-135M-Instruct" // of third_party/manifest.yaml
	// Other packages are tested at the same time, and two threads that wait for each other at every operation would then be
	// slower than one, by far.
	testThreads = 1
	smolSHA256  = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
)

// testModel returns the path of the default generator, or of $SLUICE_TEST_GGUF; it skips the test when there is none.
func testModel(t testing.TB) string {
	t.Helper()
	if path := os.Getenv("SLUICE_TEST_GGUF"); path != "" {
		return path
	}
	cache := os.Getenv("SLUICE_CACHE")
	if cache == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			t.Skip("SKIP: no cache folder:", err)
		}
		cache = filepath.Join(home, ".cache", "sluice")
	}
	path := filepath.Join(cache, "models", defaultGGUF, defaultGGUF+".Q4_1.gguf")
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		t.Skipf("SKIP: %s is not pulled (and SLUICE_TEST_GGUF is not set)", defaultGGUF)
	}
	return path
}

// shared is the model that most tests use: eight slots over one set of weights.
var shared struct {
	once  sync.Once
	model *Model
	err   error
}

func sharedModel(t testing.TB) *Model {
	path := testModel(t)
	shared.once.Do(func() {
		shared.model, shared.err = Open(context.Background(), path, Options{
			ContextSize: 2048, CacheTokens: 8192, Slots: 8, Threads: testThreads, Logger: slog.New(slog.DiscardHandler),
		})
	})
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.model
}

func openModel(t testing.TB, o Options) *Model {
	t.Helper()
	if o.Threads == 0 {
		o.Threads = testThreads
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	m, err := Open(context.Background(), testModel(t), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

func generate(t testing.TB, m *Model, r Request) Result {
	t.Helper()
	res, err := m.Generate(context.Background(), r, nil)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

func ask(question string) []Message { return []Message{{User, question}} }

// TestMain checks that nothing keeps running once the shared model is closed.
func TestMain(m *testing.M) {
	code := m.Run()
	if shared.model != nil {
		shared.model.Close()
	}
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}
