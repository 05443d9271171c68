package route

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/internal/buildinfo"
	"github.com/sluice-rag/sluice/rag/route/learn"
)

// Input of Train.
type Input struct {
	Examples *Examples
	Settings Settings
	Engine   Engine
	Encoder  embed.Embedder // of the texts' vectors; nil with features tfidf
	// Vectors of the first examples, where they are known: those of Encoder. The other texts are embedded.
	Vectors engine.Vectors
	// Progress, if not nil, is told of texts that are embedded and of classes that are trained: a stage begins with
	// done 0. It may be called from several goroutines.
	Progress func(stage string, done, total int)
	Warn     func(text string) // may be nil
}

// embedAtOnce are the texts of one call of the encoder: some hundred milliseconds.
const embedAtOnce = 512

// training is one Train under way.
type training struct {
	Input
	labels  []string
	of      [][]int32 // labels of each text
	outside []bool    // of no domain
	texts   []string
	report  string // stage of Progress; "" is silent
}

// Train makes a router: it scores each part of the texts by a router of the others, chooses temperature and thresholds
// by these scores and reports them, and trains the router that it returns on all texts. Fewer than two labels, with
// one label a text, and what cannot be learned from is ErrData; a bad setting is ErrOption. A label with a single text
// is warned of.
func Train(ctx context.Context, in Input) (*Router, error) {
	began := time.Now()
	if err := in.Settings.check(); err != nil {
		return nil, err
	}
	t := &training{Input: in}
	counts, err := t.read()
	if err != nil {
		return nil, err
	}
	if err := t.vectors(ctx); err != nil {
		return nil, err
	}
	r := &Router{About: About{Schema: Schema, Created: time.Now().UTC().Truncate(time.Second), Tool: buildinfo.Tool(),
		Settings: in.Settings, Labels: t.labels, Multi: in.Examples.Multi,
		Data: Data{Source: in.Examples.Source, SHA256: in.Examples.Digest, Texts: len(t.texts), Counts: counts,
			Left: in.Examples.Left}}}
	if in.Settings.Features.vectors() {
		info := in.Encoder.Info().Encoder
		r.Encoder = &info
	}
	held, err := t.heldOut(ctx, r)
	if err != nil {
		return nil, err
	}
	r.Temperature, r.Offset = fitTemperature(held, r.Multi)
	r.Threshold = .5
	if r.Multi {
		r.Threshold = decisionThreshold(held)
	}
	t.familiarity(r, held)
	r.Abstain = abstention(held, in.Settings.Keep)
	r.Sets = chooseMass(held, r.Multi, in.Settings.Cover, r.Abstain)
	r.HeldOut = report(held, r.Labels, r.Multi, r.Threshold, r.Abstain)
	t.report = "training"
	if err := t.fit(ctx, r, t.inside(func(int) bool { return true })); err != nil {
		return nil, err
	}
	r.Seconds = time.Since(began).Seconds()
	return r, nil
}

// read finds the labels and their counts.
func (t *training) read() (counts map[string]int, err error) {
	counts = map[string]int{}
	for _, x := range t.Examples.List {
		for _, l := range x.Labels {
			if l != t.Settings.Outside {
				counts[l]++
			}
		}
	}
	t.labels = slices.Sorted(maps.Keys(counts))
	for _, l := range t.labels {
		if counts[l] == 1 {
			t.warn("the label %q has a single text: what the router makes of it cannot be measured", l)
		}
	}
	if len(t.labels) > maxLabels {
		return nil, fmt.Errorf("%w: %d labels, %d are the most", ErrData, len(t.labels), maxLabels)
	}
	if len(t.labels) < 2 && !t.Examples.Multi || len(t.labels) < 1 {
		return nil, fmt.Errorf("%w: %s has %d labels (%.200q) and %d texts; there is nothing to tell apart", ErrData,
			t.Examples.Source, len(t.labels), t.labels, len(t.Examples.List))
	}
	for _, x := range t.Examples.List {
		var own []int32
		outside := t.Settings.Outside != "" && slices.Contains(x.Labels, t.Settings.Outside)
		for _, l := range x.Labels {
			if k, ok := slices.BinarySearch(t.labels, l); ok && !outside {
				own = append(own, int32(k))
			}
		}
		t.of, t.outside, t.texts = append(t.of, own), append(t.outside, outside), append(t.texts, x.Text)
	}
	return counts, nil
}

func (t *training) warn(format string, args ...any) {
	if t.Warn != nil {
		t.Warn(fmt.Sprintf(format, args...))
	}
}

// vectors embeds the texts whose vectors are not given.
func (t *training) vectors(ctx context.Context) error {
	if !t.Settings.Features.vectors() {
		return nil
	}
	if t.Encoder == nil {
		return fmt.Errorf("%w: features %s need an encoder", ErrOption, t.Settings.Features)
	}
	if t.Vectors.Rows > len(t.texts) {
		return fmt.Errorf("%w: %d vectors for %d texts", ErrOption, t.Vectors.Rows, len(t.texts))
	}
	ask, done, cut := t.texts[t.Vectors.Rows:], 0, 0
	for part := range slices.Chunk(ask, embedAtOnce) {
		t.progress("embedding", done, len(ask))
		found, err := t.Encoder.Embed(ctx, part, embed.Query)
		if err != nil {
			return err
		}
		t.Vectors.Dim, t.Vectors.Data = found.Dim, append(t.Vectors.Data, found.Data...)
		done, cut = done+len(part), cut+found.Truncated
	}
	if t.Vectors.Rows = len(t.texts); len(ask) > 0 {
		t.progress("embedding", done, done)
	}
	if cut > 0 {
		t.warn("%d of %d texts were cut at the %d tokens that %s reads", cut, len(ask), t.Encoder.Info().MaxTokens,
			t.Encoder.Info().Name)
	}
	return nil
}

func (t *training) progress(stage string, done, total int) {
	if t.Progress != nil && stage != "" {
		t.Progress(stage, done, total)
	}
}

// From so many texts on one part of five is held out, below each of five parts is once.
const (
	defaultFolds = 5
	manyTexts    = 5000
)

func (t *training) folds() int { return cmp.Or(t.Settings.Folds, defaultFolds) }

// parts deals the texts to folds, label by label (by the rarest of several). A text whose label has no other is in no
// part (−1), and always trained on.
func (t *training) parts() []int {
	counts := make([]int, len(t.labels))
	for _, own := range t.of {
		for _, k := range own {
			counts[k]++
		}
	}
	groups := make([][]int, len(t.labels)+1)
	for i, own := range t.of {
		rarest := len(t.labels)
		for _, k := range own {
			if rarest == len(t.labels) || counts[k] < counts[rarest] {
				rarest = int(k)
			}
		}
		groups[rarest] = append(groups[rarest], i)
	}
	r := rand.New(rand.NewPCG(t.Settings.Seed, 3))
	part := make([]int, len(t.of))
	next := 0
	together := map[string]int{} // part of each group
	for k, members := range groups {
		r.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
		for _, i := range members {
			group := t.Examples.List[i].Group
			if at, known := together[group]; known && group != "" {
				part[i] = at
				continue
			}
			part[i] = next % t.folds()
			if next++; k < len(counts) && counts[k] == 1 {
				part[i] = -1
			}
			together[group] = part[i]
		}
	}
	for k := range t.labels { // a label keeps a text to train on
		var own []int
		same := true
		for i, list := range t.of {
			if slices.Contains(list, int32(k)) {
				own = append(own, i)
				same = same && part[i] == part[own[0]]
			}
		}
		if same && len(own) > 0 {
			part[own[0]] = -1
		}
	}
	return part
}

// inside returns the texts of a domain for which in is true.
func (t *training) inside(in func(i int) bool) []int {
	var rows []int
	for i, outside := range t.outside {
		if !outside && in(i) {
			rows = append(rows, i)
		}
	}
	return rows
}

// heldOut scores texts by routers that were not trained on them.
func (t *training) heldOut(ctx context.Context, r *Router) ([]outcome, error) {
	part := t.parts()
	rounds := t.folds()
	if t.Settings.Folds == 0 && len(t.texts) >= manyTexts {
		rounds = 1
	}
	probes := slices.ContainsFunc(t.Examples.List, func(x Example) bool { return x.Probe })
	var all []outcome
	for fold := range rounds {
		t.progress("measuring", fold, rounds)
		rows := t.inside(func(i int) bool { return part[i] != fold })
		if len(rows) == 0 {
			continue
		}
		one := &Router{About: r.About}
		one.Temperature = 1
		if err := t.fit(ctx, one, rows); err != nil {
			return nil, err
		}
		var held []int
		for i := range t.texts {
			if part[i] == fold && (!probes || t.Examples.List[i].Probe) {
				held = append(held, i)
			}
		}
		if len(held) == 0 {
			continue
		}
		texts, vectors := t.pick(held)
		found, err := one.outcomes(ctx, t.Engine, texts, vectors)
		if err != nil {
			return nil, err
		}
		for j, i := range held {
			found[j].want, found[j].outside = t.of[i], t.outside[i]
		}
		all = append(all, found...)
	}
	t.progress("measuring", rounds, rounds)
	if len(all) == 0 {
		return nil, fmt.Errorf("%w: %s: no label has a second text to measure with", ErrData, t.Examples.Source)
	}
	return all, nil
}

// familiarity is known once the probabilities are calibrated, for those kinds whose score it takes.
func (t *training) familiarity(r *Router, held []outcome) {
	if r.Settings.Kind == learn.LinearSVC {
		return
	}
	for i := range held {
		o := &held[i]
		p := probabilities(o.scores, r.Multi, 1, 0)
		before, now := p[best(p)], o.probabilities[best(o.probabilities)]
		if r.Settings.Features.vectors() {
			o.familiar += familiarWeight * (now - before)
		} else {
			o.familiar = now
		}
	}
}

// pick are some of the texts with their vectors.
func (t *training) pick(rows []int) ([]string, engine.Vectors) {
	texts := make([]string, len(rows))
	v := engine.Vectors{Dim: t.Vectors.Dim}
	for j, i := range rows {
		texts[j] = t.texts[i]
		if t.Settings.Features.vectors() {
			v.Data = append(v.Data, t.Vectors.Row(i)...)
			v.Rows++
		}
	}
	return texts, v
}

// fit trains a router on some of the texts.
func (t *training) fit(ctx context.Context, r *Router, rows []int) (err error) {
	texts, vectors := t.pick(rows)
	if t.Settings.Features.words() {
		if r.words, err = learn.FitVectoriser(texts, t.Settings.Ngrams, t.Settings.MaxTerms); err != nil {
			return fmt.Errorf("%w: %w", ErrData, err)
		}
	}
	f, err := features(t.Settings, r.words, texts, vectors)
	if err != nil {
		return err
	}
	of := make([][]int32, len(rows))
	in := learn.Training{Kind: t.Settings.Kind, Features: f, Classes: len(t.labels), C: t.Settings.C,
		Parallel: t.Engine.Parallel}
	for j, i := range rows {
		of[j] = t.of[i]
		if !t.Examples.Multi {
			in.Of = append(in.Of, t.of[i][0])
		}
	}
	if t.Examples.Multi {
		in.Multi = of
	}
	stage := t.report
	in.Progress = func(done, total int) { t.progress(stage, done, total) }
	if r.model, err = learn.Fit(ctx, in); err != nil {
		return fmt.Errorf("%w: %w", ErrData, err)
	}
	if t.Settings.Features.vectors() {
		r.prototypes, r.Prototypes, err = prototypes(ctx, t.Engine, vectors, of, len(t.labels), t.Settings.Seed)
	}
	return err
}
