package learn

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

type golden struct {
	Texts  []string    `json:"texts"`
	Labels []string    `json:"labels"`
	New    []string    `json:"new"`
	Dense  [][]float32 `json:"dense"`
	TFIDF  map[string]struct {
		Fit   [][]float64 `json:"fit"`
		New   [][]float64 `json:"new"`
		Terms []string    `json:"terms"`
		IDF   []float64   `json:"idf"`
	} `json:"tfidf"`
	Scores map[string][][]float64 `json:"scores"`
}

// readGolden reads what testdata/golden.py wrote.
func readGolden(t *testing.T) (g golden) {
	t.Helper()
	text, err := os.ReadFile("testdata/golden.json")
	if err == nil {
		err = json.Unmarshal(text, &g)
	}
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// full are features as a matrix.
func full(f *Features) [][]float64 {
	rows := make([][]float64, f.Rows)
	for i := range rows {
		rows[i] = make([]float64, f.Columns())
		f.add(i, 1, rows[i])
	}
	return rows
}

func near(t *testing.T, what string, got, want [][]float64, tolerance float64) {
	t.Helper()
	for i, row := range want {
		for j, x := range row {
			if d := math.Abs(got[i][j] - x); !(d <= tolerance*max(1, math.Abs(x))) {
				t.Errorf("%s: row %d, column %d: %v, want %v", what, i, j, got[i][j], x)
				return
			}
		}
	}
}

func TestTFIDFIsScikitLearns(t *testing.T) {
	g := readGolden(t)
	for name, want := range g.TFIDF {
		v, err := FitVectoriser(g.Texts, int(name[0]-'0'), 0)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want.Terms, v.Terms); diff != "" {
			t.Error(name, diff)
		}
		near(t, "idf", [][]float64{v.IDF}, [][]float64{want.IDF}, 1e-14)
		for _, c := range []struct {
			texts []string
			want  [][]float64
		}{{g.Texts, want.Fit}, {g.New, want.New}} {
			f, err := v.Features(c.texts, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			near(t, "n-grams "+name, full(f), c.want, 1e-14)
		}
	}
}

// fitted trains on the golden texts of the first classes and returns the features of the new texts, too.
func fitted(t *testing.T, g golden, kind Kind, features string, classes int) (*Model, *Features) {
	t.Helper()
	var v *Vectoriser
	var dense []float32
	dim := 0
	if features != "embedding" {
		var err error
		if v, err = FitVectoriser(g.Texts, 1, 0); err != nil {
			t.Fatal(err)
		}
	}
	if features != "tfidf" {
		dim = len(g.Dense[0])
		dense = slices.Concat(g.Dense...)
	}
	n := len(g.Texts)
	test, err := v.Features(g.New, dense[n*dim:], dim)
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	var vectors []float32
	var of []int32
	names := slices.Compact(slices.Sorted(slices.Values(g.Labels)))
	for i, l := range g.Labels {
		if k := slices.Index(names, l); k < classes {
			texts, of = append(texts, g.Texts[i]), append(of, int32(k))
			vectors = append(vectors, dense[i*dim:(i+1)*dim]...)
		}
	}
	train, err := v.Features(texts, vectors, dim)
	if err != nil {
		t.Fatal(err)
	}
	m, err := Fit(t.Context(), Training{Kind: kind, Features: train, Classes: classes, Of: of})
	if err != nil {
		t.Fatal(err)
	}
	return m, test
}

func TestModelsAreScikitLearns(t *testing.T) {
	g := readGolden(t)
	for name, want := range g.Scores {
		part := strings.Fields(name)
		classes := int(part[2][0] - '0')
		m, f := fitted(t, g, Kind(part[0]), part[1], classes) // of two, the script leaves the last label out
		compare(t, name, m, f, want)
	}
	if len(g.Scores) != 20 {
		t.Errorf("%d golden cases", len(g.Scores))
	}
}

func compare(t *testing.T, name string, m *Model, f *Features, want [][]float64) {
	t.Helper()
	scores, err := m.Scores(t.Context(), f, nil)
	if err != nil {
		t.Fatal(err)
	}
	var got [][]float64
	for row := range slices.Chunk(scores, m.Classes) {
		if m.Kind == LogisticRegression {
			softmaxOf(row)
		}
		got = append(got, row)
	}
	tolerance := 1e-6
	if m.Kind == GaussianNB { // sums of terms up to 1e9
		tolerance = 1e-7
	}
	near(t, name, got, want, tolerance)
}

func TestSeveralLabelsAreDecisionsOfTheirOwn(t *testing.T) {
	g := readGolden(t)
	v, _ := FitVectoriser(g.Texts, 1, 0)
	f, _ := v.Features(g.Texts, nil, 0)
	multi := make([][]int32, f.Rows)
	y := make([]int32, f.Rows)
	for i, text := range g.Texts {
		if strings.Contains(text, "night") {
			multi[i], y[i] = append(multi[i], 0), 1
		}
		if strings.Contains(text, "dough") {
			multi[i] = append(multi[i], 1)
		}
	}
	for _, kind := range []Kind{LogisticRegression, LinearSVC} {
		m, err := Fit(t.Context(), Training{Kind: kind, Features: f, Classes: 2, Multi: multi})
		if err != nil {
			t.Fatal(err)
		}
		one, err := Fit(t.Context(), Training{Kind: kind, Features: f, Classes: 2, Of: y})
		if err != nil {
			t.Fatal(err)
		}
		a, _ := m.Scores(t.Context(), f, nil)
		b, _ := one.Scores(t.Context(), f, nil)
		for i := range f.Rows {
			if math.Abs(a[2*i]-b[2*i+1]) > 1e-9 {
				t.Fatalf("%s: the first label's decision %v is not that of a classifier for it alone, %v", kind, a[2*i],
					b[2*i+1])
			}
		}
	}
	_, err := Fit(t.Context(), Training{Kind: MultinomialNB, Features: f, Classes: 2, Multi: multi})
	if !errors.Is(err, ErrKind) {
		t.Errorf("naive Bayes with several labels: %v", err)
	}
}

// TestThreadsDoNotChangeBits trains with tasks in another order and at once.
func TestThreadsDoNotChangeBits(t *testing.T) {
	g := readGolden(t)
	together := func(_ context.Context, n int, fn func(int) error) error {
		var all sync.WaitGroup
		errs := make([]error, n)
		for _, i := range rand.Perm(n) {
			all.Go(func() { errs[i] = fn(i) })
		}
		all.Wait()
		return errors.Join(errs...)
	}
	v, _ := FitVectoriser(g.Texts, 2, 0)
	dense := slices.Concat(g.Dense[:len(g.Texts)]...)
	f, _ := v.Features(g.Texts, dense, 5)
	of := make([]int32, f.Rows)
	for i := range of {
		of[i] = int32(i / 5)
	}
	for _, kind := range []Kind{LogisticRegression, LinearSVC, GaussianNB} {
		a, errA := Fit(t.Context(), Training{Kind: kind, Features: f, Classes: 3, Of: of})
		b, errB := Fit(t.Context(), Training{Kind: kind, Features: f, Classes: 3, Of: of, Parallel: together})
		if err := errors.Join(errA, errB); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(a, b); diff != "" {
			t.Errorf("%s: %s", kind, diff)
		}
	}
}

func TestBadTrainingsAreRefused(t *testing.T) {
	v, err := FitVectoriser([]string{"one two", "three"}, 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	f, _ := v.Features([]string{"one two", "three"}, nil, 0)
	with, _ := v.Features([]string{"one two", "three"}, []float32{1, -1}, 1)
	for name, c := range map[string]struct {
		t    Training
		want error
	}{
		"class without rows": {Training{Kind: LinearSVC, Features: f, Classes: 3, Of: []int32{0, 1}}, ErrFeatures},
		"one class":          {Training{Kind: LinearSVC, Features: f, Classes: 1, Of: []int32{0, 0}}, ErrFeatures},
		"class beyond":       {Training{Kind: LinearSVC, Features: f, Classes: 2, Of: []int32{0, 2}}, ErrFeatures},
		"rows without class": {Training{Kind: LinearSVC, Features: f, Classes: 2, Of: []int32{0}}, ErrFeatures},
		"negative for counts": {Training{Kind: MultinomialNB, Features: with, Classes: 2, Of: []int32{0, 1}},
			ErrFeatures},
		"unknown kind": {Training{Kind: "knn", Features: f, Classes: 2, Of: []int32{0, 1}}, ErrKind},
		"nothing but one value": {Training{Kind: GaussianNB,
			Features: &Features{Rows: 2, Dim: 1, Dense: []float32{1, 1}}, Classes: 2, Of: []int32{0, 1}}, ErrFeatures},
	} {
		if _, err := Fit(t.Context(), c.t); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := FitVectoriser([]string{"", "a b ?"}, 1, 0); !errors.Is(err, ErrFeatures) {
		t.Errorf("texts without words: %v", err)
	}
	nan := float32(math.NaN())
	if _, err := v.Features([]string{"x"}, []float32{nan}, 1); !errors.Is(err, ErrFeatures) {
		t.Errorf("not a number: %v", err)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if _, err := Fit(ctx,
		Training{Kind: LinearSVC, Features: f, Classes: 2, Of: []int32{0, 1}}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if v, err := FitVectoriser([]string{"bb aa aa", "cc aa"}, 1, 2); err != nil ||
		!slices.Equal(v.Terms, []string{"aa", "bb"}) {
		t.Errorf("the most frequent terms, the first of equal ones: %v %v", v.Terms, err)
	}
}
