package decisions

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/sluice-rag/sluice/rag/gate"
)

// anotherProcess makes this test binary write so many decisions into the file that it is given.
const anotherProcess = "SLUICE_TEST_DECISIONS"

func TestMain(m *testing.M) {
	if file := os.Getenv(anotherProcess); file != "" {
		l, err := Open(Options{File: file, MaxBytes: 20_000, Keep: 1000}, nil)
		for i := 0; i < 200 && err == nil; i++ {
			_, err = l.Add("store", fmt.Sprintf("question %d of process %d", i, os.Getpid()), gate.Decision{Score: .5},
				nil)
		}
		if err = errors.Join(err, l.Close()); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

func open(t testing.TB, o Options) *Log {
	t.Helper()
	o.File = cmp.Or(o.File, filepath.Join(t.TempDir(), "decisions.jsonl"))
	l, err := Open(o, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

func add(t testing.TB, l *Log, query string, d gate.Decision) string {
	t.Helper()
	id, err := l.Add("/store", query, d, nil)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func read(t testing.TB, l *Log) *Contents {
	t.Helper()
	c, err := Read(l.File())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestLog(t *testing.T) {
	l := open(t, Options{})
	shadow := &gate.ShadowDecision{Policy: "maximum:p10", Cutoff: .7}
	a := add(t, l, "a question", gate.Decision{Retrieve: true, Score: .6, Cutoff: .5, ScoredBy: "cosine", Policy: "p5",
		ContextID: "c1", Shadow: shadow})
	b := add(t, l, strings.Repeat("ö", maxQuery), gate.Decision{Score: .1, Cutoff: .5})
	for _, thumb := range []bool{true, false} { // the last word counts
		if err := l.Thumb(t.Context(), "/store", a, thumb); err != nil {
			t.Fatal(err)
		}
	}
	c := read(t, l)
	if len(c.Entries) != 2 || c.Bad != 0 || c.Entries[c.ByID[b]].Thumb != "" {
		t.Fatalf("%+v", c)
	}
	e := c.Entries[0]
	if in, ok := e.InScope(); e.ID != a || e.Query != "a question" || e.Thumb != Down || in || !ok || e.Score != .6 ||
		e.Best[0] != "c1" || *e.Shadow != *shadow || e.Time.IsZero() || e.Store != "/store" {
		t.Errorf("%+v", e)
	}
	if e := c.Entries[1]; !e.Cut || len(e.Query) != maxQuery {
		t.Errorf("%d bytes of a long question, cut %v", len(e.Query), e.Cut)
	}
	r := c.Report()
	if r.Decisions != 2 || r.Open != 1 || r.Down != 1 || r.OutScope != 1 || len(r.Shadows) != 1 ||
		r.Shadows[0] != (ShadowReport{Policy: "maximum:p10", Decisions: 1, Disagrees: 1, Closes: 1, Right: 1}) {
		t.Errorf("%+v", r)
	}
	// 0 is not a digit of base 32
	if err := l.Thumb(t.Context(), "/store", "d0000000000000000", true); !errors.Is(err, ErrUnknown) {
		t.Error(err)
	}
	if err := l.Thumb(t.Context(), "/store", newID(), true); !errors.Is(err, ErrUnknown) {
		t.Error(err)
	}
	st, err := os.Stat(l.File())
	if err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v: questions are nobody else's business", st.Mode(), err)
	}
	unknown := newID()
	again := open(t, Options{File: l.File()}) // feedback of another process, which has to look
	for _, log := range []*Log{l, again} {    // it is not told from one that there is not
		err, there := log.Thumb(t.Context(), "/other", b, true), log.Thumb(t.Context(), "/store", unknown, true)
		if !errors.Is(err, ErrUnknown) ||
			strings.ReplaceAll(err.Error(), b, "") != strings.ReplaceAll(there.Error(), unknown, "") {
			t.Errorf("of another store: %v", err)
		}
	}
	if err := again.Thumb(t.Context(), "/store", b, true); err != nil {
		t.Error(err)
	}
	t.Chdir("/") // the folder is the same, however it is named
	if err := again.Thumb(t.Context(), "store", b, true); err != nil {
		t.Error(err)
	}
	if n := read(t, l).Report(); n.Up != 1 || n.Down != 1 {
		t.Errorf("%+v", n)
	}
}

func TestDigests(t *testing.T) {
	l := open(t, Options{Text: Digest})
	add(t, l, "my secret question", gate.Decision{})
	text, err := os.ReadFile(l.File())
	if err != nil || bytes.Contains(text, []byte("secret")) {
		t.Errorf("%s, %v", text, err)
	}
	if e := read(t, l).Entries[0]; e.Query != "" || e.Digest != digestOf("my secret question") {
		t.Errorf("%+v", e)
	}
}

func TestOff(t *testing.T) {
	l, err := Open(Options{}, nil)
	if l != nil || err != nil {
		t.Fatal(l, err)
	}
	if _, err := l.Add("", "q", gate.Decision{}, nil); !errors.Is(err, ErrOff) {
		t.Error(err)
	}
	if err := errors.Join(l.Thumb(t.Context(), "", "x", true)); !errors.Is(err, ErrOff) || l.Close() != nil {
		t.Error(err)
	}
	for _, file := range []string{t.TempDir(), "/dev/null/x", filepath.Join(t.TempDir(), "no", "folder")} {
		if _, err := Open(Options{File: file}, nil); !errors.Is(err, ErrFile) {
			t.Errorf("%s: %v", file, err)
		}
	}
	if _, err := Read(filepath.Join(t.TempDir(), "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	open := open(t, Options{})
	if err := open.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := open.Add("", "q", gate.Decision{}, nil); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
}

// The log stays within its limits, and the newest decisions are in it.
func TestRotation(t *testing.T) {
	l := open(t, Options{MaxBytes: 2000, Keep: 2})
	var last string
	for i := range 100 {
		last = add(t, l, fmt.Sprintf("question %d", i), gate.Decision{})
	}
	entries, err := os.ReadDir(filepath.Dir(l.File()))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || info.Size() > 2000 {
			t.Errorf("%s has %d bytes, %v", e.Name(), info.Size(), err)
		}
		names = append(names, e.Name())
	}
	if got := strings.Join(names,
		" "); got != "decisions.jsonl decisions.jsonl.1 decisions.jsonl.2 decisions.jsonl.lock" {
		t.Errorf("files %s", got)
	}
	c := read(t, l)
	if n := len(c.Entries); n < 20 || n > 40 || c.Entries[n-1].ID != last || c.Files != 3 {
		t.Errorf("%d entries in %d files", n, c.Files)
	}
	for i, e := range c.Entries[1:] {
		if e.Time.Before(c.Entries[i].Time) {
			t.Fatal("the order is not that of the time")
		}
	}
	none := open(t, Options{MaxBytes: 1000})
	for i := range 20 {
		add(t, none, fmt.Sprintf("question %d", i), gate.Decision{})
	}
	if c := read(t, none); c.Files != 1 || len(c.Entries) > 6 {
		t.Errorf("%d entries in %d files without renamed ones", len(c.Entries), c.Files)
	}
}

// Lines that a kill, another program or another version has left are counted and do no harm.
func TestDamagedLines(t *testing.T) {
	l := open(t, Options{})
	a := add(t, l, "first", gate.Decision{})
	f, err := os.OpenFile(l.File(), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(f,
		"no JSON\n\n{\"v\":2,\"kind\":\"decision\",\"id\":%q}\n{\"v\":1,\"kind\":\"feedback\",\"id\":"+
			"\"daaaaaaaaaaaaaaaa\","+
			"\"thumb\":\"up\"}\n%s\n{\"v\":1,\"kind\":\"dec", a, strings.Repeat("x", maxLine+10))
	f.Close()
	b := add(t, l, "second", gate.Decision{})
	c := read(t, l)
	if len(c.Entries) != 2 || c.Entries[1].ID != b || c.Bad != 4 || c.Orphans != 1 {
		t.Errorf("%d entries, %d bad, %d orphans", len(c.Entries), c.Bad, c.Orphans)
	}
}

// Several processes and goroutines write at once, while the files are renamed: each line is there once and whole.
func TestProcesses(t *testing.T) {
	file := filepath.Join(t.TempDir(), "log")
	l := open(t, Options{File: file, MaxBytes: 20_000, Keep: 1000})
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), anotherProcess+"="+file)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
		wg.Go(func() {
			for i := range 200 {
				if _, err := l.Add("store", fmt.Sprintf("question %d of a goroutine", i), gate.Decision{},
					nil); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	c := read(t, l)
	if len(c.Entries) != 1200 || c.Bad != 0 || c.Files < 5 {
		t.Errorf("%d entries of 1200, %d bad lines, %d files", len(c.Entries), c.Bad, c.Files)
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"v":1,"kind":"decision","id":"daaaaaaaaaaaaaaaa","retrieve":true}` + "\n" +
		`{"v":1,"kind":"feedback","id":"daaaaaaaaaaaaaaaa","thumb":"up"}`))
	f.Add([]byte("\x00\n\n{}\n[]"))
	f.Fuzz(func(t *testing.T, text []byte) {
		c := &Contents{ByID: map[string]int{}}
		if err := c.read(bytes.NewReader(text)); err != nil {
			t.Fatal(err)
		}
		if r := c.Report(); r.Decisions != len(c.Entries) || r.Open > r.Decisions || r.Up+r.Down > r.Decisions {
			t.Fatalf("%+v", r)
		}
	})
}

// BenchmarkAdd says what a decision costs more where it is logged.
func BenchmarkAdd(b *testing.B) {
	l := open(b, Options{})
	for b.Loop() {
		add(b, l, "a question of ordinary length about something", gate.Decision{Score: .5})
	}
}
