package retrieve

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/ref"
)

func TestFilter(t *testing.T) {
	r := Record{Document: "go/spec", Topic: "go", Source: "docs/guide/spec.md", Path: "/x/docs/guide/spec.md",
		Title: "The Go spec", Collection: "docs",
		Added: "2026-03-01T10:00:00Z", Labels: map[string][]string{"place": {"Ulm", "Köln"}},
		Meta: map[string][]string{"year": {"2020"}, "date": {"2024-03-31"}, "person": {"Rob", "Ken"}, "empty": {""}}}
	for text, want := range map[string]bool{
		"":                                     true,
		"topic=go":                             true,
		"topic = go":                           true,
		"topic=sea":                            false,
		"topic!=sea":                           true,
		"topic!=go":                            false,
		"topic=sea topic=go":                   true,
		"topic=sea topic=go collection=x":      false,
		"source=docs/guide/spec.md":            true,
		"source~*.md":                          true,
		"source~docs/*.md":                     false,
		"source~docs/**.md":                    true,
		"source~docs/**/spec.??":               true,
		"source!~*.md":                         false,
		"document~spec":                        true,
		"title~*Go*":                           true,
		"title~*go*":                           false,
		"path~**/guide/**":                     true,
		"meta.year>=2020":                      true,
		"meta.year>2020":                       false,
		"meta.year<1e4":                        true,
		"meta.year=2020.0":                     true,
		"meta.year<=300":                       false,
		"meta.date>=2024-01-01":                true,
		"meta.date<2024-01-01":                 false,
		"meta.date>2000":                       true,
		"meta.date<=2024":                      false, // a year comes before its days
		"title>2000":                           false, // text against a number
		"added>=2026-01-01":                    true,
		"label.place=Ulm":                      true,
		"label.place=Bonn":                     false,
		"label.person=Ulm":                     false,
		"meta.person=Ken":                      true,
		"meta.person!=Ken":                     false,
		"meta.person=Ann meta.person=Rob":      true,
		"meta.absent=x":                        false,
		"meta.absent!=x":                       true,
		"meta.absent<1":                        false,
		"meta.empty=":                          true,
		"topic=go meta.year>=2020 source~*.md": true,
		"topic=go meta.year>=2021 source~*.md": false,
		"meta.year>=2000 meta.year<2010":       false,
		"meta.year>=2000 meta.year<2030":       true,
		"source~[a-z](.md":                     false, // no expression
		"source~*\xff*":                        false,
	} {
		conditions := strings.Fields(text)
		if strings.Contains(text, " = ") {
			conditions = []string{text}
		}
		f, err := ParseFilter(conditions)
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		if got := f.Matcher()(r); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
	for text, says := range map[string]string{"red": "not FIELD OPERATOR VALUE", "": "not FIELD",
		"colour=red": "(known: topic, ",
		"=red":       `no field ""`, "meta.=x": "names nothing", "topic=a\x00b": "NUL", "topic!go": "not FIELD",
		"topic~" + strings.Repeat("?", 5000): "at most 4096 bytes long, given 5005"} {
		if _, err := ParseFilter([]string{text}); !errors.Is(err, ErrFilter) || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestFieldsThatNobodyHas: a condition on one says so, with what there is; what it denies is no mistake.
func TestFieldsThatNobodyHas(t *testing.T) {
	held := map[string]bool{"year": true, "author": true}
	for text, says := range map[string]string{"meta.yaer>=2020": "meta.yaer (there are meta.author, meta.year)",
		"meta.year>=2020": "", "topic=x": "", "meta.yaer!=x": "", "meta.yaer!~x": "", "label.yaer=x": ""} {
		f, err := ParseFilter([]string{text})
		if err != nil {
			t.Fatal(err)
		}
		err = f.Known(held)
		if (err == nil) != (says == "") ||
			err != nil && (!errors.Is(err, ErrFilter) || !strings.Contains(err.Error(), says)) {
			t.Errorf("%s: %v", text, err)
		}
		if err := f.Known(nil); err != nil {
			t.Errorf("%s of no documents: %v", text, err)
		}
	}
}

// TestSelectionsOfAnySize: what a filter leaves is searched exactly, as runs of rows, as copies, and by an index of all
// rows, in every metric.
func TestSelectionsOfAnySize(t *testing.T) {
	e := newEngine(t)
	const rows, dim = 3*shortRun + 100, 3
	data := make([]float32, rows*dim)
	rng := uint32(1)
	for i := range data {
		rng = rng*1664525 + 1013904223
		data[i] = float32(int32(rng)) / (1 << 30)
	}
	v := engine.Vectors{Data: data, Rows: rows, Dim: dim}
	c := Contexts{Vectors: v, IDs: make([]string, rows), Selected: true}
	var sets [kernels.L2 + 1]engine.Vectors
	for metric := range sets {
		s, err := e.Prepare(t.Context(), v, kernels.Metric(metric), engine.SetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		sets[metric] = s.Vectors()
	}
	rapid.Check(t, func(t *rapid.T) {
		metric := rapid.SampledFrom([]kernels.Metric{kernels.Cosine, kernels.IP, kernels.L2}).Draw(t, "metric")
		first := rapid.IntRange(0, rows-1).Draw(t, "first")
		last := rapid.IntRange(first, rows-1).Draw(t, "last")
		step := rapid.IntRange(2, 5000).Draw(t, "step")
		c.Rows = nil
		var bias kernels.BiasList
		for r := range rows {
			if r >= first && r <= last || r%step == 0 {
				c.Rows = append(c.Rows, r)
			}
			if r%7 == 0 {
				bias = append(bias, kernels.Bias{Row: r, Value: float64(r%5) / 8})
			}
		}
		c := c
		if rapid.Bool().Draw(t, "by an index") {
			some, ok, err := engine.Only(t.Context(), sets[metric], c.Rows)
			if err != nil {
				t.Fatal(err)
			}
			if ok { // this machine has a scan
				c.Vectors, c.Narrowed, c.Data = some, true, v
			}
		}
		s := newSpace(e, c, metric)
		q := engine.Vectors{Data: []float32{.3, -1, .5}, Rows: 1, Dim: dim}
		hits, err := s.topK(t.Context(), q, 5, []engine.Biases{readOnly{bias}})
		if err != nil {
			t.Fatal(err)
		}
		worst, err := s.worst(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		var want []engine.Hit
		farthest := metric.Worst()
		for i, r := range c.Rows {
			d := ref.Score(metric, q.Data, data[r*dim:(r+1)*dim])
			if i == 0 || metric.Better(farthest, d) {
				farthest = d
			}
			want = append(want, engine.Hit{Row: r, Score: metric.Biased(d, bias.At(r))})
		}
		slices.SortFunc(want, func(a, b engine.Hit) int {
			if metric.Closer(a, b) {
				return -1
			}
			return 1
		})
		if want = want[:min(5, len(want))]; !slices.Equal(hits[0], want) {
			t.Fatalf("%v, want %v", hits[0], want)
		}
		if worst[0] != farthest {
			t.Fatalf("the farthest has %v, want %v", worst[0], farthest)
		}
	})
}

// readOnly hides that biases are a list: indexes compute theirs.
type readOnly struct{ kernels.Biases }

// FuzzFilter: what is read as a filter can be asked, and is written as it is read.
func FuzzFilter(f *testing.F) {
	for _, s := range []string{"topic=go", "source~docs/**/?.md", "meta.year>=2020", "label.date<2024-01-01",
		"title!~[*](", "a"} {
		f.Add(s, "docs/x.md")
	}
	f.Fuzz(func(t *testing.T, text, value string) {
		filter, err := ParseFilter([]string{text})
		if err != nil {
			if !errors.Is(err, ErrFilter) {
				t.Error(err)
			}
			return
		}
		again, err := ParseFilter([]string{filter[0].String()})
		if err != nil || again[0] != filter[0] {
			t.Errorf("%q is written as %q", text, filter[0])
		}
		r := Record{Document: value, Topic: value, Source: value, Path: value, Title: value, Collection: value,
			Added: value,
			Meta:  map[string][]string{strings.TrimPrefix(filter[0].Field, "meta."): {value}}}
		holds := filter.Matcher()(r)
		if op, negated := strings.CutPrefix(filter[0].Op, "!"); op == "~" || negated {
			filter[0].Op = map[bool]string{true: op, false: "!" + op}[negated]
			if !strings.HasPrefix(filter[0].Field, "label.") && filter.Matcher()(r) == holds {
				t.Errorf("%q and its opposite are both %v for %q", text, holds, value)
			}
		}
	})
}
