package experiment

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"

	"github.com/sluice-rag/sluice"
	"github.com/sluice-rag/sluice/eval/dataset"
	"github.com/sluice-rag/sluice/eval/metric"
	"github.com/sluice-rag/sluice/rag/retrieve"
	"github.com/sluice-rag/sluice/rag/route"
	"github.com/sluice-rag/sluice/rag/route/learn"
)

// labelled has the training and test texts of a classifier.
type labelled struct{ train, test []route.Example }

// outsideDomain is the label of clinc150's texts of no domain.
const outsideDomain = "oos"

// examples reads the labelled texts of a set: train.jsonl and test.jsonl by "domain"; or questions.jsonl by "subject",
// 60 of each for training; or a dataset's questions by topic, four of five for training.
func examples(root string, p Part, seed uint64) (*labelled, error) {
	dir := folder(root, p.Base.Set)
	train, err := readExamples(filepath.Join(dir, "train.jsonl"), "domain")
	if err == nil {
		test, err := readExamples(filepath.Join(dir, "test.jsonl"), "domain")
		return &labelled{train, test}, err
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	all, err := readExamples(filepath.Join(dir, "questions.jsonl"), "subject")
	share := func(int) int { return 60 }
	if errors.Is(err, fs.ErrNotExist) {
		var set *dataset.Set
		if set, err = dataset.Open(dir); err != nil {
			return nil, err
		}
		for _, q := range set.Queries {
			if q.Topic != "" {
				all = append(all, route.Example{ID: q.ID, Text: q.Text, Labels: []string{q.Topic}})
			}
		}
		share = func(n int) int { return n * 4 / 5 }
	}
	if err != nil {
		return nil, err
	}
	random := rand.New(rand.NewPCG(seed, 1))
	random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	byLabel, left := map[string]int{}, map[string]int{}
	for _, x := range all {
		byLabel[x.Labels[0]]++
	}
	l := &labelled{}
	for _, x := range all {
		label := x.Labels[0]
		if left[label]++; left[label] <= share(byLabel[label]) {
			l.train = append(l.train, x)
		} else {
			l.test = append(l.test, x)
		}
	}
	if len(l.train) == 0 || len(l.test) == 0 {
		return nil, fmt.Errorf("%w: part %s: %s has too few labelled questions", ErrMissing, p.Name, dir)
	}
	return l, nil
}

func readExamples(path, field string) ([]route.Example, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", dataset.ErrData, err)
	}
	defer f.Close()
	e, err := route.ReadExamples(f, path, field)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", dataset.ErrData, err)
	}
	return slices.DeleteFunc(e.List, func(x route.Example) bool {
		return len(x.Labels) != 1 || x.Labels[0] == outsideDomain
	}), nil
}

// classifier trains and tests a classifier of questions, on each draw of its texts.
func (r *run) classifier(ctx context.Context, c Cell, draws []*labelled) error {
	it, resumed, err := r.kept(c.Digest(), whole, func() (Item, error) { return r.classifyDraws(ctx, c, draws) })
	if err != nil {
		return fmt.Errorf("part %s, %s: %w", c.Part, c.System.label(), err)
	}
	r.finished(c.Part, resumed)
	for _, m := range []string{"train accuracy", "test accuracy", "recall", "precision", "f1", "seconds"} {
		r.add(c, "test", m, metric.Constant(len(draws[0].test), it.Scores[m].Value))
	}
	return nil
}

// router returns the settings of a classifier: scikit-learn's, or the default router's, which a DistilBERT does not
// read.
func (s System) router() (route.Settings, error) {
	kinds := []learn.Kind{learn.MultinomialNB, learn.GaussianNB, learn.LogisticRegression, learn.LinearSVC}
	switch {
	case s.Classifier == "default" || s.Classifier == distilBERT:
		return route.Defaults(), nil
	case slices.Contains(kinds, learn.Kind(s.Classifier)):
		return route.Plain(learn.Kind(s.Classifier), route.Features(s.Features)), nil
	}
	return route.Settings{}, fmt.Errorf("%w: classifier %q (known: default, mnb, gnb, lr, svc, distilbert)", ErrFile,
		s.Classifier)
}

// classifyDraws returns the means over the draws, each of which is kept in the journal.
func (r *run) classifyDraws(ctx context.Context, c Cell, draws []*labelled) (Item, error) {
	sums := map[string]float64{}
	for _, l := range draws {
		it, err := r.classifyDraw(ctx, c, l)
		if err != nil {
			return it, err
		}
		for m, v := range it.Scores {
			sums[m] += v.Value
		}
	}
	it := Item{Scores: map[string]metric.Score{}}
	for m, sum := range sums {
		it.Scores[m] = metric.Of(sum / float64(len(draws)))
	}
	return it, nil
}

// classifyDraw trains a classifier on one draw and tests it, or takes what came of that from the journal.
func (r *run) classifyDraw(ctx context.Context, c Cell, l *labelled) (it Item, err error) {
	it, kept, err := r.kept(c.Digest(), "draw "+digest([]any{l.train, l.test}), func() (Item, error) {
		if c.System.Classifier == distilBERT {
			return r.trainDistilBERT(ctx, c, l)
		}
		return r.trainRouter(ctx, c, l)
	})
	if err == nil && !kept {
		err = os.RemoveAll(r.trainingFolder(c, l)) // of a DistilBERT
	}
	return it, err
}

// trainRouter trains a router on one draw and tests it.
func (r *run) trainRouter(ctx context.Context, c Cell, l *labelled) (it Item, err error) {
	settings, err := c.System.router()
	if err != nil {
		return it, err
	}
	cfg := r.Config
	cfg.Store = filepath.Join(r.work, "none") // routers need no store
	cfg.Encoder, cfg.Precision = c.Encoder.Name, c.Encoder.Precision
	s, err := sluice.Open(ctx, cfg)
	if err != nil {
		return it, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	trained, err := s.Router().TrainOn(ctx, sluice.RouterOptions{Settings: settings,
		Examples: &route.Examples{Source: "training texts", List: l.train}})
	if err != nil {
		return it, err
	}
	return scored(l, trained.Seconds, func(texts []string) ([]string, error) {
		decisions, err := s.Router().Route(ctx, trained, texts)
		labels := make([]string, len(decisions))
		for i, d := range decisions {
			labels[i] = d.Labels[0].Label
		}
		return labels, err
	})
}

// scored tests a classifier on what it was trained with and on what it was not.
func scored(l *labelled, seconds float64, label func(texts []string) ([]string, error)) (Item, error) {
	it := Item{Scores: map[string]metric.Score{"seconds": metric.Of(seconds)}}
	for _, x := range []struct {
		name string
		list []route.Example
	}{{"train accuracy", l.train}, {"test accuracy", l.test}} {
		texts, truth := make([]string, len(x.list)), make([]string, len(x.list))
		for i, e := range x.list {
			texts[i], truth[i] = e.Text, e.Labels[0]
		}
		got, err := label(texts)
		if err != nil {
			return it, err
		}
		classes, err := metric.Compare(truth, got)
		if err != nil {
			return it, err
		}
		it.Scores[x.name] = metric.Of(classes.Accuracy)
		for m, v := range map[string]float64{"recall": classes.Weighted.Recall, "precision": classes.Weighted.Precision,
			"f1": classes.Weighted.F1} {
			it.Scores[m] = metric.Of(v) // of the test texts, which come last
		}
	}
	return it, nil
}

// partitions makes the filter of a routed search: the topics that the router gives, all where it abstains.
func (a *asking) partitions(ctx context.Context) (f retrieve.Filter, err error) {
	if !a.cell.Retriever.Routed {
		return nil, nil
	}
	if a.s.router == nil { // the training does not count for a question's time
		if a.s.router, err = a.train(ctx); err != nil {
			return nil, err
		}
	}
	err = a.timed("route", func() error {
		decisions, err := a.s.Router().Route(ctx, a.s.router, []string{a.q.Text})
		if err != nil {
			return err
		}
		for _, label := range decisions[0].Given {
			f = append(f, retrieve.Condition{Field: "topic", Op: "=", Value: label})
		}
		return nil
	})
	a.item.Scores["routed_to_all"] = metric.Of(number(len(f) == 0))
	return f, err
}

// train makes the router of a base: topics are its labels, pseudo-queries and contexts its texts.
func (a *asking) train(ctx context.Context) (*route.Router, error) {
	var list []route.Example
	for _, q := range a.data.pseudo {
		list = append(list, route.Example{ID: q.ID, Text: q.Text, Labels: []string{q.Topic}})
	}
	for _, c := range a.data.base {
		list = append(list, route.Example{ID: "context " + c.ID, Text: c.Text, Labels: []string{c.Topic}})
	}
	list = slices.DeleteFunc(list, func(x route.Example) bool { return x.Labels[0] == "" })
	router, err := a.s.Router().TrainOn(ctx, sluice.RouterOptions{Settings: route.Defaults(),
		Examples: &route.Examples{Source: "topics of the base", List: list}})
	if errors.Is(err, route.ErrData) {
		return nil, fmt.Errorf("%w: routed searches: %w", ErrMissing, err)
	}
	return router, err
}
