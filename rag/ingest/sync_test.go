package ingest_test

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-rag/sluice/internal/testmodels/doubles"
	"github.com/sluice-rag/sluice/rag/ingest"
	"github.com/sluice-rag/sluice/rag/store"
)

// folder is a base with a folder of files that is synchronised.
type folder struct {
	*doubles.Base
	t     *testing.T
	dir   string
	texts []string // that were embedded since the last sync began
	told  []string // changes of the last sync
}

func newFolder(t *testing.T, files map[string]string) *folder {
	f := &folder{Base: doubles.NewBase(t, nil), t: t}
	f.dir = filepath.Join(f.Dir, "docs")
	f.Encoder.After = func(texts []string) { f.texts = append(f.texts, texts...) }
	if err := os.Mkdir(f.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		f.write(name, text)
	}
	return f
}

func (f *folder) path(name string) string { return filepath.Join(f.dir, filepath.FromSlash(name)) }

// write makes a file that was modified long ago, but never at the same time as another one.
func (f *folder) write(name, text string) {
	f.t.Helper()
	path := f.path(name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o600)); err != nil {
		f.t.Fatal(err)
	}
	f.age(name)
}

func (f *folder) age(name string) {
	f.t.Helper()
	info, err := os.Stat(f.path(name))
	if err == nil {
		err = os.Chtimes(f.path(name), time.Time{}, info.ModTime().Add(-time.Hour))
	}
	if err != nil {
		f.t.Fatal(err)
	}
}

func (f *folder) move(from, to string) {
	f.t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(f.path(to)), 0o755),
		os.Rename(f.path(from), f.path(to))); err != nil {
		f.t.Fatal(err)
	}
}

func (f *folder) remove(name string) {
	f.t.Helper()
	if err := os.RemoveAll(f.path(name)); err != nil {
		f.t.Fatal(err)
	}
}

func (f *folder) trySync(change func(*ingest.Options)) (ingest.Result, error) {
	f.t.Helper()
	f.texts, f.told = nil, nil
	o := ingest.Options{Sync: true, Chunk: "32/0"}
	o.OnChange = func(c ingest.Change) {
		line := c.Kind + " " + c.ID
		if c.From != "" {
			line += " from " + c.From
		}
		f.told = append(f.told, line)
	}
	if change != nil {
		change(&o)
	}
	return ingest.Run(f.t.Context(), f.Base.Base, ingest.Input{Paths: []string{f.dir}, Options: o})
}

func (f *folder) sync() ingest.Result {
	f.t.Helper()
	r, err := f.trySync(nil)
	if err != nil {
		f.t.Fatal(err)
	}
	return r
}

// expect compares what the last sync told, in any order, and how many texts it embedded.
func (f *folder) expect(embedded int, changes ...string) {
	f.t.Helper()
	slices.Sort(f.told)
	slices.Sort(changes)
	if diff := cmp.Diff(changes, f.told); diff != "" && len(changes)+len(f.told) > 0 {
		f.t.Errorf("changes (-want +got):\n%s", diff)
	}
	if len(f.texts) != embedded {
		f.t.Errorf("embedded %q, want %d", f.texts, embedded)
	}
}

// content returns all that a base holds: documents, and chunks with their texts and vectors.
func content(t *testing.T, b *doubles.Base) map[string]string {
	t.Helper()
	st, err := b.Reader(t.Context())
	if errors.Is(err, store.ErrNotFound) {
		return map[string]string{}
	}
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	docs, err := st.Documents(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range docs {
		found[d.ID] = fmt.Sprint(d.Source, d.Title, d.Digest, d.Chunks, d.Tokens, d.Meta, d.Path, d.Line, d.Partial)
	}
	v, err := st.View(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	for i, id := range v.IDs {
		if v.Deleted(i) {
			continue
		}
		chunks, err := v.Chunks(t.Context(), []string{id})
		if err != nil {
			t.Fatal(err)
		}
		dim := v.Vectors.Dim
		found["chunk "+id] = fmt.Sprint(chunks[0], v.Vectors.Data[i*dim:(i+1)*dim])
	}
	return found
}

// isFresh compares the base with one that the files as they are now have been put into for the first time.
func (f *folder) isFresh() {
	f.t.Helper()
	other := doubles.NewBase(f.t, nil)
	o := ingest.Options{Sync: true, Chunk: "32/0"}
	if _, err := ingest.Run(f.t.Context(), other.Base, ingest.Input{Paths: []string{f.dir}, Options: o}); err != nil {
		f.t.Fatal(err)
	}
	if diff := cmp.Diff(content(f.t, other), content(f.t, f.Base)); diff != "" {
		f.t.Errorf("the base is not what an ingest into a new one makes (-new +synchronised):\n%s", diff)
	}
}

func words(about string) string {
	return fmt.Sprintf("The keeper writes about %s. %s", about,
		strings.Repeat("Ships of "+about+" pass the harbour. ", 8))
}

func TestSync(t *testing.T) {
	f := newFolder(t, map[string]string{"a.md": words("herrings"), "b.md": words("tides"), "sub/c.md": words("lamps"),
		"lines.jsonl": `{"id":"l1","text":"One line."}` + "\n" + `{"id":"l2","text":"Another line."}`})
	r := f.sync()
	f.expect(r.Chunks, "new docs/a.md", "new docs/b.md", "new docs/sub/c.md", "new l1", "new l2")
	if r.Read != 4 || r.Chunks != 8 || *r.Sync != (ingest.SyncResult{New: 5}) {
		t.Errorf("%+v %+v", r, r.Sync)
	}
	r = f.sync()
	f.expect(0)
	if r.Read != 0 || r.Commits != 0 || *r.Sync != (ingest.SyncResult{Unchanged: 5}) {
		t.Errorf("nothing has changed: %+v %+v", r, r.Sync)
	}
	for _, c := range []struct {
		name     string
		edit     func()
		embedded int
		changes  []string
	}{
		{"new", func() { f.write("d.md", words("gulls")) }, 2, []string{"new docs/d.md"}},
		{"changed", func() { f.write("a.md", words("herrings")+"They sleep.") }, 1, []string{"changed docs/a.md"}},
		{"vanished", func() { f.remove("sub") }, 0, []string{"removed docs/sub/c.md"}},
		{"moved", func() { f.move("b.md", "new/e.md") }, 0, []string{"moved docs/new/e.md from docs/b.md"}},
		{"moved and edited", func() { f.move("new/e.md", "b.md"); f.write("b.md", words("tides")+"They rise.") }, 1,
			[]string{"new docs/b.md", "removed docs/new/e.md"}},
		{"copied", func() { f.write("copy.md", words("gulls")) }, 0, []string{"new docs/copy.md"}},
		{"swapped", func() {
			f.move("a.md", "x")
			f.move("b.md", "a.md")
			f.move("x", "b.md")
		}, 0, []string{"changed docs/a.md", "changed docs/b.md"}},
		{"emptied", func() { f.write("copy.md", " \n") }, 0, []string{"removed docs/copy.md"}},
		{"still empty", func() {}, 0, nil},
		{"a line changed and one gone", func() { f.write("lines.jsonl", `{"id":"l2","text":"Another line now."}`) }, 1,
			[]string{"changed l2", "removed l1"}},
		{"lines moved", func() { f.move("lines.jsonl", "others.jsonl") }, 0, nil},
		{"touched", func() { f.age("a.md") }, 0, nil},
		{"a folder in its place", func() { f.remove("d.md"); f.write("d.md/a.txt", words("gulls")) }, 0,
			[]string{"moved docs/d.md/a.txt from docs/d.md"}},
		{"a pipe in its place", func() {
			f.remove("a.md")
			if err := syscall.Mkfifo(f.path("a.md"), 0o600); err != nil {
				t.Fatal(err)
			}
		}, 0, []string{"removed docs/a.md"}},
	} {
		c.edit()
		f.sync()
		f.expect(c.embedded, c.changes...)
		f.isFresh()
		if t.Failed() {
			t.Fatal(c.name)
		}
	}
}

// A folder that is empty or not there removes nothing, and neither does one of which most has gone; what is new is
// taken all the same.
func TestSyncDoesNotRemoveAll(t *testing.T) {
	files := map[string]string{}
	for i := range 12 {
		files[fmt.Sprintf("%02d.md", i)] = words(strings.Repeat("x", i+1))
	}
	f := newFolder(t, files)
	f.sync()
	before := content(t, f.Base)
	away := filepath.Join(f.Dir, "away")
	if err := os.Rename(f.dir, away); err != nil {
		t.Fatal(err)
	}
	if r := f.sync(); r.Skipped != 1 || r.Sync.Removed != 0 { // not there: it is what cannot be read
		t.Errorf("%+v", r)
	}
	if err := os.Mkdir(f.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := f.trySync(nil); !errors.Is(err, ingest.ErrVanished) || !strings.Contains(err.Error(), "all 12 ") {
		t.Errorf("an empty folder: %v", err)
	}
	if diff := cmp.Diff(before, content(t, f.Base)); diff != "" {
		t.Errorf("-before +after:\n%s", diff)
	}
	f.write("new.md", words("gulls"))
	_, err := f.trySync(nil)
	if !errors.Is(err, ingest.ErrVanished) || !strings.Contains(err.Error(), "12 of the 12 documents") ||
		!strings.Contains(err.Error(), "100 %, and at most 50 %") ||
		!slices.Equal(f.told, []string{"new docs/new.md"}) {
		t.Errorf("%q %v", f.told, err)
	}
	f.remove("new.md")
	if err := errors.Join(os.Remove(f.dir), os.Rename(away, f.dir)); err != nil {
		t.Fatal(err)
	}
	for i := range 7 {
		f.remove(fmt.Sprintf("%02d.md", i))
	}
	if _, err := f.trySync(nil); !errors.Is(err, ingest.ErrVanished) || !strings.Contains(err.Error(), "8 of the 13") {
		t.Errorf("%v", err)
	}
	r, err := f.trySync(func(o *ingest.Options) { o.MaxDelete = 70 })
	if err != nil || r.Sync.Removed != 8 {
		t.Errorf("%+v %v", r.Sync, err)
	}
	f.isFresh()
	f.remove("")
	if err := os.Mkdir(f.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	r, err = f.trySync(func(o *ingest.Options) { o.DeleteAll = true })
	if err != nil || r.Sync.Removed != 5 || len(content(t, f.Base)) != 0 {
		t.Errorf("%+v %v", r.Sync, err)
	}
}

// A folder whose files all have moved within it has lost none of them.
func TestSyncOfARenamedFolder(t *testing.T) {
	files := map[string]string{}
	for i := range 20 {
		files[fmt.Sprintf("old/%02d.md", i)] = words(strings.Repeat("y", i+1))
	}
	f := newFolder(t, files)
	f.sync()
	f.move("old", "new")
	r := f.sync()
	if *r.Sync != (ingest.SyncResult{Moved: 20}) || r.Reused != 40 || len(f.texts) != 0 {
		t.Errorf("%+v %+v", r, r.Sync)
	}
	f.isFresh()
}

// TestSyncKeepsWhatCannotBeRead: a broken file, a line that is not JSON and a folder without permission keep the
// documents that they had.
func TestSyncKeepsWhatCannotBeRead(t *testing.T) {
	f := newFolder(t, map[string]string{"a.md": words("herrings"), "b.docx": "", "sub/c.md": words("lamps"),
		"lines.jsonl": `{"id":"l1","text":"One line."}` + "\n" + `{"id":"l2","text":"Another line."}`})
	f.sync()
	before := slices.Sorted(maps.Keys(content(t, f.Base)))
	f.write("a.md", "binary \x00\x01\x02\x00\x00\x00 content \x00\x00\x00")
	f.write("lines.jsonl", `{"id":"l1","text":"One line."}`+"\n"+`{"id":"l2","te`)
	if err := os.Chmod(f.path("sub"), 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(f.path("sub"), 0o755) })
	r := f.sync()
	if after := slices.Sorted(maps.Keys(content(t, f.Base))); !slices.Equal(before, after) || r.Sync.Failed < 2 {
		t.Errorf("%+v\n%v\n%v", r.Sync, before, after)
	}
	if r := f.sync(); r.Sync.Failed < 2 { // and is said again
		t.Errorf("%+v", r.Sync)
	}
}

// A file of the same size, times and number is taken to be the same, unless it was modified when it was read or
// --checksum says so; one that has an earlier time is another one.
func TestSyncGoesByTheState(t *testing.T) {
	f := newFolder(t, map[string]string{"a.md": words("herring")})
	f.sync()
	path := f.path("a.md")
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	// other content of the same size and time: that the file was changed at another time is hidden by hand
	forge := func(text string) {
		t.Helper()
		if err := errors.Join(os.WriteFile(path, []byte(text), 0o600),
			os.Chtimes(path, time.Time{}, info.ModTime())); err != nil {
			t.Fatal(err)
		}
		now, err := os.Stat(path)
		st, stErr := f.Writer(t.Context(), nil)
		if err := errors.Join(err, stErr); err != nil {
			t.Fatal(err)
		}
		states, err := st.Files(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range states {
			s.Changed = changed(now)
			if err := st.PutFiles(t.Context(), []store.FileState{s}, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	forge(words("gullies"))
	if f.sync(); len(f.told) != 0 {
		t.Errorf("%q: nothing tells that it has changed", f.told)
	}
	if _, err := f.trySync(func(o *ingest.Options) { o.Checksum = true }); err != nil || len(f.told) != 1 {
		t.Errorf("--checksum: %q %v", f.told, err)
	}
	f.isFresh()
	f.write("a.md", words("lamplit")) // without forging: the time of change tells
	if err := os.Chtimes(path, time.Time{}, info.ModTime()); err != nil {
		t.Fatal(err)
	}
	f.sync()
	f.expect(2, "changed docs/a.md")
	f.write("a.md", words("harbour"))
	if err := os.Chtimes(path, time.Time{}, info.ModTime().Add(-24*time.Hour)); err != nil { // a clock that went back
		t.Fatal(err)
	}
	f.sync()
	f.expect(2, "changed docs/a.md")

	for _, modified := range []time.Duration{-time.Second, time.Hour} { // when it was read, and in the future
		info = modifiedAt(t, path, time.Now().Add(modified))
		f.sync()
		info = modifiedAt(t, path, info.ModTime())
		forge(words(fmt.Sprintf("moment%d", min(9, max(0, int(modified/time.Minute))))))
		if r := f.sync(); r.Read != 1 || len(f.told) != 1 {
			t.Errorf("modified %v from its reading: %+v %q", modified, r, f.told)
		}
	}
}

func modifiedAt(t *testing.T, path string, at time.Time) os.FileInfo {
	t.Helper()
	if err := os.Chtimes(path, time.Time{}, at); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info
}

// A dry run tells the same as a sync would, and changes nothing.
func TestSyncDryRun(t *testing.T) {
	f := newFolder(t, map[string]string{"a.md": words("herrings"), "b.md": words("tides"), "c.md": words("lamps")})
	dry := func(o *ingest.Options) { o.DryRun = true }
	if _, err := f.trySync(dry); err != nil {
		t.Fatal(err)
	}
	f.expect(0, "new docs/a.md", "new docs/b.md", "new docs/c.md")
	if _, err := f.Reader(t.Context()); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a dry run made a store: %v", err)
	}
	f.sync()
	before := content(t, f.Base)
	f.write("a.md", words("gulls"))
	f.move("b.md", "d.md")
	f.remove("c.md")
	f.write("e.md", words("waves"))
	want := []string{"changed docs/a.md", "moved docs/d.md from docs/b.md", "new docs/e.md", "removed docs/c.md"}
	r, err := f.trySync(dry)
	if err != nil || r.Chunks != 0 || *r.Sync != (ingest.SyncResult{New: 1, Changed: 1, Moved: 1, Removed: 1}) {
		t.Errorf("%+v %+v %v", r, r.Sync, err)
	}
	f.expect(0, want...)
	if diff := cmp.Diff(before, content(t, f.Base)); diff != "" {
		t.Errorf("a dry run changed it:\n%s", diff)
	}
	f.sync()
	f.expect(4, want...)
	f.isFresh()
}

// Documents that are left out now stay, unless it is asked for that they go.
func TestSyncOfExcludedFiles(t *testing.T) {
	f := newFolder(t, map[string]string{"a.md": words("herrings"), "b.txt": words("tides")})
	f.sync()
	f.write(".sluiceignore", "*.txt\n")
	if r := f.sync(); r.Sync.Excluded != 1 || r.Sync.Removed != 0 {
		t.Errorf("%+v", r.Sync)
	}
	r, err := f.trySync(func(o *ingest.Options) { o.DeleteExcluded = true })
	if err != nil || r.Sync.Removed != 1 {
		t.Errorf("%+v %v", r.Sync, err)
	}
	f.isFresh()
}

// A document that was removed comes back with the next sync as long as its file is there.
func TestSyncBringsRemovedDocumentsBack(t *testing.T) {
	f := newFolder(t, map[string]string{"a.md": words("herrings"), "b.md": words("tides")})
	f.sync()
	st, err := f.Writer(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := st.DeleteDocuments(t.Context(), []string{"docs/a.md"}); err != nil {
		t.Fatal(err)
	}
	f.sync()
	f.expect(2, "new docs/a.md")
	f.isFresh()
}

// Other options of cutting make other chunks of files that are as they were.
func TestSyncWithOtherOptions(t *testing.T) {
	f := newFolder(t, map[string]string{"a.md": words("herrings")})
	f.sync()
	r, err := f.trySync(func(o *ingest.Options) { o.Chunk = "60/0" })
	if err != nil || r.Read != 1 || r.Embedded != 1 || r.Sync.Unchanged != 1 {
		t.Errorf("%+v %+v %v", r, r.Sync, err)
	}
	if r, err := f.trySync(func(o *ingest.Options) { o.Chunk = "60/0"; o.CommitEvery = 7 }); err != nil || r.Read != 0 {
		t.Errorf("%+v %v", r, err)
	}
}

// Files in an archive are documents that come and go with it.
func TestSyncOfAnArchive(t *testing.T) {
	f := newFolder(t, map[string]string{"a.md": words("herrings")})
	pack := func(files map[string]string) {
		t.Helper()
		var b bytes.Buffer
		z := zip.NewWriter(&b)
		for _, name := range slices.Sorted(maps.Keys(files)) {
			w, err := z.Create(name)
			if err == nil {
				_, err = w.Write([]byte(files[name]))
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
		f.write("pack.zip", b.String())
	}
	pack(map[string]string{"b.md": words("tides"), "c.md": words("lamps"), ".hidden": "x", "odd.bin": "x"})
	f.sync()
	f.expect(6, "new docs/a.md", "new docs/pack.zip/b.md", "new docs/pack.zip/c.md")
	if r := f.sync(); r.Read != 0 || r.Sync.Unchanged != 3 || r.Sync.Removed != 0 {
		t.Errorf("%+v %+v", r, r.Sync)
	}
	pack(map[string]string{"b.md": words("tides"), "d.md": words("lamps"), "e.md": words("gulls")})
	f.sync()
	f.expect(2, "removed docs/pack.zip/c.md", "new docs/pack.zip/d.md", "new docs/pack.zip/e.md")
	f.isFresh()
	f.move("pack.zip", "sub/other.zip")
	f.sync()
	if len(f.texts) != 0 || len(f.told) != 3 {
		t.Errorf("%q %q", f.told, f.texts)
	}
	f.isFresh()
	f.remove("sub")
	if _, err := f.trySync(func(o *ingest.Options) { o.DeleteAll = true }); err != nil {
		t.Error(err)
	}
	f.isFresh()
}
