package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/sluice-rag/sluice/engine/distribution"
	"github.com/sluice-rag/sluice/engine/internal/device/devicetest"
	"github.com/sluice-rag/sluice/internal/test/race"
	"github.com/sluice-rag/sluice/kernels"
)

// everyOperation is each operation that takes sets of vectors, as a function to something comparable.
func everyOperation(metric kernels.Metric) map[string]operation {
	all := operations(metric)
	delete(all, "AnyAbove") // an index has another witness
	all["above"] = func(ctx context.Context, e *Engine, a, b Vectors) (any, error) {
		var out []bool
		for _, tau := range []float64{-1, 0, .3, .9, 1.3, 9} {
			w, above, err := e.AnyAbove(ctx, rows(a)[0], b, metric, nil, tau)
			if err != nil || above && !metric.Better(w.Score, tau) {
				return w, errors.Join(err, fmt.Errorf("witness %v of %v", w, tau))
			}
			all, err := e.AnyAboveAll(ctx, a, b, metric, nil, tau)
			if err != nil {
				return nil, err
			}
			out = append(out, above)
			for _, d := range all {
				out = append(out, d.Above)
			}
		}
		return out, nil
	}
	all["MaxAll"] = func(ctx context.Context, e *Engine, a, b Vectors) (any, error) {
		return e.MaxAll(ctx, a, b, metric, nil)
	}
	all["Product"] = func(ctx context.Context, e *Engine, a, b Vectors) (any, error) {
		out := make([]float32, a.Rows*b.Rows)
		err := e.Product(ctx, out, b.Rows, a, b, kernels.F32)
		return out, err
	}
	for _, kind := range []NegativeKind{NegativesAll, NegativesCrossGroup} {
		all[fmt.Sprintf("Distribution %d", kind)] = func(ctx context.Context, e *Engine, a, b Vectors) (any, error) {
			in := setInput(metric, kind, a, b)
			return e.Distribution(ctx, in)
		}
	}
	return all
}

// setInput returns the distribution of any two sets of vectors.
func setInput(metric kernels.Metric, kind NegativeKind, queries, contexts Vectors) DistributionInput {
	in := DistributionInput{Queries: queries, Contexts: contexts, Metric: metric, Quantiles: table, Bins: 7}
	in.Negatives.Kind = kind
	for q := range queries.Rows {
		in.Owner = append(in.Owner, int32(q*7%contexts.Rows))
	}
	for c := range contexts.Rows {
		in.Group = append(in.Group, int32(c%5))
	}
	return in
}

// sameBits compares results: NaN equals itself, and the way to a distribution may differ.
func sameBits(want, got any) string {
	if list, ok := want.([]float32); ok && slices.Equal(list, got.([]float32)) {
		return ""
	}
	if d, ok := want.(*Distribution); ok && reflect.DeepEqual(withoutTheWay(d), withoutTheWay(got.(*Distribution))) {
		return ""
	}
	return difference(want, got, cmpopts.EquateNaNs(), cmpopts.IgnoreFields(Distribution{}, "Way", "Kept", "Rechecked"))
}

func withoutTheWay(d *Distribution) Distribution {
	c := *d
	c.Way, c.Kept, c.Rechecked = Distribution{}.Way, 0, 0
	return c
}

// TestSetInEveryOperation: a prepared set on either side gives the bits of plain vectors, the first time and when
// packed copies are there, in its own metric and in others.
func TestSetInEveryOperation(t *testing.T) {
	race.Skip(t)
	rng, ctx := rand.New(rand.NewPCG(111, 1)), context.Background()
	e := newEngine(t, Options{})
	a, b := plain(rng, 90, 24), plain(rng, 1300, 24)
	if devicetest.OnCUDA() { // still more than a tile; an index, which it is too small for, is the host's
		b = plain(rng, 170, 24)
	}
	for _, metric := range metrics {
		left, right := prepare(t, e, a, kernels.Cosine, SetOptions{NoIndex: true}),
			prepare(t, e, b, metric, SetOptions{})
		for _, m := range metrics {
			for name, do := range everyOperation(m) {
				want, err := do(ctx, e, a, b)
				if err != nil {
					t.Fatal(err)
				}
				for round, sides := range [][2]Vectors{{a, right.Vectors()}, {left.Vectors(), b},
					{left.Vectors(), right.Vectors()}, {a, right.Vectors()}} {
					got, err := do(ctx, e, sides[0], sides[1])
					if diff := sameBits(want, got); diff != "" || err != nil {
						t.Fatalf("%s in %s, round %d, %s: %v\n%s", m, metric, round, name, err, diff)
					}
				}
			}
		}
		if l, r := left.Describe(), right.Describe(); l.Packed == 0 || r.Packed == 0 || l.Bytes >= r.Bytes &&
			r.Reason == "" {
			t.Errorf("%s: left %+v, right %+v", metric, l, r)
		}
	}
}

// TestSetGrowsAndShrinks: rows that come and go, against plain vectors of those that are there; what was taken before
// keeps its rows.
func TestSetGrowsAndShrinks(t *testing.T) {
	rng, ctx := rand.New(rand.NewPCG(113, 1)), context.Background()
	e := newEngine(t, Options{})
	a, all := plain(rng, 60, 24), plain(rng, 2600, 24)
	part := func(from, to int) Vectors { return Vectors{Data: all.Data[from*24 : to*24], Rows: to - from, Dim: 24} }
	for _, metric := range metrics {
		s := prepare(t, e, part(0, 1200), metric, SetOptions{})
		before := s.Vectors()
		if err := errors.Join(s.Append(ctx, part(1200, 1203)), s.Append(ctx, part(1203, 2600))); err != nil {
			t.Fatal(err)
		}
		for name, do := range everyOperation(metric) {
			for what, sides := range map[string][2]Vectors{"before": {part(0, 1200), before},
				"after": {all, s.Vectors()}} {
				if name == "BoundedMatrix" && what == "after" {
					continue // the comparison looks at Data, which is not there
				}
				want, err := do(ctx, e, a, sides[0])
				got, err2 := do(ctx, e, a, sides[1])
				if diff := sameBits(want, got); diff != "" || err != nil || err2 != nil {
					t.Fatalf("%s %s %s: %v, %v\n%s", metric, name, what, err, err2, diff)
				}
			}
		}
		shrink(t, e, s, metric, a, all)
	}
}

// shrink deletes a fifth of the set's rows and compares again.
func shrink(t *testing.T, e *Engine, s preparedSet, metric kernels.Metric, a, all Vectors) {
	t.Helper()
	ctx, full := context.Background(), s.Vectors()
	gone := make([]bool, all.Rows)
	for row := 0; row < all.Rows; row += 5 {
		if err := errors.Join(s.Delete(row), s.Delete(row)); err != nil {
			t.Fatal(err)
		}
		gone[row] = true
	}
	left, number := Vectors{Dim: 24}, []int32(nil)
	for i, row := range rows(all) {
		if !gone[i] {
			left.Data, left.Rows, number = append(left.Data, row...), left.Rows+1, append(number, int32(i))
		}
	}
	now := s.Vectors()
	for _, m := range metrics {
		want, err := e.TopK(ctx, a, left, m, 5, nil)
		got, err2 := e.TopK(ctx, a, now, m, 5, nil)
		for _, hits := range want {
			for i := range hits {
				hits[i].Row = int(number[hits[i].Row])
			}
		}
		if diff := difference(want, got); diff != "" || err != nil || err2 != nil {
			t.Fatalf("%s in %s: %v, %v\n%s", m, metric, err, err2, diff)
		}
		best, err := e.MaxAll(ctx, a, now, m, nil)
		if err != nil || !slices.EqualFunc(best, want, func(h Hit, all []Hit) bool { return h == all[0] }) {
			t.Fatalf("%s in %s: MaxAll %v, %v", m, metric, best, err)
		}
		old, err := e.TopK(ctx, a, full, m, 5, nil)
		want, err2 = e.TopK(ctx, a, all, m, 5, nil)
		if diff := difference(want, old); diff != "" || err != nil || err2 != nil {
			t.Fatalf("%s in %s, the snapshot before: %v, %v\n%s", m, metric, err, err2, diff)
		}
	}
	out := make([]float32, a.Rows*now.Rows)
	if err := e.Matrix(ctx, out, a, now, metric); err != nil {
		t.Fatal(err)
	}
	for i, x := range out {
		if math.IsNaN(float64(x)) != gone[i%now.Rows] {
			t.Fatalf("%s: score %v of row %d", metric, x, i%now.Rows)
		}
	}
	shrunk(t, e, metric, a, all, now, left, number)
}

// shrunk compares distributions whose contexts, queries or both have deleted rows.
func shrunk(t *testing.T, e *Engine, metric kernels.Metric, a, all, now, left Vectors, number []int32) {
	t.Helper()
	ctx := context.Background()
	small := setInput(metric, NegativesCrossGroup, a, left)
	for i, row := range number {
		small.Group[i] = row % 5
	}
	large := setInput(metric, NegativesCrossGroup, a, now)
	for q := range small.Owner {
		large.Owner[q] = number[small.Owner[q]]
	}
	want, err := e.Distribution(ctx, small)
	got, err2 := e.Distribution(ctx, large)
	if err != nil || err2 != nil {
		t.Fatal(err, err2)
	}
	renumber(want, func(c int32) int32 { return number[c] })
	if diff := sameBits(want, got); diff != "" {
		t.Fatalf("%s: contexts\n%s", metric, diff)
	}
	large.Owner[3] = 5
	if _, err := e.Distribution(ctx, large); !errors.Is(err, kernels.ErrArgument) {
		t.Errorf("an owner that is deleted: %v", err)
	}
	if _, err := e.DistributionBrackets(ctx, large, 0); !errors.Is(err, kernels.ErrArgument) {
		t.Errorf("brackets of a set with deleted rows: %v", err)
	}

	in := setInput(metric, NegativesAll, now, a) // the queries have deleted rows
	got, err = e.Distribution(ctx, in)
	plainIn := setInput(metric, NegativesAll, left, a)
	for i, row := range number {
		plainIn.Owner[i] = in.Owner[row]
	}
	want, err2 = e.Distribution(ctx, plainIn)
	if err != nil || err2 != nil {
		t.Fatal(err, err2)
	}
	for i, row := range number {
		if got.Positive[row] != want.Positive[i] || got.Best[row] != want.Best[i] ||
			got.BestOtherRow[row] != want.BestOtherRow[i] {
			t.Fatalf("%s: query %d", metric, row)
		}
	}
	if got.Positive[0] != metric.Worst() || got.BestRow[0] != -1 || len(got.Best) != all.Rows {
		t.Errorf("%s: a deleted query: %v %v", metric, got.Positive[0], got.BestRow[0])
	}
	for _, s := range []*Summary{&want.PositiveSummary, &want.NegativeSummary, &want.Max} {
		s.MinQuery, s.MaxQuery = number[s.MinQuery], number[s.MaxQuery]
	}
	if diff := difference(want.NegativeSummary, got.NegativeSummary) + difference(want.Max, got.Max); diff != "" {
		t.Fatalf("%s: queries\n%s", metric, diff)
	}
}

// renumber gives a distribution's contexts other numbers.
func renumber(d *distribution.Result, number func(int32) int32) {
	for _, list := range [][]int32{d.BestRow, d.BestOtherRow} {
		for i := range list {
			list[i] = number(list[i])
		}
	}
	for _, s := range []*Summary{&d.PositiveSummary, &d.NegativeSummary, &d.Max} {
		s.MinContext, s.MaxContext = number(s.MinContext), number(s.MaxContext)
	}
}

// TestSetFile checks that a set that was saved and loaded gives the same answers and has the same deleted rows, and
// that other vectors, other bytes and a full disk are errors that leave an existing file unchanged.
func TestSetFile(t *testing.T) {
	rng, ctx := rand.New(rand.NewPCG(117, 1)), context.Background()
	e, path := newEngine(t, Options{}), filepath.Join(t.TempDir(), "set")
	c, q := plain(rng, 3000, 24), plain(rng, 20, 24)
	s := prepare(t, e, c, kernels.L2, SetOptions{})
	if err := errors.Join(s.Delete(3), s.Save(ctx, path)); err != nil {
		t.Fatal(err)
	}
	loaded, err := e.Load(ctx, path, c, SetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer loaded.Close()
	if was, is := s.Describe(), loaded.Describe(); was != is {
		t.Errorf("%+v, saved from %+v", is, was)
	}
	want, err := s.TopK(ctx, q, 9, nil)
	got, err2 := preparedSet{loaded}.TopK(ctx, q, 9, nil)
	if diff := difference(want, got); diff != "" || err != nil || err2 != nil {
		t.Errorf("%v, %v\n%s", err, err2, diff)
	}
	other := Vectors{Data: slices.Clone(c.Data), Rows: c.Rows, Dim: c.Dim}
	other.Data[70] = math.Nextafter32(other.Data[70], 9)
	if _, err := e.Load(ctx, path, other, SetOptions{}); !errors.Is(err, ErrSetVectors) {
		t.Errorf("other vectors: %v", err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	broken := filepath.Join(t.TempDir(), "broken")
	for name, data := range map[string][]byte{"empty": nil, "half": whole[:len(whole)/2],
		"more":  append(slices.Clone(whole), 0),
		"a bit": func() []byte { b := slices.Clone(whole); b[len(b)/3] ^= 4; return b }()} {
		if err := os.WriteFile(broken, data, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := e.Load(ctx, broken, c, SetOptions{}); !errors.Is(err, ErrSetFile) &&
			!errors.Is(err, ErrSetVectors) {
			t.Errorf("%s: %v", name, err)
		}
	}
	canceled, cancel := context.WithCancel(ctx)
	cancel()
	if err := s.Save(canceled, path); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled Save: %v", err)
	}
	if now, err := os.ReadFile(path); err != nil || !bytes.Equal(now, whole) {
		t.Errorf("a cancelled Save changed the file (%v)", err)
	}
	if err := s.Save(ctx, filepath.Join(path, "below a file")); err == nil {
		t.Error("saved below a file")
	}
	if _, err := e.Load(ctx, path+"x", c, SetOptions{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	if files, err := os.ReadDir(filepath.Dir(path)); err != nil || len(files) != 1 {
		t.Errorf("%v are left (%v)", files, err)
	}
}

// TestSetErrors: every use of a closed set is ErrClosed; shapes that do not fit it, and options, are refused.
func TestSetErrors(t *testing.T) {
	rng, ctx := rand.New(rand.NewPCG(119, 1)), context.Background()
	e := newEngine(t, Options{})
	a, b := plain(rng, 30, 24), plain(rng, 400, 24)
	if _, err := e.Prepare(ctx, b, kernels.IP, SetOptions{MemLimit: -1}); !errors.Is(err, kernels.ErrArgument) {
		t.Errorf("a negative limit: %v", err)
	}
	s := prepare(t, e, b, kernels.IP, SetOptions{})
	v := s.Vectors()
	some := Vectors{Rows: 30, Dim: 24, Set: v.Set}
	if _, err := e.TopK(ctx, a, some, kernels.IP, 1, nil); !errors.Is(err, kernels.ErrShape) {
		t.Errorf("a part of a set without its data: %v", err)
	}
	some = Vectors{Data: b.Data, Rows: 30, Dim: 24, Set: v.Set}
	want, err := e.TopK(ctx, a, Vectors{Data: b.Data, Rows: 30, Dim: 24}, kernels.IP, 3, nil)
	got, err2 := e.TopK(ctx, a, some, kernels.IP, 3, nil)
	if diff := difference(want, got); diff != "" || err != nil || err2 != nil {
		t.Errorf("the first rows of a set: %v, %v\n%s", err, err2, diff)
	}
	s.Close()
	s.Close()
	for name, do := range everyOperation(kernels.IP) {
		if result, err := do(ctx, e, a, v); !errors.Is(err, ErrClosed) {
			t.Errorf("%s of a closed set: %v, %v", name, result, err)
		}
	}
	path := filepath.Join(t.TempDir(), "set")
	for name, err := range map[string]error{"Append": s.Append(ctx, a), "Delete": s.Delete(0),
		"Save": s.Save(ctx, path)} {
		if !errors.Is(err, ErrClosed) {
			t.Errorf("%s of a closed set: %v", name, err)
		}
	}
	if d := s.Describe(); d.Rows != 400 || d.Packed != 0 {
		t.Errorf("closed: %+v", d)
	}
}

// TestSetPackedCopies: they stay within the limit, and go when the set grows or is closed.
func TestSetPackedCopies(t *testing.T) {
	rng, ctx := rand.New(rand.NewPCG(121, 1)), context.Background()
	e := newEngine(t, Options{})
	a, b := plain(rng, 300, 24), plain(rng, 700, 24)
	copied := e.r.Bytes(e.r.Accurate(), 700, 24) + 4*700
	for name, tt := range map[string]struct{ limit, allowed int64 }{"default": {0, 3 * copied},
		"one": {copied + 10, copied + 10}, "none": {1, 0}} {
		s := prepare(t, e, b, kernels.Cosine, SetOptions{NoIndex: true, MemLimit: tt.limit})
		for _, kind := range []NegativeKind{NegativesAll, NegativesCrossGroup, NegativesAll} {
			if _, err := e.Distribution(ctx, setInput(kernels.Cosine, kind, a, s.Vectors())); err != nil {
				t.Fatal(err)
			}
		}
		if d := s.Describe(); d.Packed > tt.allowed || tt.allowed > 0 && d.Packed == 0 {
			t.Errorf("%s: %d bytes of at most %d", name, d.Packed, tt.allowed)
		}
		if err := s.Append(ctx, a); err != nil || s.Describe().Packed != 0 {
			t.Errorf("%s: %+v after Append (%v)", name, s.Describe(), err)
		}
	}
}

// TestSetConcurrent: operations beside Append, Delete and Close end with a right result or ErrClosed.
func TestSetConcurrent(t *testing.T) {
	rng, ctx := rand.New(rand.NewPCG(123, 1)), context.Background()
	e := newEngine(t, Options{})
	a, b := plain(rng, 40, 24), plain(rng, 900, 24)
	s := prepare(t, e, Vectors{Data: b.Data, Rows: 600, Dim: 24}, kernels.Cosine, SetOptions{})
	var group sync.WaitGroup
	for range 3 {
		group.Go(func() {
			for {
				v := s.Vectors()
				got, err := e.TopK(ctx, a, v, kernels.Cosine, 3, nil)
				if err == nil {
					_, err = e.Distribution(ctx, setInput(kernels.Cosine, NegativesAll, a, v))
				}
				if errors.Is(err, ErrClosed) {
					return
				}
				deleted := err != nil && errors.Is(err, kernels.ErrArgument) // an owner
				if err != nil && !deleted || len(got) != 40 {
					t.Error(err)
					return
				}
				want, err := e.TopK(ctx, a, v, kernels.Cosine, 3, nil)
				if !errors.Is(err, ErrClosed) && !reflect.DeepEqual(want, got) {
					t.Errorf("%v, then %v (%v)", got, want, err)
				}
			}
		})
	}
	for i := range 20 {
		if err := errors.Join(s.Append(ctx, Vectors{Data: b.Data[(600+i*10)*24:], Rows: 10, Dim: 24}),
			s.Delete(i*31)); err != nil {
			t.Error(err)
		}
	}
	s.Close()
	group.Wait()
}

// TestSetOldSnapshot: operations on a snapshot from before a change leave nothing behind, deleted rows or not
// (newEngine looks at the device afterwards), and gathering rows ends with its context.
func TestSetOldSnapshot(t *testing.T) {
	rng, ctx := rand.New(rand.NewPCG(125, 1)), context.Background()
	e := newEngine(t, Options{})
	a, b := plain(rng, 300, 24), plain(rng, 700, 24)
	s := prepare(t, e, b, kernels.Cosine, SetOptions{NoIndex: true})
	if err := errors.Join(s.Delete(650), s.Append(ctx, a)); err != nil {
		t.Fatal(err)
	}
	old := s.Vectors()
	canceled, cancel := context.WithCancel(ctx)
	cancel()
	in := setInput(kernels.Cosine, NegativesAll, a, old)
	if _, err := e.Distribution(canceled, in); !errors.Is(err, context.Canceled) {
		t.Errorf("gathering with an ended context: %v", err)
	}
	if err := s.Append(ctx, a); err != nil {
		t.Fatal(err)
	}
	for i := range in.Owner {
		in.Owner[i] = int32(i)
	}
	if _, err := e.Distribution(ctx, in); err != nil {
		t.Fatal(err)
	}
	if err := e.Matrix(ctx, make([]float32, a.Rows*old.Rows), a, old, kernels.Cosine); err != nil {
		t.Fatal(err)
	}
}

// TestLoadByDigest: who names vectors has them not read, may have more of them than the file, and others are refused.
func TestLoadByDigest(t *testing.T) {
	e := newEngine(t, Options{})
	rng := rand.New(rand.NewPCG(5, 5))
	v := plain(rng, 3000, 32)
	named := 0
	o := SetOptions{Clusters: 4, Digest: func(_ context.Context, rows int) ([32]byte, error) {
		named = rows
		return [32]byte{7, byte(rows)}, nil
	}}
	first := v
	first.Rows, first.Data = 2000, v.Data[:2000*32]
	s, err := e.Prepare(t.Context(), first, kernels.Cosine, o)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Delete(3, 1999, 3, 17); err != nil {
		t.Fatal(err)
	}
	if err := s.Delete(4, 2000); !errors.Is(err, kernels.ErrArgument) || s.Describe().Deleted != 3 {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "set")
	if err := s.Save(t.Context(), path); err != nil {
		t.Fatal(err)
	}
	loaded, err := e.Load(t.Context(), path, v, o)
	if err != nil {
		t.Fatal(err)
	}
	defer loaded.Close()
	clusters := s.Describe().Clusters // none where the instruction set has no scan
	if d := loaded.Describe(); named != 2000 || d.Rows != 3000 || d.Deleted != 3 || d.Clusters != clusters {
		t.Errorf("named %d rows, %+v", named, d)
	}
	if err := s.Append(t.Context(), Vectors{Data: v.Data[2000*32:], Rows: 1000, Dim: 32}); err != nil {
		t.Fatal(err)
	}
	q := plain(rng, 5, 32)
	want, err := e.TopK(t.Context(), q, s.Vectors(), kernels.Cosine, 10, nil)
	if err != nil {
		t.Fatal(err)
	}
	got, err := e.TopK(t.Context(), q, loaded.Vectors(), kernels.Cosine, 10, nil)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v: %v", got, want, err)
	}
	o.Digest = func(context.Context, int) ([32]byte, error) { return [32]byte{8}, nil }
	if _, err := e.Load(t.Context(), path, v, o); !errors.Is(err, ErrSetVectors) {
		t.Error(err)
	}
	o.Digest = nil
	if _, err := e.Load(t.Context(), path, first, o); !errors.Is(err, ErrSetVectors) {
		t.Error(err)
	}
	short := first
	short.Rows = 1000
	o.Digest = func(context.Context, int) ([32]byte, error) { return [32]byte{7, 208}, nil }
	if _, err := e.Load(t.Context(), path, short, o); !errors.Is(err, ErrSetVectors) {
		t.Error(err)
	}
}
