package harness

import (
	"errors"
	"fmt"
	"io"
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

// report is one of a benchmark.
type report struct {
	Notes []string `json:"notes"`
}

func (r *report) Markdown(w io.Writer) error {
	LimitsTable(w, 2, Limit{"reading memory", 3.2e10, "GB/s"}, Limit{"int8, AMX", 0, "Gop/s"})
	NotesList(w, r.Notes)
	VersionsList(w, map[string]string{"go": "1.26", Own: "dev"})
	return nil
}

func TestReportsAreWritten(t *testing.T) {
	dir, said := filepath.Join(t.TempDir(), "results"), 0
	r := &report{}
	for range 2 {
		Note(&r.Notes, func(string) { said++ }, "bench: %s is skipped:\nnot there", "faiss")
	}
	if err := Write(dir, r); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "report.md"))
	want := "Limits measured in this run (2 threads):\n\n| limit | |\n|---|---|\n| reading memory | 32 GB/s |\n\n" +
		"## Notes\n\n- faiss is skipped: not there\n\n## Versions\n\n- go 1.26\n- sluice dev\n"
	if err != nil || string(text) != want || said != 1 {
		t.Errorf("%q, %v, said %d times", text, err, said)
	}
	text, err = os.ReadFile(filepath.Join(dir, "report.json"))
	if err != nil || !strings.Contains(string(text), "faiss") {
		t.Errorf("%q, %v", text, err)
	}
}

func TestOptionsAreChecked(t *testing.T) {
	if err := Known("peer", []string{"faiss", "fais"}, []string{"faiss"}); err == nil ||
		err.Error() != `peer "fais" (there are faiss)` {
		t.Error(err)
	}
	if n, err := Threads(0); err != nil || n < 1 {
		t.Error(n, err)
	}
	for _, n := range []int{-1, 1 << 20} {
		if _, err := Threads(n); err == nil {
			t.Errorf("%d threads are taken", n)
		}
	}
	t.Setenv("SLUICE_CACHE", t.TempDir())
	given, missing := "here", ""
	if err := InCache(map[*string]string{&given: "a/b", &missing: "a/b"}); err != nil || given != "here" ||
		!strings.HasSuffix(missing, filepath.Join("a", "b")) || !filepath.IsAbs(missing) {
		t.Errorf("%q, %q, %v", given, missing, err)
	}
}
