package llm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

const probeHelper = "SLUICE_TEST_PROBE_HELPER"

// TestProbeHelper is no test but the helper of TestProbe's cases.
func TestProbeHelper(t *testing.T) {
	switch what, _ := os.LookupEnv(probeHelper); what {
	case "":
		t.Skip("SKIP: a helper process of TestProbe")
	case "abort":
		fmt.Fprintln(os.Stderr, "ggml.c:1: GGML_ASSERT(false) failed\nmore")
		os.Exit(2) // as Go's runtime does at a SIGABRT in C
	case "kill":
		self, err := os.FindProcess(os.Getpid())
		if err != nil {
			t.Fatal(err)
		}
		self.Kill()
		time.Sleep(time.Hour)
	case "silent":
		os.Exit(0)
	case "hang":
		time.Sleep(time.Hour)
	case "serve":
		if err := ServeProbe(context.Background(), os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		os.Exit(0)
	case "fine":
		fmt.Println(`{"ok":true}`)
		os.Exit(0)
	}
}

func probe(t *testing.T, ctx context.Context, helper, path string) error {
	t.Helper()
	t.Setenv(probeHelper, helper)
	return Probe(ctx, []string{os.Args[0], "-test.run", "^TestProbeHelper$"}, path, Options{})
}

// TestProbe: whatever becomes of the process that tries a file first, its caller gets an error that says so.
func TestProbe(t *testing.T) {
	var crash *CrashError
	err := probe(t, t.Context(), "abort", "x.gguf")
	if !errors.Is(err, ErrModel) || !errors.As(err, &crash) || crash.How != "exit status 2" ||
		crash.Says != "ggml.c:1: GGML_ASSERT(false) failed" {
		t.Errorf("an assertion: %v", err)
	}
	err = probe(t, t.Context(), "kill", "x.gguf")
	if !errors.Is(err, ErrModel) || !errors.As(err, &crash) || crash.How != "signal: killed" {
		t.Errorf("a signal: %v", err)
	}
	if err := probe(t, t.Context(), "fine", "x.gguf"); err != nil {
		t.Errorf("a usable file: %v", err)
	}
	if err := probe(t, t.Context(), "silent", "x.gguf"); !errors.Is(err, ErrOptions) {
		t.Errorf("a program that is no helper: %v", err)
	}
	if err := Probe(t.Context(), []string{"/nonexistent/helper"}, "x.gguf",
		Options{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no such program: %v", err)
	}
	if err := Probe(t.Context(), nil, "x.gguf", Options{}); !errors.Is(err, ErrOptions) {
		t.Errorf("no helper: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := probe(t, ctx, "hang", "x.gguf"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a helper that hangs: %v", err)
	}
	want := ErrModel
	if !Available {
		want = ErrUnavailable
	}
	if err := probe(t, t.Context(), "serve", "/nonexistent/x.gguf"); !errors.Is(err, want) {
		t.Errorf("a file that is not there: %v", err)
	}
	var exit *exec.ExitError
	if err := ServeProbe(t.Context(), strings.NewReader("{"), os.Stdout); err == nil || errors.As(err, &exit) {
		t.Errorf("no request: %v", err)
	}
}
