package ingest_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/internal/testmodels/doubles"
	"github.com/sluice-rag/sluice/rag/ingest"
	"github.com/sluice-rag/sluice/rag/knowledge"
)

// edits makes random edits of a folder: files are made, changed, moved, swapped, copied, emptied and removed.
type edits struct {
	*rand.Rand
	f     *folder
	names []string
	n     int
}

func (e *edits) text() string {
	e.n++
	if e.IntN(8) == 0 {
		return words(fmt.Sprintf("thing%c", 'a'+rune(e.IntN(3)))) // which other files have, too
	}
	var b strings.Builder
	for range 1 + e.IntN(5) {
		b.WriteString(words(strings.Repeat(string('a'+rune(e.IntN(26))), 3+e.n%7)) + "\n\n")
	}
	return b.String()
}

func (e *edits) pick() string { return e.names[e.IntN(len(e.names))] }

func (e *edits) fresh() string {
	e.n++
	return fmt.Sprintf("%s%d.md", []string{"", "sub/", "sub/deep/"}[e.IntN(3)], e.n)
}

func (e *edits) drop(name string) {
	for i, x := range e.names {
		if x == name {
			e.names = append(e.names[:i], e.names[i+1:]...)
			return
		}
	}
}

func (e *edits) edit() {
	if len(e.names) < 4 {
		name := e.fresh()
		e.f.write(name, e.text())
		e.names = append(e.names, name)
		return
	}
	a, b := e.pick(), e.pick()
	switch e.IntN(8) {
	case 0, 1:
		name := e.fresh()
		e.f.write(name, e.text())
		e.names = append(e.names, name)
	case 2:
		e.f.write(a, e.text())
	case 3:
		e.f.remove(a)
		e.drop(a)
	case 4:
		name := e.fresh()
		e.f.move(a, name)
		e.drop(a)
		e.names = append(e.names, name)
	case 5:
		if a != b {
			e.f.move(a, "swap")
			e.f.move(b, a)
			e.f.move("swap", b)
		}
	case 6:
		if a != b { // over another one
			e.f.move(a, b)
			e.drop(a)
		}
	case 7:
		var lines strings.Builder
		for i := range 1 + e.IntN(6) {
			fmt.Fprintf(&lines, `{"id":"line%d","text":"A line about %c."}`+"\n", i, 'a'+rune(e.IntN(26)))
		}
		e.f.write("all.jsonl", lines.String())
	}
}

// After any edits a sync leaves what a first ingest of the folder makes: the same documents, chunks and vectors. Also
// when it was interrupted at any commit before, and when two processes do it at once.
func TestSyncEqualsFreshIngest(t *testing.T) {
	seeds := 12
	if testing.Short() {
		seeds = 3
	}
	for seed := range seeds {
		f := newFolder(t, nil)
		e := &edits{Rand: rand.New(rand.NewPCG(uint64(seed), 7)), f: f}
		for range 6 {
			for range 1 + e.IntN(12) {
				e.edit()
			}
			any := func(o *ingest.Options) { o.DeleteAll, o.CommitEvery = true, 1+e.IntN(20) }
			switch e.IntN(3) {
			case 0:
				f.interrupted(e.IntN(6), any)
			case 1:
				f.together(any)
			}
			if _, err := f.trySync(any); err != nil {
				t.Fatal(err)
			}
			f.isFresh()
			if r, err := f.trySync(any); err != nil || r.Read+r.Commits+r.Sync.Removed != 0 {
				t.Errorf("twice: %+v %+v %v", r, r.Sync, err)
			}
			if t.Failed() {
				t.Fatalf("seed %d", seed)
			}
		}
	}
}

// interrupted ends a sync after so many commits and removals.
func (f *folder) interrupted(after int, change func(*ingest.Options)) {
	f.t.Helper()
	ctx, cancel := context.WithCancel(f.t.Context())
	defer cancel()
	o := ingest.Options{Sync: true, Chunk: "32/0"}
	change(&o)
	event := func() {
		if after--; after < 0 {
			cancel()
		}
	}
	o.OnCommit = func([]string) { event() }
	o.OnChange = func(ingest.Change) { event() }
	_, err := ingest.Run(ctx, f.Base.Base, ingest.Input{Paths: []string{f.dir}, Options: o})
	if err != nil && !errors.Is(err, context.Canceled) {
		f.t.Fatal(err)
	}
}

// together has two bases over the same store synchronise at once, as two processes would.
func (f *folder) together(change func(*ingest.Options)) {
	f.t.Helper()
	other := doubles.NewBase(f.t, func(c *knowledge.Config) {
		c.Dir = filepath.Join(f.Dir, "store")
		c.Encoder = func(context.Context) (embed.Embedder, error) { return doubles.NewEncoder(), nil }
	})
	var wait sync.WaitGroup
	for _, b := range []*doubles.Base{f.Base, other} {
		o := ingest.Options{Sync: true, Chunk: "32/0"}
		change(&o)
		wait.Go(func() {
			_, err := ingest.Run(f.t.Context(), b.Base, ingest.Input{Paths: []string{f.dir}, Options: o})
			if err != nil {
				f.t.Errorf("beside another one: %v", err)
			}
		})
	}
	wait.Wait()
}

// Lines of a file that changes while it is read are read again; a file that changes each time is left to the next sync,
// and nothing of it is removed.
func TestSyncOfAChangingFile(t *testing.T) {
	line := func(id int, about string) string {
		return fmt.Sprintf(`{"id":"l%d","text":"About %s."}`+"\n", id, about)
	}
	f := newFolder(t, map[string]string{"lines.jsonl": line(1, "herrings") + line(2, "tides")})
	f.sync()
	f.write("lines.jsonl", line(1, "lamps")+line(2, "tides"))
	times := 1
	f.Encoder.After = func([]string) {
		if times--; times >= 0 {
			f.write("lines.jsonl", line(1, fmt.Sprintf("gull%c", 'a'+rune(times)))+line(3, "waves"))
		}
	}
	one := func(o *ingest.Options) { o.CommitEvery = 1 }
	r, err := f.trySync(one)
	if err != nil || r.Sync.Removed != 1 || r.Sync.Failed != 0 {
		t.Errorf("%+v %v", r.Sync, err)
	}
	f.isFresh()
	times = 100
	f.write("lines.jsonl", line(4, "lamps")+line(5, "tides"))
	r, err = f.trySync(one)
	if err != nil || r.Sync.Removed != 0 || r.Sync.Failed != 1 {
		t.Errorf("%+v %v", r.Sync, err)
	}
	times = 0
	f.sync()
	f.isFresh()
}

// A file that is written to while it is read is never committed as a mixture of what it was and what it is. (What a
// writer has left half is not known to be half: it is taken, and taken again when the writer goes on.)
func TestSyncNeverMixesVersions(t *testing.T) {
	f := newFolder(t, nil)
	path := f.path("a.md")
	version := func(i int) string {
		return fmt.Sprintf("Begins with %c. %s Ends with %[1]c.", 'a'+rune(i%26), strings.Repeat("Ships pass. ", 4000))
	}
	if err := os.WriteFile(path, []byte(version(0)), 0o600); err != nil {
		t.Fatal(err)
	}
	done, stop := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for i := 0; ; i++ {
			file, err := os.OpenFile(path, os.O_WRONLY|os.O_TRUNC, 0)
			if err != nil {
				return
			}
			text := version(i)
			_, _ = file.WriteString(text[:len(text)/2])
			_, _ = file.WriteString(text[len(text)/2:])
			_ = file.Close()
			select {
			case <-stop:
				return
			default:
			}
		}
	}()
	for range 20 {
		if _, err := f.trySync(func(o *ingest.Options) { o.NoChunk = true }); err != nil {
			t.Fatal(err)
		}
		for _, text := range f.texts {
			if !strings.HasPrefix(text, "Begins with") {
				t.Errorf("a piece: %.30q", text)
			} else if at := strings.Index(text, "Ends with"); at >= 0 && text[at+10] != text[12] {
				t.Errorf("a mixture was embedded: %.30q … %q", text, text[max(0, len(text)-30):])
			}
		}
	}
	close(stop)
	<-done
	f.sync()
	if diff := cmp.Diff(1, len(f.told)); diff != "" && len(f.told) > 1 {
		t.Error(diff)
	}
}
