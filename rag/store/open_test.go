package store

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-rag/sluice/embed/identity"
	"github.com/sluice-rag/sluice/internal/durable"
	"github.com/sluice-rag/sluice/internal/test/race"
	"github.com/sluice-rag/sluice/kernels"
)

// damaged makes a closed store of three segments and lets edit spoil it.
func damaged(t *testing.T, edit func(t *testing.T, dir string)) string {
	t.Helper()
	dir := t.TempDir()
	s := mustOpen(t, dir, testSeams())
	mustCommit(t, s, batchOf(1, testDim, ids("a", 2100)...))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	edit(t, dir)
	return dir
}

// patch overwrites bytes of a file; a negative offset truncates it to −at.
func patch(name string, at int64, b ...byte) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		t.Helper()
		path := filepath.Join(dir, name)
		if at < 0 {
			if err := os.Truncate(path, -at); err != nil {
				t.Fatal(err)
			}
			return
		}
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.WriteAt(b, at); err != nil {
			t.Fatal(err)
		}
	}
}

func execute(q string) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		t.Helper()
		db, err := sql.Open("sqlite", dsn(filepath.Join(dir, databaseName), url.Values{"_busy_timeout": {"10000"}}))
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		if _, err := db.Exec(q); err != nil {
			t.Fatal(err)
		}
	}
}

func remove(name string) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
}

// Every damage that Open can see is named with its file, for writers and readers alike.
func TestOpenRefuses(t *testing.T) {
	race.Skip(t)
	other := testEncoder
	other.Digest = "sha256:e2"
	wide := testEncoder
	wide.Dim = 24
	second := filepath.Join("segments", "000001.vec")
	size := fmt.Sprint(headerSize + 1024*testDim*4)
	for name, c := range map[string]struct {
		edit func(*testing.T, string)
		o    Options
		want error
		says []string
	}{
		"other encoder": {o: Options{Encoder: &other}, want: ErrEncoder,
			says: []string{"sha256:e1", "sha256:e2", "another folder"}},
		"other dimension": {o: Options{Encoder: &wide}, want: ErrEncoder, says: []string{"12 dim", "24 dim"}},
		"no database":     {edit: remove(databaseName), want: ErrCorrupt, says: []string{databaseName}},
		"empty database": {edit: func(t *testing.T, d string) { os.Truncate(filepath.Join(d, databaseName), 0) },
			want: ErrCorrupt, says: []string{databaseName, "empty"}},
		"not a database": {edit: patch(databaseName, 0, []byte("no sqlite file, but text")...), want: ErrCorrupt,
			says: []string{databaseName}},
		"cut database": {edit: patch(databaseName, -20000), want: ErrCorrupt, says: []string{databaseName}},
		"another database": {edit: execute(`PRAGMA application_id = 7`), want: ErrCorrupt,
			says: []string{databaseName, "not a database of Sluice"}},
		"newer format": {edit: execute(`PRAGMA user_version = 6`), want: ErrVersion,
			says: []string{"format 6", "reads format 5", "docs export", "docs restore"}},
		"older format": {edit: execute(`PRAGMA user_version = 4`), want: ErrVersion,
			says: []string{"format 4", "reads format 5", "docs export", "docs restore"}},
		"settings gone": {edit: execute(`DELETE FROM store`), want: ErrCorrupt, says: []string{databaseName}},
		"settings wrong": {edit: execute(`UPDATE store SET end_row = 7`), want: ErrCorrupt,
			says: []string{"rows from 0 to 7"}},
		"segment missing":    {edit: remove(second), want: ErrCorrupt, says: []string{second, "missing"}},
		"segment short":      {edit: patch(second, -40000), want: ErrCorrupt, says: []string{second, size, "40000"}},
		"header short":       {edit: patch(second, -100), want: ErrCorrupt, says: []string{second, size, "100"}},
		"header magic":       {edit: patch(second, 0, 'X'), want: ErrCorrupt, says: []string{second, "magic"}},
		"header bit":         {edit: patch(second, 50, 'X'), want: ErrCorrupt, says: []string{second, "checksum"}},
		"segment of newer":   {edit: patch(second, 8, 2), want: ErrVersion, says: []string{second, "format 2"}},
		"segment of older":   {edit: patch(second, 8, 0), want: ErrVersion, says: []string{second, "format 0"}},
		"segments exchanged": {edit: exchange, want: ErrCorrupt, says: []string{"segment 1", "expected segment 0"}},
	} {
		t.Run(name, func(t *testing.T) {
			if c.edit == nil {
				c.edit = func(*testing.T, string) {}
			}
			dir := damaged(t, c.edit)
			for _, o := range []Options{{}, {ReadOnly: true}, {Create: true, Encoder: &testEncoder}} {
				if c.o.Encoder != nil {
					o.Encoder = c.o.Encoder
				}
				s, err := Open(context.Background(), dir, o)
				if err == nil {
					s.Close()
				}
				if !errors.Is(err, c.want) {
					t.Fatalf("%+v: %v, want %v", o, err, c.want)
				}
				for _, says := range append(c.says, dir) {
					if !strings.Contains(err.Error(), says) {
						t.Fatalf("%q does not say %q", err, says)
					}
				}
			}
		})
	}
}

func exchange(t *testing.T, dir string) {
	a, b := filepath.Join(dir, "segments", "000000.vec"), filepath.Join(dir, "segments", "000001.vec")
	if err := errors.Join(os.Rename(a, a+"x"), os.Rename(b, a), os.Rename(a+"x", b)); err != nil {
		t.Fatal(err)
	}
}

// What only Check can see.
func TestCheckFinds(t *testing.T) {
	race.Skip(t)
	second := filepath.Join("segments", "000001.vec")
	for name, c := range map[string]struct {
		edit func(*testing.T, string)
		says string
	}{
		"a bit of a vector": {patch(second, headerSize+5*testDim*4+1, 0x55, 0xaa),
			`000001.vec: block 4 (rows 1024 to 1279)`},
		"a text":          {execute(`UPDATE texts SET text = 'other' WHERE row = 3`), `the text of chunk "a/3"`},
		"a lost text":     {execute(`DELETE FROM texts WHERE row = 4`), `the text of chunk "a/4"`},
		"a lost document": {execute(`DELETE FROM documents`), "refers to a missing documents"},
		"an index":        {execute(`PRAGMA writable_schema = 1; UPDATE sqlite_schema SET sql = replace(sql, '(document)', '(tokens)') WHERE name = 'chunks_document'`), databaseName},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := Open(context.Background(), damaged(t, c.edit), Options{ReadOnly: true})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			if err := s.Check(context.Background()); !errors.Is(err, ErrCorrupt) ||
				!strings.Contains(err.Error(), c.says) {
				t.Fatalf("%v, want it to say %q", err, c.says)
			}
		})
	}
}

// A segment that becomes short while the store is open is an error of View and Commit, not a SIGBUS.
func TestSegmentCutWhileOpen(t *testing.T) {
	ctx := context.Background()
	s := mustOpen(t, t.TempDir(), testSeams())
	mustCommit(t, s, batchOf(1, testDim, ids("a", 100)...))
	patch(filepath.Join("segments", "000000.vec"), -4200)(t, s.Dir())
	want := []string{"000000.vec", fmt.Sprint(headerSize + 100*testDim*4), "4200"}
	_, viewErr := s.View(ctx)
	_, commitErr := s.Commit(ctx, batchOf(1, testDim, "b/0"))
	for _, err := range []error{viewErr, commitErr} {
		if !errors.Is(err, ErrCorrupt) {
			t.Fatal(err)
		}
		for _, w := range want {
			if !strings.Contains(err.Error(), w) {
				t.Fatalf("%q does not say %q", err, w)
			}
		}
	}
}

func TestOpenNothing(t *testing.T) {
	ctx := context.Background()
	dir := filepath.Join(t.TempDir(), "x")
	for _, o := range []Options{{}, {ReadOnly: true}, {ReadOnly: true, Create: true, Encoder: &testEncoder}} {
		if _, err := Open(ctx, dir, o); !errors.Is(err, ErrNotFound) ||
			!strings.Contains(err.Error(), "sluice ingest --store "+dir) {
			t.Fatal(err)
		}
	}
	noDim, noDigest := testEncoder, testEncoder
	noDim.Dim, noDigest.Digest = 0, ""
	for want, e := range map[error]*identity.Encoder{ErrDimension: &noDim, ErrInput: &noDigest} {
		if _, err := Open(ctx, dir, Options{Create: true, Encoder: e}); !errors.Is(err, want) {
			t.Fatal(err)
		}
	}
	if _, err := Open(ctx, dir, Options{Create: true}); !errors.Is(err, ErrInput) {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Fatal("a refused Open left something behind")
	}
	if err := os.WriteFile(dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(ctx, dir, Options{Create: true, Encoder: &testEncoder}); !errors.Is(err, ErrNotFound) ||
		!strings.Contains(err.Error(), "is a file") {
		t.Fatal(err)
	}
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := Open(cancelled, t.TempDir(),
		Options{Create: true, Encoder: &testEncoder}); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
}

// A creation that was cut short before its tables existed is resumed by the next one.
func TestCreationResumes(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, databaseName), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(context.Background(), dir, Options{}); !errors.Is(err, ErrNotFound) {
		t.Fatal(err)
	}
	s, err := Open(context.Background(), dir, Options{Create: true, Encoder: &testEncoder, Metric: kernels.IP})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if s.Metric() != kernels.IP {
		t.Fatal(s.Metric())
	}
	mustCommit(t, s, batchOf(1, testDim, "a/0"))
	verify(t, s, versions(1, "a/0"))
}

// Readers see whole commits while a writer adds, replaces and deletes; run with -race.
func TestReadersBesideWriter(t *testing.T) {
	ctx := context.Background()
	w := mustOpen(t, t.TempDir(), testSeams())
	mustCommit(t, w, batchOf(1, testDim, ids("a", 60)...))
	done := make(chan struct{})
	var g sync.WaitGroup
	for i := range 3 {
		s := w
		if i > 0 {
			var err error
			if s, err = Open(ctx, w.Dir(), Options{ReadOnly: true}); err != nil {
				t.Fatal(err)
			}
			defer s.Close()
		}
		g.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				v, err := s.View(ctx)
				if err != nil {
					t.Error(err)
					return
				}
				if n := v.Count(); n%60 != 0 {
					t.Errorf("a view of %d chunks saw half a commit", n)
				}
				live, err := v.Live(ctx)
				if err != nil {
					t.Error(err)
					return
				}
				if n := len(live.IDs); n > 0 {
					id := live.IDs[n-1]
					one, two := vectorOf(id, 1, testDim), vectorOf(id, 2, testDim)
					got := bytesOf(live.Vectors.Data[(n-1)*testDim : n*testDim])
					if !bytes.Equal(got, bytesOf(one)) && !bytes.Equal(got, bytesOf(two)) {
						t.Errorf("%s has a vector of nobody", id)
					}
				}
				if err := v.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for round := range 12 {
		doc := fmt.Sprint("d", round%3)
		b := batchOf(1+round%2, testDim, ids(doc, 60)...)
		mustCommit(t, w, b)
		if round%4 == 3 {
			if _, err := w.DeleteDocuments(ctx, []string{doc}); err != nil {
				t.Fatal(err)
			}
		}
	}
	close(done)
	g.Wait()
}

// Machines whose pages are larger than the header read what others map; it must agree.
func TestReadEqualsMap(t *testing.T) {
	s := mustOpen(t, t.TempDir(), testSeams())
	mustCommit(t, s, batchOf(1, testDim, ids("a", 2500)...))
	read, err := s.segments.readAll(t.Context(), 0, 2500)
	if err != nil {
		t.Fatal(err)
	}
	mapped, err := s.segments.newMapping(0, 2500)
	if err != nil {
		t.Fatal(err)
	}
	defer mapped.release()
	if err := mapped.extend(2500); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(bytesOf(read.rows(0, 2500)), bytesOf(mapped.rows(0, 2500))) {
		t.Fatal("read and mapped rows differ")
	}
}

func FuzzParseHeader(f *testing.F) {
	good := header{Dim: 384, Number: 3, Store: [16]byte{1, 2, 3}, EncoderDigest: "sha256:abc"}.encode()
	f.Add(good)
	f.Add(good[:100])
	f.Add(bytes.Repeat([]byte{0xff}, headerSize))
	f.Add(bytes.Replace(good, []byte{0x0d, 0x0a}, []byte{0x0a}, 1))
	f.Add(header{Dim: maxDim, EncoderDigest: strings.Repeat("d", maxDigest)}.encode())
	f.Add(header{Dim: maxDim + 1}.encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		checkParse(t, b)
		if len(b) >= headerSize { // with a right checksum the fields behind it are reached
			b = bytes.Clone(b[:headerSize])
			binary.LittleEndian.PutUint32(b[headerSize-4:], durable.Checksum(b[:headerSize-4]))
			checkParse(t, b)
		}
	})
}

func checkParse(t *testing.T, b []byte) {
	t.Helper()
	h, err := parseHeader(b)
	if err != nil {
		if !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrVersion) || h != (header{}) {
			t.Fatal(h, err)
		}
		return
	}
	again, err := parseHeader(h.encode())
	if err != nil || again != h || h.Dim == 0 || h.Dim > maxDim || len(h.EncoderDigest) > maxDigest {
		t.Fatal(h, again, err)
	}
}

// Any single wrong byte of a header is noticed.
func TestHeaderNoticesEveryByte(t *testing.T) {
	good := header{Dim: 384, Number: 3, EncoderDigest: "sha256:abc"}
	b := good.encode()
	if got, err := parseHeader(b); err != nil || got != good {
		t.Fatal(got, err)
	}
	for i := range b {
		b[i] ^= 0x10
		if _, err := parseHeader(b); err == nil {
			t.Fatalf("byte %d may change", i)
		}
		b[i] ^= 0x10
	}
}

// Random fields under a right checksum. The fuzzer does the same, but slowly: it looks at the coverage
// of all of SQLite after each try.
func TestParseRandomHeaders(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		b := header{Dim: 1 + r.Uint32N(2*maxDim), Number: r.Uint32(), EncoderDigest: "sha256:x"}.encode()
		for range r.IntN(4) {
			b[8+r.IntN(60)] = byte(r.Uint32())
		}
		binary.LittleEndian.PutUint32(b[headerSize-4:], durable.Checksum(b[:headerSize-4]))
		checkParse(t, b)
	}
}

// Close beside callers: what runs is done or says ErrClosed.
func TestCloseBesideCallers(t *testing.T) {
	ctx := context.Background()
	for round := range 4 {
		s := mustOpen(t, t.TempDir(), testSeams())
		mustCommit(t, s, batchOf(1, testDim, ids("a", 60)...))
		var g sync.WaitGroup
		for name, call := range map[string]func() error{
			"commit": func() error { _, err := s.Commit(ctx, batchOf(1+round, testDim, "b/1")); return err },
			"view": func() error {
				v, err := s.View(ctx)
				if err != nil {
					return err
				}
				_, err = v.Chunks(ctx, []string{"a/1"})
				return errors.Join(err, v.Close())
			},
			"chunks":     func() error { _, err := s.Chunks(ctx, []string{"a/1"}); return err },
			"documents":  func() error { _, err := s.Documents(ctx); return err },
			"meta":       func() error { return s.SetMeta(ctx, "k", nil) },
			"generation": func() error { _, err := s.Generation(ctx); return err },
			"vectors":    func() error { _, err := s.RowVectors(ctx, []int64{3}); return err },
		} {
			g.Go(func() {
				for {
					if err := call(); errors.Is(err, ErrClosed) {
						return
					} else if err != nil {
						t.Errorf("%s: %v", name, err)
						return
					}
				}
			})
		}
		time.Sleep(5 * time.Millisecond)
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		g.Wait()
	}
}
