package keys

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

const plain = "a-key-that-was-written-by-hand"

// TestEditedFile follows a file of keys through its life, as a running server sees it: no change of it needs another
// start, and after the first one it holds no key, only digests.
func TestEditedFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(path, []byte("# of the harbour\n"+plain+" sea\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	f.now = func() time.Time { return now }
	text, err := Add(path, Key{Name: "ann", Groups: []string{"b", "a"}, Bases: []string{"sea"}})
	if err != nil || len(text) < 24 {
		t.Fatal(text, err)
	}
	now = now.Add(2 * time.Second)
	k, ok := f.Find(text)
	if !ok || k.Name != "ann" || k.Manages() || k.May("moon") || !slices.Equal(k.Groups, []string{"a", "b"}) {
		t.Errorf("%+v, %v", k, ok)
	}
	if k, ok := f.Find(plain); !ok || !k.May("sea") || k.Groups != nil {
		t.Errorf("%+v, %v", k, ok)
	}
	raw, err := os.ReadFile(path)
	if err != nil || strings.Contains(string(raw), text) || strings.Contains(string(raw), plain) ||
		!strings.HasPrefix(string(raw), "# of the harbour\n") {
		t.Errorf("%s, %v", raw, err)
	}
	if _, err := Add(path, Key{Name: "ann"}); !errors.Is(err, ErrName) {
		t.Error(err)
	}
	next, err := f.Rotate("ann", now.Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		text  string
		after time.Duration
		ok    bool
	}{{text, 0, true}, {next, 0, true}, {text, 2 * time.Hour, false}, {next, 2 * time.Hour, true}} {
		now = now.Add(x.after)
		if k, ok := f.Find(x.text); ok != x.ok || ok && !slices.Equal(k.Groups, []string{"a", "b"}) {
			t.Errorf("after %v: %+v, %v", x.after, k, ok)
		}
	}
	if err := f.Remove("ann"); err != nil {
		t.Fatal(err)
	}
	if _, ok := f.Find(next); ok {
		t.Error("a removed key counts")
	}
	if err := f.Remove("ann"); !errors.Is(err, ErrName) {
		t.Error(err)
	}
	if err := os.WriteFile(path, []byte("short\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	now = now.Add(2 * time.Second)
	if list, err := f.List(); !errors.Is(err, ErrFile) || len(list) != 2 {
		t.Errorf("%v, %v: a file that cannot be read any more", list, err)
	}
}

// TestBadLines: each is an error that names the line and never the key.
func TestBadLines(t *testing.T) {
	for _, line := range []string{"short", plain + " groups=a groups=b", plain + " name=a name=b",
		plain + " expires=soon", plain + " name=", plain + " name=a/b", plain + " colour=red", "sha256:12",
		"sha256:" + strings.Repeat("x", 64), plain + "\n" + plain, plain + " name=a\n" + plain + "2 name=a"} {
		_, err := Read(strings.NewReader("# x\n" + line + "\n"))
		if !errors.Is(err, ErrFile) || !strings.Contains(err.Error(), "line ") || strings.Contains(err.Error(), plain) {
			t.Errorf("%q: %v", line, err)
		}
	}
	for name, k := range map[string]Key{"no name": {}, "a name with a space": {Name: "a b"},
		"a group with a comma": {Name: "a", Groups: []string{"a,b"}}, "an empty base": {Name: "a", Bases: []string{""}},
	} {
		path := filepath.Join(t.TempDir(), "keys")
		if _, err := Add(path, k); err == nil {
			t.Error(name)
		}
		if _, err := os.Stat(path); err == nil {
			t.Errorf("%s: the file is there", name)
		}
	}
	if _, err := Open(filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

// TestLinesComeBack: what is written is what is read.
func TestLinesComeBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys")
	want := []Key{{Name: "a"}, {Name: "b", Groups: []string{}}, {Name: "c", Bases: []string{"sea", "moon"},
		Groups: []string{"hr"}, Expires: time.Date(2027, 1, 2, 3, 4, 5, 0, time.UTC)}}
	for i := range want {
		if _, err := Add(path, want[i]); err != nil {
			t.Fatal(err)
		}
	}
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	list, _ := f.List()
	for i, k := range list {
		if w := want[i]; k.line() != (Key{w.Name, k.Digest, w.Bases, w.Groups, w.Expires}).line() ||
			(k.Groups == nil) != (w.Groups == nil) {
			t.Errorf("%+v, want %+v", k, w)
		}
	}
	if len(list) != len(want) {
		t.Error(list)
	}
}

// TestManyEdits: of edits at the same time each is done or refused as a whole.
func TestManyEdits(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys")
	var mu sync.Mutex
	done := map[string]string{}
	var all sync.WaitGroup
	for i := range 40 {
		all.Go(func() {
			name := fmt.Sprint("k", i)
			if text, err := Add(path, Key{Name: name}); err == nil {
				mu.Lock()
				defer mu.Unlock()
				done[name] = text
			}
		})
	}
	all.Wait()
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	list, _ := f.List()
	if len(list) != len(done) {
		t.Errorf("%d keys, %d were made", len(list), len(done))
	}
	for name, text := range done {
		if k, ok := f.Find(text); !ok || k.Name != name {
			t.Errorf("%s: %+v", name, k)
		}
	}
}
