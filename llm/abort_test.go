//go:build native && unix

package llm

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

const abortHelper = "SLUICE_TEST_ABORT_HELPER"

// TestAbortHelper is the child process of TestExitOnAbort, which aborts; it tests nothing itself.
func TestAbortHelper(t *testing.T) {
	if os.Getenv(abortHelper) == "" {
		t.Skip("SKIP: a helper process of TestExitOnAbort")
	}
	if err := ExitOnAbort(); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(os.Getpid(), syscall.SIGABRT); err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Minute)
}

// An abort in native code ends a program that asked for it with a sentence and exit code 1: no trace, no signal.
func TestExitOnAbort(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestAbortHelper$")
	cmd.Env = append(os.Environ(), abortHelper+"=1")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	var exit *exec.ExitError
	if err := cmd.Run(); !errors.As(err, &exit) || exit.ExitCode() != 1 ||
		!strings.HasPrefix(stderr.String(), "sluice: a native library gave up") ||
		strings.Count(stderr.String(), "\n") != 1 {
		t.Errorf("%v: %s", err, stderr.String())
	}
}
