package calibrate

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-rag/sluice/rag/gate"
	"github.com/sluice-rag/sluice/rag/pseudo"
)

// A larger sample holds each smaller one, and that of a store that has grown holds its share of what is new.
func TestDrawIsNested(t *testing.T) {
	var digests []string
	for i := range 3000 {
		digests = append(digests, fmt.Sprintf("%064x", i))
	}
	all := func(int) bool { return true }
	small, large := newDraw(digests[:2000], all, Options{Seed: 1}), newDraw(digests, all, Options{Seed: 1})
	if small.n != firstDrawn || !slices.Equal(small.rows(), newDraw(digests[:2000], all, Options{Seed: 1}).rows()) ||
		slices.Equal(small.rows(), newDraw(digests[:2000], all, Options{Seed: 2}).rows()) {
		t.Errorf("%v", small.rows())
	}
	old := slices.DeleteFunc(slices.Clone(large.order[:600]), func(row int) bool { return row >= 2000 })
	if !slices.Equal(old, small.order[:len(old)]) {
		t.Error("old contexts are asked about in another order once there are new ones")
	}
	if fresh := 600 - len(old); fresh < 160 || fresh > 240 { // a third, within 3.5 standard errors
		t.Errorf("%d of 600 are new, a third is", fresh)
	}
}

func TestDrawEnds(t *testing.T) {
	digests := make([]string, 2000)
	for i := range digests {
		digests[i] = fmt.Sprintf("%064x", i)
	}
	all := func(int) bool { return true }
	of := func(width float64) *gate.Calibration {
		return &gate.Calibration{Bootstrap: gate.Interval{Low: .3, High: .3 + width, Resamples: 9}}
	}
	d := newDraw(digests, all, Options{})
	var sizes []int
	// without a question, without an interval, a sixth too wide, and so little that the prediction is not worth a round
	for _, c := range []*gate.Calibration{nil, {}, of(.075 * 7 / 6), of(.0755)} {
		d.n = max(d.n, 100)
		if ended := d.grow(c); ended != "" {
			t.Errorf("it ends by %q", ended)
		}
		sizes = append(sizes, d.n)
		if d.n == 400 {
			d.n = 200
		}
	}
	if diff := cmp.Diff([]int{200, 400, 300, 375}, sizes); diff != "" {
		t.Error(diff)
	}
	d.n = mostDrawn
	if ended := d.grow(of(.0749)); ended != "interval" {
		t.Errorf("by %q", ended)
	}
	if ended := d.grow(of(.08)); ended != "contexts" {
		t.Errorf("by %q", ended)
	}
	if d := newDraw(digests[:70], all, Options{}); d.grow(of(.2)) != "all" || d.n != 70 {
		t.Errorf("%+v", d)
	}
	late := newDraw(digests, all, Options{})
	late.until = time.Time{}
	asked := 0
	for range late.rows() {
		if late.more() {
			asked++
		}
	}
	if late.n = asked; asked != leastDrawn || late.grow(of(math.Inf(1))) != "time" {
		t.Errorf("asked about %d, %+v", asked, late)
	}
	// too few of them with usable questions for the policy's statistic: it goes on, but not for ever
	poor := of(math.Inf(1))
	poor.Evidence = gate.Evidence{Contexts: 15, Least: 20}
	late.stopped = "time"
	for _, c := range []*gate.Calibration{poor, nil, poor} {
		before := late.n
		if ended := late.grow(c); ended != "" || late.n != before+leastDrawn || !late.more() {
			t.Errorf("%q, %+v", ended, late)
		}
		for late.more() {
			late.n = late.fresh
		}
	}
	if ended := late.grow(poor); ended != "time" || late.fresh != 4*leastDrawn {
		t.Errorf("%q, %+v", ended, late)
	}
	few := newDraw(digests, all, Options{Few: true, follows: &gate.Calibration{Queries: gate.Provenance{Sample: 300}}})
	asked = 0
	for range few.rows() {
		if few.more() {
			asked++
		}
	}
	if few.n != 300 || asked != fewDrawn {
		t.Errorf("asked about %d of %d", asked, few.n)
	}
	if few.n = asked; few.grow(of(.2)) != "few" {
		t.Errorf("%+v", few)
	}
}

func TestSampleKeepsWholeContextsInOrder(t *testing.T) {
	var queries []pseudo.Query
	for _, id := range []string{"a", "a", "b", "c", "c", "d"} {
		queries = append(queries, pseudo.Query{ContextID: id, Text: id})
	}
	kept := sample(queries, 2, 7)
	if diff := cmp.Diff(kept, sample(queries, 2, 7)); diff != "" {
		t.Error("equal seeds differ:", diff)
	}
	count := map[string]int{}
	for i, q := range kept {
		count[q.ContextID]++
		if i > 0 && kept[i-1].ContextID > q.ContextID {
			t.Error("order changed")
		}
	}
	for id, n := range count {
		if whole := map[string]int{"a": 2, "b": 1, "c": 2, "d": 1}[id]; n != whole {
			t.Errorf("%d of %d queries of %s", n, whole, id)
		}
	}
	if len(count) != 2 || len(sample(queries, 9, 7)) != 6 {
		t.Errorf("%v", count)
	}
}
