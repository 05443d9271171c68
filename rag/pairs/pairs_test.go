package pairs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/internal/filelock"
	"github.com/sluice-rag/sluice/kernels"
)

// TestCountFollowsChanges: contexts are added, deleted, and both, several times. Every result equals the result of a
// full count, and only the changed pairs are counted.
func TestCountFollowsChanges(t *testing.T) {
	for _, metric := range []kernels.Metric{kernels.Cosine, kernels.L2, kernels.IP} {
		for _, kind := range []engine.NegativeKind{engine.NegativesAll, engine.NegativesCrossGroup} {
			for _, groups := range []int{0, 4} {
				if groups == 0 && kind == engine.NegativesCrossGroup {
					continue
				}
				name := fmt.Sprintf("%v negatives %d groups %d", metric, kind, groups)
				l, file := newLibrary(420, 2, groups), stateFile(t)
				run := func(what string, want int64) Report {
					in := l.input(file)
					in.Metric, in.Negatives.Kind = metric, kind
					r := count(t, name+" "+what, in)
					if r.Recounted {
						return r
					}
					if r.Pairs != want || (r.Reason == "") != (what != "first") || r.StateBytes == 0 {
						t.Errorf("%s %s: %d pairs counted, want %d; %+v", name, what, r.Pairs, want, r)
					}
					return r
				}
				l.live = upTo(400)
				run("first", 400*800)
				run("unchanged", 0)
				l.live = upTo(404)
				run("four more", 4*808+400*8)
				l.live = slices.DeleteFunc(l.live, func(i int) bool { return i == 0 || i == 77 || i == 402 })
				run("three less", 3*808+401*6)
				l.live = append(slices.DeleteFunc(l.live, func(i int) bool { return i == 200 }), 404, 405)
				run("two more and one less", 1*802+400*2+2*804+400*4)
				slices.Reverse(l.live)
				run("in another order", 0)
			}
		}
	}
}

// TestCountKeepsSmallBasesWhole: with room for all pairs, no change misses a quantile.
func TestCountKeepsSmallBasesWhole(t *testing.T) {
	l, file := newLibrary(100, 3, 3), stateFile(t)
	for _, n := range []int{60, 75, 90, 100, 90} {
		l.live = upTo(n)
		in := l.input(file)
		in.Limit = 1 << 20
		if r := count(t, fmt.Sprint(n), in); n > 60 && (r.Reason != "" || r.Recounted) {
			t.Errorf("%d contexts: %+v", n, r)
		}
	}
}

// TestCountRecounts: brackets that do not hold a quantile are noticed; all pairs are counted again, with the same bits.
func TestCountRecounts(t *testing.T) {
	l, file := newLibrary(420, 2, 0), stateFile(t)
	l.live = upTo(400)
	in := l.input(file)
	c := &counting{counter: newEngine(t), e: newEngine(t), in: in}
	if _, err := c.name(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, b, _, err := c.e.KeepDistribution(t.Context(), c.in.DistributionInput, in.Limit)
	if err != nil {
		t.Fatal(err)
	}
	for i := range b.Ranges {
		b.Ranges[i][0] += .02
		b.Ranges[i][1] += .02
	}
	p, err := c.e.DistributionPart(t.Context(), c.in.DistributionInput, b,
		engine.Block{Contexts: [2]int{0, 400}, Queries: [2]int{0, 800}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.write(b, []piece{{part: p}}); err != nil {
		t.Fatal(err)
	}
	l.live = upTo(402)
	r := count(t, "shifted", l.input(file))
	if !r.Recounted || !strings.Contains(r.Reason, "[0.05 0.25 0.5 0.75 0.95]") || r.Pairs != 2*804+400*4+402*804 {
		t.Errorf("%+v", r)
	}
	l.live = upTo(404)
	if r := count(t, "afterwards", l.input(file)); r.Recounted || r.Pairs != 2*808+402*4 {
		t.Errorf("%+v", r)
	}
}

// TestCountRefusesStates: what does not fit is never used, and the reason is said.
func TestCountRefusesStates(t *testing.T) {
	l := newLibrary(320, 2, 4)
	part := func(file string) string {
		parts, err := filepath.Glob(file + ".*" + partSuffix)
		if err != nil || len(parts) != 1 {
			t.Fatalf("%v %v", parts, err)
		}
		return parts[0]
	}
	flip := func(path string, at int) {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		data[(at+len(data))%len(data)] ^= 1
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		damage func(file string)
		change func(in *Input)
		reason string
	}{
		"encoder":   {nil, func(in *Input) { in.Encoder = "e2" }, "another encoder"},
		"metric":    {nil, func(in *Input) { in.Metric = kernels.L2 }, "the metric cosine"},
		"negatives": {nil, func(in *Input) { in.Negatives.Kind = engine.NegativesCrossGroup }, "other negatives"},
		"quantiles": {nil, func(in *Input) { in.Quantiles = []float64{.5} }, "other quantiles"},
		"groups":    {nil, func(in *Input) { in.Group = nil }, "one topic"},
		"topics": {nil, func(in *Input) {
			in.Group = slices.Clone(in.Group)
			in.Group[17] = (in.Group[17] + 1) % 4
		}, "changed their topics"},
		"all new": {nil, func(in *Input) {
			for i := range in.ContextNames {
				in.ContextNames[i] += " changed"
			}
		}, "200 % of the pairs"},
		"vector": {nil, func(in *Input) {
			in.Contexts.Data[0]++
			in.Gone = func(context.Context, []int64, [][32]byte) (c, q engine.Vectors, err error) {
				c, q = engine.Vectors{Data: in.Contexts.Data[:dim], Rows: 1, Dim: dim}, in.Queries
				q.Rows = 2
				return c, q, nil
			}
		}, "is another one"},
		"not kept": {nil, func(in *Input) {
			in.Contexts.Data[0]++
			in.Gone = func(context.Context, []int64, [][32]byte) (c, q engine.Vectors, err error) {
				return c, q, errors.New("not in this store")
			}
		}, "not in this store"},
		"version":      {func(file string) { flip(file, 7) }, nil, "another version"},
		"state":        {func(file string) { flip(file, -100) }, nil, "damaged"},
		"torn state":   {func(file string) { _ = os.Truncate(file, 1000) }, nil, "damaged"},
		"part":         {func(file string) { flip(part(file), 2000) }, nil, "damaged"},
		"part's sum":   {func(file string) { flip(part(file), -1) }, nil, "not the part"},
		"torn part":    {func(file string) { _ = os.Truncate(part(file), 5000) }, nil, "not the part"},
		"missing part": {func(file string) { _ = os.Remove(part(file)) }, nil, "damaged"},
		"no state":     {func(file string) { _ = os.Remove(file) }, nil, "nothing is kept yet"},
	} {
		file := stateFile(t)
		l.live = upTo(300)
		count(t, name, l.input(file))
		if c.damage != nil {
			c.damage(file)
		}
		in := l.input(file)
		if c.change != nil {
			c.change(&in)
		}
		if r := count(t, name, in); !strings.Contains(r.Reason, c.reason) || r.Pairs != r.Of || r.Recounted {
			t.Errorf("%s: %+v", name, r)
		}
		if r := count(t, name+", again", in); r.Pairs != 0 || r.Reason != "" {
			t.Errorf("%s: the new state is not used: %+v", name, r)
		}
	}
}

// TestCountKeepsNothing: what has no parts is counted all the same, and an old state does not stay.
func TestCountKeepsNothing(t *testing.T) {
	l := newLibrary(320, 2, 4)
	l.live = upTo(300)
	file := stateFile(t)
	count(t, "first", l.input(file))
	in := l.input(file)
	in.Negatives = engine.Negatives{Kind: engine.NegativesSample, PerQuery: 5, Seed: 1}
	if r := count(t, "sampled", in); !strings.Contains(r.Reason, "sampled negatives") || r.StateBytes != 0 {
		t.Errorf("%+v", r)
	}
	if left, _ := filepath.Glob(file + "*"); !slices.Equal(left, []string{file + filelock.Suffix}) {
		t.Errorf("left behind: %v", left)
	}
	in = l.input(filepath.Join(t.TempDir(), "no such folder", "state"))
	if r := count(t, "no folder", in); !strings.Contains(r.Reason, "nothing was kept") || r.StateBytes != 0 {
		t.Errorf("%+v", r)
	}
	in = l.input(file)
	in.ContextNames = in.ContextNames[1:]
	if _, _, err := Count(t.Context(), newEngine(t), in); !errors.Is(err, kernels.ErrShape) {
		t.Errorf("names that are missing: %v", err)
	}
	in = l.input(file)
	copy(in.Contexts.Data[dim:2*dim], in.Contexts.Data[:dim])
	in.ContextNames[1] = in.ContextNames[0]
	if r := count(t, "twins", in); !strings.Contains(r.Reason, "has the name of another one") {
		t.Errorf("%+v", r)
	}
}

// TestCountSurvivesKills: whenever a process dies, the next one starts from the earlier state or the new one, and what
// was half written goes.
func TestCountSurvivesKills(t *testing.T) {
	l, file := newLibrary(320, 2, 0), stateFile(t)
	l.live = upTo(300)
	count(t, "first", l.input(file))
	earlier, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	// Killed while it counts.
	l.live = upTo(303)
	ctx, cancel := context.WithCancel(t.Context())
	e, err := engine.New(engine.Options{Progress: func(int64, int64) { cancel() }})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := Count(ctx, e, l.input(file)); !errors.Is(err, context.Canceled) {
		t.Fatalf("cancelled: %v", err)
	}
	if now, err := os.ReadFile(file); err != nil || !slices.Equal(now, earlier) {
		t.Errorf("the state has changed: %v", err)
	}
	// Killed when new parts were written and the state was not: they lie there, the earlier state is in force.
	count(t, "second", l.input(file))
	if err := os.WriteFile(file, earlier, 0o600); err != nil {
		t.Fatal(err)
	}
	torn := filepath.Join(filepath.Dir(file), ".default.state.123")
	if err := os.WriteFile(torn, earlier[:100], 0o600); err != nil {
		t.Fatal(err)
	}
	if r := count(t, "third", l.input(file)); r.Pairs != 3*606+300*6 || r.Reason != "" {
		t.Errorf("%+v", r)
	}
	parts, _ := filepath.Glob(file + ".*" + partSuffix)
	if _, err := os.Stat(torn); len(parts) != 3 || !os.IsNotExist(err) {
		t.Errorf("%v are there, and %v", parts, err)
	}
	// Killed before the artifact was written: the state knows all pairs.
	if r := count(t, "fourth", l.input(file)); r.Pairs != 0 {
		t.Errorf("%+v", r)
	}
}

// FuzzState: bytes are a state or are refused.
func FuzzState(f *testing.F) {
	data, err := encodeState(header{Brackets: &engine.Brackets{}, Parts: []partFile{{Name: "p"}}},
		[]contextRow{{id: 1}}, []queryRow{{id: 2}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add(data[:len(data)-9])
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := decodeState(data)
		if err != nil {
			if !errors.Is(err, errState) {
				t.Fatalf("untyped error %v", err)
			}
			return
		}
		again, err := encodeState(s.header, s.contexts, s.queries)
		if err != nil || len(again) == 0 {
			t.Fatalf("what was read cannot be written: %v", err)
		}
	})
}

// TestCountSmall: without a limit, what is sooner counted than read is counted whole, leaves no file and needs none;
// one product more, and counts are kept.
func TestCountSmall(t *testing.T) {
	l, file := newLibrary(50, 2, 0), stateFile(t)
	l.live = upTo(50)
	in := l.input(file)
	count(t, "kept", in)
	in.Limit, in.Checkpoint = 0, file+".pairs"
	want, err := newEngine(t).Distribution(t.Context(), in.DistributionInput)
	if err != nil {
		t.Fatal(err)
	}
	got, r, err := Count(t.Context(), newEngine(t), in)
	if all := int64(in.Contexts.Rows * in.Queries.Rows); err != nil || r != (Report{Pairs: all, Of: all}) {
		t.Errorf("%+v %v", r, err)
	}
	if got.NegativeSummary.Mean != want.NegativeSummary.Mean || !slices.Equal(got.Best, want.Best) {
		t.Errorf("%+v, want %+v", got.NegativeSummary, want.NegativeSummary)
	}
	left, err := filepath.Glob(file + "*")
	if left = slices.DeleteFunc(left, func(f string) bool { return strings.HasSuffix(f, ".lock") }); len(left) > 0 {
		t.Errorf("files: %v %v", left, err)
	}
	for rows, kept := range map[int]bool{SmallWork / 1024: false, SmallWork/1024 + 1: true} {
		var in Input
		in.File = file
		in.Contexts.Rows, in.Contexts.Dim, in.Queries.Rows = rows, 1024, 1
		if _, r, err := countLocked(t.Context(), nothing{}, in); err != nil || (r.Reason != "") != kept {
			t.Errorf("%d contexts: %+v %v", rows, r, err)
		}
	}
}

// nothing counts nothing, and no parts.
type nothing struct{}

func (nothing) Distribution(context.Context, engine.DistributionInput) (*engine.Distribution, error) {
	return &engine.Distribution{}, nil
}
