package panics

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

// thrown panics as a bug does.
func thrown(list []int) error {
	_ = list[len(list)]
	return nil
}

func TestCall(t *testing.T) {
	err := fmt.Errorf("a job: %w", Call(func() error { return thrown([]int{1}) }))
	if !strings.Contains(err.Error(), "index out of range [1]") || !strings.Contains(Stack(err), "panics.thrown") {
		t.Errorf("%v, stack %s", err, Stack(err))
	}
	failed := errors.New("failed")
	if err := Call(func() error { return failed }); err != failed || Stack(err) != "" { //nolint:errorlint // itself
		t.Errorf("%v", err)
	}
}

func TestLog(t *testing.T) {
	var b bytes.Buffer
	func() {
		defer Log(slog.New(slog.NewTextHandler(&b, nil)), "a search")
		_ = thrown(nil)
	}()
	if s := b.String(); !strings.Contains(s, "a search panicked") || !strings.Contains(s, "panics.thrown") {
		t.Error(s)
	}
}
