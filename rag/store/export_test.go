package store

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-rag/sluice/embed/identity"
	"github.com/sluice-rag/sluice/internal/test/race"
)

// richStore returns a store with labels, values, a collection and files, that has deleted and replaced chunks, and what
// it holds.
func richStore(t *testing.T) (*Store, map[string]int) {
	t.Helper()
	root := filepath.Join(t.TempDir(), "notes")
	if err := os.Mkdir(root, 0o755); err != nil {
		t.Fatal(err)
	}
	s := mustOpen(t, fastDir(t), testSeams())
	if _, err := s.AddCollection(t.Context(), "notes", root, false); err != nil {
		t.Fatal(err)
	}
	b := batchOf(1, testDim, ids("a", 300)...)
	b.Documents[0].Path = filepath.Join(root, "sub", "a.md")
	b.Labels = map[string][]Label{"a/10": {{"person", "Ada"}, {"date", "1843"}}, "a/20": {{"person", "Ada \"L\""}}}
	mustCommit(t, s, b)
	mustCommit(t, s, batchOf(1, testDim, ids("gone", 30)...))
	c := batchOf(3, testDim, ids("c", 2500)...) // two commits of Restore
	c.Partial = true
	mustCommit(t, s, c)
	mustCommit(t, s, batchOf(2, testDim, ids("a", 7)...))
	if _, err := s.DeleteDocuments(t.Context(), []string{"gone"}); err != nil {
		t.Fatal(err)
	}
	if err := s.SetMeta(t.Context(), "calibration", []byte("default")); err != nil {
		t.Fatal(err)
	}
	want := versions(1, ids("a", 300)...)
	maps.Copy(want, versions(2, ids("a", 7)...))
	maps.Copy(want, versions(3, ids("c", 2500)...))
	return s, want
}

const keptFile = "calibration/default.cal.json"

func export(t *testing.T, s *Store, o ExportOptions) []byte {
	t.Helper()
	var b bytes.Buffer
	done, err := s.Export(t.Context(), &b, o)
	if err != nil {
		t.Fatal(err)
	}
	if done.Bytes != int64(b.Len()) {
		t.Fatalf("%d bytes, %d were written", done.Bytes, b.Len())
	}
	return b.Bytes()
}

// sameContent compares what two stores say of themselves.
func sameContent(t *testing.T, a, b *Store) {
	t.Helper()
	ctx := t.Context()
	docs := func(s *Store) []DocumentInfo {
		list, err := s.Documents(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	if diff := cmp.Diff(docs(a), docs(b)); diff != "" {
		t.Fatal(diff)
	}
	live := func(s *Store) (out []any) {
		l, done := liveOf(t, s)
		defer done()
		labels, err := s.Labels(ctx, l.IDs)
		if err != nil {
			t.Fatal(err)
		}
		chunks, err := s.Chunks(ctx, l.IDs)
		if err != nil {
			t.Fatal(err)
		}
		return []any{l.IDs, l.Digest, slices.Clone(l.Vectors.Data), l.Groups, labels, chunks}
	}
	if diff := cmp.Diff(live(a), live(b)); diff != "" {
		t.Fatal(diff)
	}
}

// A store is the same after export and restore, bit by bit, and its export is the same file.
func TestExportRestore(t *testing.T) {
	race.Skip(t)
	ctx := t.Context()
	s, want := richStore(t)
	big := bytes.Repeat([]byte("0123456789"), 250_000) // three lines
	if err := os.MkdirAll(filepath.Join(s.Dir(), "calibration"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(s.Dir(), keptFile), big, 0o644); err != nil {
		t.Fatal(err)
	}
	all := export(t, s, ExportOptions{Files: []string{keptFile, "router/gone.json"}})
	to := filepath.Join(t.TempDir(), "new", "store")
	done, err := restore(ctx, to, bytes.NewReader(all), RestoreOptions{Encoder: &testEncoder}, testSeams())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(done,
		Restored{New: true, Encoder: testEncoder, Restored: 2, Chunks: 2800, Files: 1}); diff != "" {
		t.Fatal(diff)
	}
	r := mustOpen(t, to, testSeams())
	verify(t, r, want)
	sameContent(t, s, r)
	if m, err := r.Meta(ctx, "calibration"); err != nil || string(m) != "default" {
		t.Fatal(m, err)
	}
	if b, err := os.ReadFile(filepath.Join(to, keptFile)); err != nil || !bytes.Equal(b, big) {
		t.Fatal(len(b), err)
	}
	if list, err := os.ReadDir(filepath.Dir(to)); err != nil || len(list) != 1 {
		t.Fatal(list, err)
	}
	if again := export(t, r, ExportOptions{Files: []string{keptFile}}); !bytes.Equal(again, all) {
		t.Fatalf("the export of the restored store has %d bytes, not the same %d", len(again), len(all))
	}

	// Without gaps, rows and their blocks are the same, too.
	if _, err := s.Compact(ctx, 0); err != nil {
		t.Fatal(err)
	}
	third := filepath.Join(t.TempDir(), "third")
	if _, err := restore(ctx, third, bytes.NewReader(all), RestoreOptions{}, testSeams()); err != nil {
		t.Fatal(err)
	}
	var sums [2][32]byte
	for i, dir := range []string{to, third} {
		s := mustOpen(t, dir, testSeams())
		v, err := s.View(ctx)
		if err != nil {
			t.Fatal(err)
		}
		defer v.Close()
		if sums[i], err = v.Fingerprint(ctx, v.Vectors.Rows); err != nil {
			t.Fatal(err)
		}
	}
	if sums[0] != sums[1] {
		t.Fatal("two restored stores have different fingerprints")
	}
}

// A store that was only added to has the fingerprint of its restored one: the index of the one fits the other.
func TestRestoredFingerprint(t *testing.T) {
	ctx := t.Context()
	s := mustOpen(t, fastDir(t), testSeams())
	mustCommit(t, s, batchOf(1, testDim, ids("a", 300)...))
	mustCommit(t, s, batchOf(1, testDim, ids("b", 900)...))
	to := filepath.Join(t.TempDir(), "store")
	if _, err := restore(ctx, to, bytes.NewReader(export(t, s, ExportOptions{})), RestoreOptions{},
		testSeams()); err != nil {
		t.Fatal(err)
	}
	var sums [2][32]byte
	for i, s := range []*Store{s, mustOpen(t, to, testSeams())} {
		v, err := s.View(ctx)
		if err != nil {
			t.Fatal(err)
		}
		defer v.Close()
		if sums[i], err = v.Fingerprint(ctx, 1200); err != nil {
			t.Fatal(err)
		}
	}
	if sums[0] != sums[1] {
		t.Fatal("the restored store has another fingerprint")
	}
}

// Into a store that is there: what it lacks comes, what it has stays, what differs is refused or replaced.
func TestRestoreIntoExisting(t *testing.T) {
	race.Skip(t)
	ctx := t.Context()
	s, want := richStore(t)
	all := export(t, s, ExportOptions{})
	into := func(o RestoreOptions, dir string, b []byte) (Restored, error) {
		t.Helper()
		return restore(ctx, dir, bytes.NewReader(b), o, testSeams())
	}
	r := mustOpen(t, fastDir(t), testSeams())
	mustCommit(t, r, batchOf(5, testDim, ids("own", 20)...))
	maps.Copy(want, versions(5, ids("own", 20)...))
	done, err := into(RestoreOptions{}, r.Dir(), all)
	if err != nil || done.New || done.Restored != 2 || done.Chunks != 2800 || done.LeftOut != 1 {
		t.Fatalf("%+v %v", done, err)
	}
	verify(t, r, want)
	for _, id := range []string{"a", "c"} {
		old, _ := s.Document(ctx, id)
		now, err := r.Document(ctx, id)
		if diff := cmp.Diff(old, now); diff != "" || err != nil {
			t.Fatal(diff, err)
		}
	}
	if l, err := r.Labels(ctx, []string{"a/20"}); err != nil || len(l["a/20"]) != 1 {
		t.Fatal(l, err)
	}
	if done, err = into(RestoreOptions{}, r.Dir(), all); err != nil || done.Held != 2 || done.Restored != 0 {
		t.Fatalf("%+v %v", done, err)
	}

	// Another content of a, in the store and then in the export.
	some := export(t, s, ExportOptions{Documents: []string{"a"}})
	b := batchOf(9, testDim, ids("a", 4)...)
	b.Documents[0].Path, b.Replace = "", true
	mustCommit(t, r, b)
	generation, _ := r.Generation(ctx)
	if _, err = into(RestoreOptions{}, r.Dir(), some); !errors.Is(err, ErrConflict) ||
		!strings.Contains(err.Error(), `"a"`) || !strings.Contains(err.Error(), "--replace") {
		t.Fatal(err)
	}
	if now, _ := r.Generation(ctx); now != generation {
		t.Fatal("a refused restore has changed the store")
	}
	if done, err = into(RestoreOptions{Replace: true}, r.Dir(), some); err != nil || done.Replaced != 1 {
		t.Fatalf("%+v %v", done, err)
	}
	verify(t, r, want)

	// Of another encoder, into a store and for one.
	other := testEncoder
	other.Digest = "sha256:other"
	if _, err = into(RestoreOptions{Encoder: &other}, filepath.Join(t.TempDir(), "x"), all); !errors.Is(err,
		ErrEncoder) {
		t.Fatal(err)
	}
	o, err := open(ctx, fastDir(t), Options{Create: true, Encoder: &identity.Encoder{Name: "o", Digest: "sha256:o",
		Dim: testDim}}, testSeams())
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	if _, err = into(RestoreOptions{}, o.Dir(), all); !errors.Is(err, ErrEncoder) {
		t.Fatal(err)
	}
	if _, err = s.Export(ctx, &bytes.Buffer{}, ExportOptions{Documents: []string{"a", "none"}}); !errors.Is(err,
		ErrNotFound) || !strings.Contains(err.Error(), "none") {
		t.Fatal(err)
	}
	full := t.TempDir()
	if err := os.WriteFile(filepath.Join(full, "mine.txt"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err = into(RestoreOptions{}, full, all); !errors.Is(err, ErrConflict) || !strings.Contains(err.Error(),
		"mine.txt") {
		t.Fatal(err)
	}
}

// A restore that is interrupted in a store that is there leaves whole documents, or ones that are shown as incomplete;
// the same again completes it. A new store is there whole or not at all.
func TestRestoreFailsAtEachStep(t *testing.T) {
	race.Skip(t)
	ctx := t.Context()
	s, want := richStore(t)
	all := export(t, s, ExportOptions{})
	for _, existing := range []bool{false, true} {
		for n := 1; ; n += 3 {
			f := &faults{}
			x := f.seams()
			dir := filepath.Join(fastDir(t), "s")
			if existing {
				mustOpen(t, dir, x).Close()
			}
			f.arm(n, func() error { return syscall.EIO })
			_, err := restore(ctx, dir, bytes.NewReader(all), RestoreOptions{}, x)
			fired := f.n >= n
			if fired != (err != nil) {
				t.Fatalf("step %d of %v: %v", n, f.steps, err)
			}
			if entries, _ := os.ReadDir(filepath.Dir(dir)); err != nil && !existing && len(entries) > 0 {
				if f.steps[n-1] != "syncdir" || entries[0].Name() != "s" || len(entries) != 1 { // the last step
					t.Fatalf("step %d of %v leaves %v", n, f.steps, entries)
				}
				break
			}
			f.arm(0, nil)
			if existing && err != nil {
				r := mustOpen(t, dir, x)
				docs, err := r.Documents(ctx)
				if err != nil {
					t.Fatal(err)
				}
				for _, d := range docs {
					if whole := map[string]int{"a": 300, "c": 2500}[d.ID]; d.Chunks != whole && !d.Partial {
						t.Fatalf("step %d: %+v", n, d)
					}
				}
				r.Close()
			}
			if err != nil {
				if _, err := restore(ctx, dir, bytes.NewReader(all), RestoreOptions{}, x); err != nil {
					t.Fatalf("step %d (%s): %v", n, f.steps, err)
				}
			}
			r := mustOpen(t, dir, x)
			verify(t, r, want)
			r.Close()
			if !fired {
				break
			}
		}
	}
}

// An export is one state, whoever writes meanwhile.
func TestExportBesideAWriter(t *testing.T) {
	race.Skip(t)
	s := mustOpen(t, fastDir(t), testSeams())
	mustCommit(t, s, batchOf(1, testDim, append(ids("a", 400), ids("b", 400)...)...))
	stop, stopped := make(chan struct{}), make(chan error, 1)
	go func() { // both documents always have the same version
		var err error
		for v := 2; err == nil; v++ {
			select {
			case <-stop:
				stopped <- nil
				return
			default:
			}
			_, err = s.Commit(context.Background(),
				batchOf(v%50+1, testDim, append(ids("a", 400), ids("b", 400)...)...))
			if err == nil && v%7 == 0 {
				_, err = s.Compact(context.Background(), 0)
			}
		}
		stopped <- err
	}()
	for i := range 5 {
		all := export(t, s, ExportOptions{})
		to := filepath.Join(fastDir(t), fmt.Sprint("s", i))
		if _, err := restore(t.Context(), to, bytes.NewReader(all), RestoreOptions{}, testSeams()); err != nil {
			t.Fatal(err)
		}
		r := mustOpen(t, to, testSeams())
		got := stored(t, r)
		if want := versions(got["a/0"], append(ids("a", 400), ids("b", 400)...)...); !maps.Equal(got, want) {
			t.Fatal("the export mixes states")
		}
		verify(t, r, got)
	}
	close(stop)
	if err := <-stopped; err != nil {
		t.Fatal(err)
	}
}

// Whatever is cut or changed in an export is found before anything is written.
func TestDamagedExports(t *testing.T) {
	race.Skip(t)
	ctx := t.Context()
	s := mustOpen(t, fastDir(t), testSeams())
	b := batchOf(1, testDim, append(ids("a", 3), ids("b", 2)...)...)
	b.Labels = map[string][]Label{"a/1": {{"k", "v"}}}
	mustCommit(t, s, b)
	if err := s.SetMeta(ctx, "k", []byte("v")); err != nil {
		t.Fatal(err)
	}
	all := export(t, s, ExportOptions{})
	dir := filepath.Join(fastDir(t), "s")
	refuses := func(what string, b []byte) {
		t.Helper()
		_, err := restore(ctx, dir, bytes.NewReader(b), RestoreOptions{}, testSeams())
		if err == nil || !errors.Is(err, ErrArchive) && !errors.Is(err, ErrInput) && !errors.Is(err, ErrVersion) &&
			!errors.Is(err, ErrDimension) {
			t.Fatalf("%s: %v", what, err)
		}
		if list, _ := os.ReadDir(filepath.Dir(dir)); len(list) > 0 {
			t.Fatalf("%s leaves %v", what, list)
		}
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 40 {
		n := r.IntN(len(all))
		refuses(fmt.Sprint("cut at ", n), all[:n])
		changed := bytes.Clone(all)
		changed[n] ^= byte(1 + r.IntN(255))
		refuses(fmt.Sprint("changed at ", n), changed)
	}
	lines := bytes.SplitAfter(all, []byte("\n"))
	for i := range lines[:len(lines)-1] {
		refuses(fmt.Sprint("without line ", i), bytes.Join(slices.Delete(slices.Clone(lines), i, i+1), nil))
	}
	refuses("with more behind it", append(bytes.Clone(all), "{}\n"...))
	refuses("newer", bytes.Replace(all, []byte(`"version":1`), []byte(`"version":2,"new":3`), 1))
	refuses("empty", nil)
	refuses("another file", []byte("%PDF-1.4\n"))
	if _, err := restore(ctx, dir, bytes.NewReader(all), RestoreOptions{}, testSeams()); err != nil {
		t.Fatal(err)
	}
}

// Damage is not exported.
func TestExportOfDamage(t *testing.T) {
	ctx := t.Context()
	s := mustOpen(t, fastDir(t), testSeams())
	mustCommit(t, s, batchOf(1, testDim, ids("a", 30)...))
	if _, err := s.write.Exec(`UPDATE texts SET text = 'other' WHERE row = 4`); err != nil {
		t.Fatal(err)
	}
	var text *TextError
	if _, err := s.Export(ctx, &bytes.Buffer{}, ExportOptions{}); !errors.As(err, &text) || text.Chunk != "a/4" {
		t.Fatal(err)
	}
	s = mustOpen(t, fastDir(t), testSeams())
	mustCommit(t, s, batchOf(1, testDim, append(ids("a", 300), ids("b", 300)...)...))
	patch(filepath.Join("segments", "000000.vec"), headerSize+5*testDim*4+1, 0x55, 0xaa)(t, s.Dir())
	var block *BlockError
	if _, err := s.Export(ctx, &bytes.Buffer{}, ExportOptions{}); !errors.As(err, &block) {
		t.Fatal(err)
	}
}

// FuzzArchive reads anything as an export: no crash, and what is refused says why.
func FuzzArchive(f *testing.F) {
	head := `{"sluice_export":{"version":1,"store":"000102030405060708090a0b0c0d0e0f","created":"2026-01-01T00:00:00Z",` +
		`"encoder":{"name":"e","digest":"sha256:e","tokenizer_digest":"","dim":1},"metric":"cosine","whole":true}}` +
		"\n"
	chunk := `{"chunk":{"id":"c","document":"d","source":"s","start":0,"end":1,"text":"x","tokens":1,"sha256":` +
		`"2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881","vector":"AACAPw=="}}` + "\n"
	for _, rest := range []string{
		"", `{"end":{"collections":0,"documents":0,"chunks":0,"metas":0,"files":0,"sha256":""}}` + "\n",
		`{"document":{"id":"d","source":"s","digest":"g","added":"","chunks":1}}` + "\n" + chunk,
		`{"file":{"name":"calibration/../../x","data":""}}` + "\n", `{"meta":{"key":"k","value":"dg=="}}` + "\n",
		`{"collection":{"name":"n","root":"/r","flat":false}}` + "\n",
	} {
		sum := sha256.Sum256([]byte(head + rest))
		f.Add([]byte(head + rest))
		f.Add([]byte(head + rest + fmt.Sprintf(`{"end":{"collections":0,"documents":1,"chunks":1,"metas":0,"files":0,`+
			`"sha256":"%x"}}`, sum) + "\n"))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		r := &restorer{from: bytes.NewReader(b)}
		if err := r.survey(t.Context()); err != nil {
			if err.Error() == "" {
				t.Fatal("an error without words")
			}
			return
		}
		cursor := &archiveCursor{from: r.from}
		if _, err := r.documentsOf(cursor, r.documents); err != nil { // what was surveyed can be read again
			t.Fatal(err)
		}
	})
}
