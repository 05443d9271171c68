package harness

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestDigits(t *testing.T) {
	for x, want := range map[float64]float64{0: 0, 1.23456: 1.235, 98766: 98770, -0.000123456: -0.0001235} {
		if got := Digits(x); got != want {
			t.Errorf("Digits(%v) = %v, want %v", x, got, want)
		}
	}
}

func TestAtomically(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "new", "file")
	write := func(text string, err error) func(*os.File) error {
		return func(f *os.File) error { _, werr := f.WriteString(text); return errors.Join(werr, err) }
	}
	full := errors.New("disk full")
	if err := Atomically(path, write("half", full)); !errors.Is(err, full) {
		t.Error(err)
	}
	if left, err := os.ReadDir(filepath.Dir(path)); err != nil || len(left) > 0 {
		t.Errorf("a failed write leaves %v, %v", left, err)
	}
	for _, text := range []string{"one", "two"} {
		if err := Atomically(path, write(text, nil)); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != text {
			t.Errorf("%q, %v", got, err)
		}
	}
}

func TestTail(t *testing.T) {
	var tail Tail
	if got := tail.Last(); got != "" {
		t.Errorf("%q", got)
	}
	for i := range 1000 {
		fmt.Fprintf(&tail, "line %d\n", i)
	}
	fmt.Fprint(&tail, "out of memory\n\n")
	if got := tail.Last(); got != ": out of memory" || len(tail.text) > 4096 {
		t.Errorf("%q, %d bytes kept", got, len(tail.text))
	}
	if p := Processor(); strings.TrimSpace(p) == "" {
		t.Error("the processor has no name")
	}
}

func TestTableHead(t *testing.T) {
	if got, want := TableHead("", "impl"), "|  | impl |\n|---|---|\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
