package learn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
)

// Kind is a method of classification.
type Kind string

// The kinds. Their settings are scikit-learn's defaults: alpha 1; var_smoothing 1e-9; C 1 with the L2 penalty and the
// softmax over all classes; C 1 with the squared hinge loss, one class against the rest, the intercept regularised.
const (
	MultinomialNB      Kind = "mnb"
	GaussianNB         Kind = "gnb"
	LogisticRegression Kind = "lr"
	LinearSVC          Kind = "svc"
)

// ErrKind is an unknown kind, or one that cannot do what is asked.
var ErrKind = errors.New("learn: this kind of classifier cannot do that")

// Model is a trained classifier.
type Model struct {
	Kind       Kind
	Classes    int
	Columns    int       // of the features
	Multi      bool      // a row may have several classes, or none: each has a decision of its own
	Weights    []float64 // Classes × Columns: weights, logarithms of shares, means
	Variances  []float64 // Classes × Columns, of gnb; else nil
	Intercepts []float64 // of each class
}

// Check reports whether a model that comes from a file has the shape that it says.
func (m *Model) Check() error {
	variances := 0
	if m.Kind == GaussianNB {
		variances = m.Classes * m.Columns
	}
	switch {
	case m.Kind != MultinomialNB && m.Kind != GaussianNB && m.Kind != LogisticRegression && m.Kind != LinearSVC:
		return fmt.Errorf("%w: %q", ErrKind, m.Kind)
	case m.Classes < 2 && !m.Multi, m.Classes < 1, m.Columns < 1, len(m.Weights) != m.Classes*m.Columns,
		len(m.Variances) != variances, len(m.Intercepts) != m.Classes:
		return fmt.Errorf("%w: %d classes, %d columns, %d weights, %d variances, %d intercepts", ErrFeatures, m.Classes,
			m.Columns, len(m.Weights), len(m.Variances), len(m.Intercepts))
	}
	for _, list := range [][]float64{m.Weights, m.Variances, m.Intercepts} {
		for i, x := range list {
			if math.IsNaN(x) || math.IsInf(x, 0) {
				return fmt.Errorf("%w: number %d of the model is %v", ErrFeatures, i, x)
			}
		}
	}
	for _, v := range m.Variances {
		if v <= 0 {
			return fmt.Errorf("%w: a variance is %v", ErrFeatures, v)
		}
	}
	return nil
}

// Training is the input of Fit.
type Training struct {
	Kind     Kind
	Features *Features
	Classes  int
	Of       []int32   // class of each row; with Multi nil
	Multi    [][]int32 // classes of each row: several decisions; lr and svc only
	C        float64   // how much the rows count against small weights, of lr and svc; 0 is 1
	Parallel Parallel  // nil: one goroutine
	// Progress, if not nil, is told of classes that are done; with lr of one label a text only at the end. It may be
	// called from several goroutines.
	Progress func(done, total int)
}

// tolerance is of the gradient, to the first one.
const tolerance = 1e-8

// Fit trains a model. Every class needs a row.
func Fit(ctx context.Context, t Training) (*Model, error) {
	if err := t.check(); err != nil {
		return nil, err
	}
	if t.Parallel == nil {
		t.Parallel = inOrder
	}
	t.C = cmp.Or(t.C, 1)
	switch t.Kind {
	case MultinomialNB, GaussianNB:
		if t.Multi != nil {
			return nil, fmt.Errorf("%w: %s gives one label a text; lr and svc can give several", ErrKind, t.Kind)
		}
		if t.Kind == MultinomialNB {
			return fitMultinomial(t.Features, t.Of, t.Classes)
		}
		return fitGaussian(ctx, t.Features, t.Of, t.Classes)
	case LogisticRegression:
		if t.Multi == nil && t.Classes > 2 {
			return t.fitSoftmax(ctx)
		}
		return t.fitEach(ctx)
	case LinearSVC:
		return t.fitEach(ctx)
	}
	return nil, fmt.Errorf("%w: %q (known: mnb, gnb, lr, svc)", ErrKind, t.Kind)
}

func (t *Training) check() error {
	f := t.Features
	if err := f.check(); err != nil {
		return err
	}
	if !(t.C >= 0 && t.C <= 1e6) {
		return fmt.Errorf("%w: C is %v, expected 0 to 1e6", ErrFeatures, t.C)
	}
	if t.Multi == nil && (len(t.Of) != f.Rows || t.Classes < 2) || t.Multi != nil && len(t.Multi) != f.Rows {
		return fmt.Errorf("%w: %d rows, %d of them with a class, %d classes", ErrFeatures, f.Rows,
			len(t.Of)+len(t.Multi), t.Classes)
	}
	all := t.Multi
	if all == nil {
		all = [][]int32{t.Of}
	}
	has := make([]bool, t.Classes)
	for _, list := range all {
		for _, k := range list {
			if k < 0 || int(k) >= t.Classes {
				return fmt.Errorf("%w: class %d of %d", ErrFeatures, k, t.Classes)
			}
			has[k] = true
		}
	}
	if k := slices.Index(has, false); k >= 0 {
		return fmt.Errorf("%w: class %d has no row", ErrFeatures, k)
	}
	return nil
}

// signs are +1 for the rows of a class and −1 for the others.
func (t *Training) signs(class int) []float64 {
	y := make([]float64, t.Features.Rows)
	for i := range y {
		y[i] = -1
	}
	for i, k := range t.Of {
		if int(k) == class {
			y[i] = 1
		}
	}
	for i, list := range t.Multi {
		if slices.Contains(list, int32(class)) {
			y[i] = 1
		}
	}
	return y
}

// fitEach solves a problem of two classes for each class; where there are two classes, one for the second.
func (t *Training) fitEach(ctx context.Context) (*Model, error) {
	n := t.Features.Columns()
	m := &Model{Kind: t.Kind, Classes: t.Classes, Columns: n, Multi: t.Multi != nil,
		Weights: make([]float64, t.Classes*n), Intercepts: make([]float64, t.Classes)}
	first := 0
	pair := t.Multi == nil && t.Classes == 2
	if pair {
		first = 1
	}
	done := make(chan struct{}, t.Classes)
	err := t.Parallel(ctx, t.Classes-first, func(task int) error {
		k := first + task
		w := make([]float64, n+1)
		if err := newton(ctx, t.problem(k), w, tolerance); err != nil {
			return err
		}
		copy(m.Weights[k*n:], w[:n])
		m.Intercepts[k] = w[n]
		done <- struct{}{}
		if t.Progress != nil {
			t.Progress(len(done), t.Classes-first)
		}
		return nil
	})
	if pair && t.Kind == LinearSVC { // the other side's margin; of lr it is 0, so that softmax is the logistic function
		for j, x := range m.Weights[n:] {
			m.Weights[j] = -x
		}
		m.Intercepts[0] = -m.Intercepts[1]
	}
	return m, err
}

func (t *Training) problem(class int) problem {
	if t.Kind == LinearSVC {
		return &hinge{f: t.Features, c: t.C, y: t.signs(class)}
	}
	return &logistic{f: t.Features, c: t.C, y: t.signs(class)}
}

func (t *Training) fitSoftmax(ctx context.Context) (*Model, error) {
	n := t.Features.Columns()
	w := make([]float64, t.Classes*(n+1))
	p := &softmax{ctx: ctx, f: t.Features, c: t.C, classes: t.Classes, of: t.Of, each: t.Parallel}
	err := newton(ctx, p, w, tolerance)
	if err = cmp.Or(p.err, err); err != nil {
		return nil, err
	}
	m := &Model{Kind: t.Kind, Classes: t.Classes, Columns: n, Intercepts: make([]float64, t.Classes)}
	for k := range t.Classes {
		m.Weights = append(m.Weights, w[k*(n+1):][:n]...)
		m.Intercepts[k] = w[k*(n+1)+n]
	}
	if t.Progress != nil {
		t.Progress(t.Classes, t.Classes)
	}
	return m, nil
}

// Scores are rows × classes: joint log-likelihoods of naive Bayes, logits of lr, margins of svc. The largest one of a
// row, the first of equal ones, is its class; with Multi, those above 0 are.
func (m *Model) Scores(ctx context.Context, f *Features, parallel Parallel) ([]float64, error) {
	if err := f.check(); err != nil {
		return nil, err
	}
	if f.Columns() != m.Columns {
		return nil, fmt.Errorf("%w: %d columns, the model has %d", ErrFeatures, f.Columns(), m.Columns)
	}
	if parallel == nil || f.Rows*m.Classes < fewScores { // sharing them out takes longer
		parallel = inOrder
	}
	out := make([]float64, f.Rows*m.Classes)
	return out, parallel(ctx, m.Classes, func(k int) error {
		base := 0.
		if m.Kind == GaussianNB {
			base = m.gaussianBase(k)
		}
		w := m.Weights[k*m.Columns:][:m.Columns]
		for i := range f.Rows {
			if m.Kind == GaussianNB {
				out[i*m.Classes+k] = m.gaussian(f, i, k, base)
			} else {
				out[i*m.Classes+k] = f.dot(i, w) + m.Intercepts[k]
			}
		}
		return nil
	})
}

// fewScores take some hundred microseconds at most.
const fewScores = 1024
