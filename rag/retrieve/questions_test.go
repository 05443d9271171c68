package retrieve

import (
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/sluice-rag/sluice/kernels"
)

// TestPseudoQuery: a context has the score of the nearest question about it, contexts without questions and those that
// are left out are not found, and where one context has many near questions, further ones are looked for.
func TestPseudoQuery(t *testing.T) {
	o := DefaultOptions()
	o.Mode, o.K, o.Explain = PseudoQuery, 2, true
	questions := &Questions{Vectors: two(), Rows: nil}
	ask := func(row int, degrees float64) {
		a := degrees * math.Pi / 180
		questions.Vectors.Data = append(questions.Vectors.Data, float32(math.Cos(a)), float32(math.Sin(a)))
		questions.Vectors.Rows++
		questions.Rows = append(questions.Rows, row)
	}
	for i := range 40 { // all nearer than the others
		ask(3, float64(i)/10)
	}
	ask(1, 60)
	ask(1, 10)
	ask(0, 30)
	ask(4, 20)
	src := Source{Engine: newEngine(t), Metric: kernels.Cosine, Questions: questions,
		Contexts: Contexts{Vectors: two(1, 0, 1, 0, 1, 0, 0, 1, 1, 0), IDs: []string{"a", "b", "c", "d", "e"}}}
	search := func(want ...string) []Result {
		t.Helper()
		lists, err := Search(t.Context(), src, Queries{Vectors: two(1, 0)}, o)
		if err != nil {
			t.Fatal(err)
		}
		var ids []string
		for _, r := range lists[0].Results {
			ids = append(ids, r.ID)
		}
		if !slices.Equal(ids, want) || lists[0].Taken.Ranking != "pseudo-query" {
			t.Errorf("%v, want %v; %+v", ids, want, lists[0].Taken)
		}
		return lists[0].Results
	}
	found := search("d", "b")
	if got, want := found[1].Score, math.Cos(math.Pi/18); math.Abs(got-want) > 1e-6 || *found[1].Parts.Dense != got {
		t.Errorf("%+v, want %g", found[1], want)
	}
	o.K = 9
	search("d", "b", "e", "a")
	src.Contexts.Deleted, src.Contexts.Live = func(row int) bool { return row == 4 }, 4
	search("d", "b", "a")
	src.Contexts.Deleted = nil
	src.Contexts.Rows, src.Contexts.Selected = []int{0, 2}, true
	search("a")
	src.Contexts.Rows = []int{2}
	search()
	src.Questions = &Questions{Vectors: two()}
	search()
	src.Questions = nil
	if _, err := Search(t.Context(), src, Queries{Vectors: two(1, 0)}, o); !errors.Is(err, ErrNoQuestions) {
		t.Errorf("%v", err)
	}
}
