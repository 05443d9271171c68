package train

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/sluice-rag/sluice/engine"
)

// EncoderInput holds the data and the options of the training of an encoder. The model in From determines the pooling
// and the prefixes of queries and contexts; the result keeps both.
type EncoderInput struct {
	Training   *Pairs
	Validation *Pairs // nil: a share of the groups of Training, whose contexts are not used for training
	From, Out  string
	Name       string
	Settings   Settings
	Tokenizer  Tokenizer
	Engine     *engine.Engine
	Hooks      Hooks
}

// pool converts tokens to a vector of length 1: their mean, or the first one.
type pool[T number] struct {
	first bool
	x     []T // vectors before they were normalised
	y     []T
	norm  []T
}

// sentences converts the rows of a batch's tokens to one vector per text. With first pooling, x already has one row
// per text.
func (n *network[T]) sentences(x []T, b *batch, first bool) *pool[T] {
	h := n.Hidden
	s := &pool[T]{first: first, x: x, norm: n.arena.get(b.texts())}
	if !first {
		s.x = n.arena.get(b.texts() * h)
	}
	s.y = n.arena.get(b.texts() * h)
	n.note(n.each(b.texts(), func(t int) {
		sum := s.x[t*h:][:h]
		if !first {
			for i := b.starts[t]; i < b.starts[t+1]; i++ {
				axpy(sum, 1, x[i*h:][:h])
			}
			scale := 1 / T(b.starts[t+1]-b.starts[t])
			for j := range sum {
				sum[j] *= scale
			}
		}
		var squares float64
		for _, v := range sum {
			squares += float64(v) * float64(v)
		}
		s.norm[t] = T(max(math.Sqrt(squares), 1e-12))
		for j, v := range sum {
			s.y[t*h+j] = v / s.norm[t]
		}
	}))
	return s
}

// sentencesBack returns the gradient of the tokens' rows from that of the vectors.
func (n *network[T]) sentencesBack(s *pool[T], dy []T, b *batch) []T {
	h := n.Hidden
	rows := len(b.ids)
	if s.first {
		rows = b.texts()
	}
	dx := n.arena.get(rows * h)
	n.note(n.each(b.texts(), func(t int) {
		y, d := s.y[t*h:][:h], dy[t*h:][:h]
		along := dot(y, d)
		from, to := b.starts[t], b.starts[t+1]
		if s.first {
			from, to = t, t+1
		}
		scale := 1 / (s.norm[t] * T(to-from))
		for i := from; i < to; i++ {
			for j, v := range d {
				dx[i*h+j] = scale * (v - y[j]*along)
			}
		}
	}))
	return dx
}

// ranking computes the multiple negatives ranking loss: each query is to find its context among those of the batch.
// The similarity of query i and context j is scale·cosine. The context of another pair that also belongs to query i
// (equal owners) is not counted as a negative. It returns the mean loss and the gradients of queries and contexts
// (pairs × dim each).
func ranking[T number](queries, contexts []T, dim int, owners []int, scale float64) (float64, []T, []T) {
	pairs := len(owners)
	dq, dc := make([]T, len(queries)), make([]T, len(contexts))
	var sum float64
	z, g := make([]T, pairs), make([]T, pairs)
	for i := range pairs {
		q := queries[i*dim:][:dim]
		for j := range pairs {
			z[j] = T(scale) * dot(q, contexts[j*dim:][:dim])
			if j != i && owners[j] == owners[i] {
				z[j] = T(math.Inf(-1))
			}
		}
		sum += crossEntropy(z, g, i, 1/float64(pairs))
		for j, v := range g {
			axpy(dq[i*dim:][:dim], T(scale)*v, contexts[j*dim:][:dim])
			axpy(dc[j*dim:][:dim], T(scale)*v, q)
		}
	}
	return sum / float64(pairs), dq, dc
}

// encoder is the state of the training of an encoder.
type encoder struct {
	in     EncoderInput
	base   *base
	net    *network[float32]
	family string // model_type
	first  bool   // pooling
	train  pairSet
	val    pairSet
}

// pairSet holds tokenised pairs; each distinct text is stored once.
type pairSet struct {
	set
	queries, context []int // indices into ids, per pair
	contexts         []int // the distinct ones
}

// Encoder trains an encoder and writes it to in.Out, like Classifier.
func Encoder(ctx context.Context, in EncoderInput) (*Result, error) {
	e, r, lock, err := begin(ctx, in, in.Settings, in.Out, openEncoder)
	if err != nil {
		return nil, err
	}
	defer lock.Release()
	before, err := e.validate()
	if err != nil {
		return nil, err
	}
	if err := r.train(ctx); err != nil {
		return nil, err
	}
	out := r.result()
	out.Before = &before
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err := e.write(out); err != nil {
		return nil, err
	}
	return out, r.drop()
}

func openEncoder(ctx context.Context, in EncoderInput) (*encoder, *run, error) {
	training, validation := in.Training, in.Validation
	if validation == nil {
		training, validation = splitPairs(in.Training, in.Settings.ValidationShare, in.Settings.Seed)
	}
	if len(validation.List) == 0 || len(training.List) == 0 {
		return nil, nil, fmt.Errorf("%w: %s: %d pairs to train on and %d to validate with are left: there are too few "+
			"contexts, or the validation share of %v is too small", ErrData, in.Training.Source, len(training.List),
			len(validation.List), in.Settings.ValidationShare)
	}
	m, err := newMachine(in.Engine)
	if err != nil {
		return nil, nil, err
	}
	e := &encoder{in: in}
	if e.base, err = readBase(in.From); err != nil {
		return nil, nil, err
	}
	e.first = e.base.settings.Pooling == "cls"
	if e.net, e.family, err = load(in.From, m, false); err != nil {
		return nil, nil, err
	}
	e.in.Settings.MaxTokens = e.base.limit(in.Settings.MaxTokens, e.net.Positions)
	if e.net.from, err = in.Settings.first(e.net.Layers); err != nil {
		return nil, nil, err
	}
	if e.net.from == e.net.Layers {
		return nil, nil, fmt.Errorf("%w: an encoder has no head: at least one layer is to be trained", ErrSetting)
	}
	e.net.grads()
	if e.train, err = e.tokenise(ctx, training); err != nil {
		return nil, nil, err
	}
	if e.val, err = e.tokenise(ctx, validation); err != nil {
		return nil, nil, err
	}
	in0 := map[string]any{"kind": "encoder", "settings": e.in.Settings, "training": in.Training.Digest,
		"model": e.base.digest, "tokenizer": in.Tokenizer.Digest()}
	if in.Validation != nil {
		in0["validation"] = in.Validation.Digest
	}
	digest, err := digestOf(in0)
	if err != nil {
		return nil, nil, err
	}
	r := &run{net: e.net, set: e.in.Settings, count: len(training.List), step: e.step, validate: e.validate,
		better: func(a, b Scores) bool { return a.NDCG > b.NDCG || a.NDCG == b.NDCG && a.Loss < b.Loss },
		dir:    in.Out, digest: digest, hooks: in.Hooks, interval: checkpointInterval}
	r.opt = newAdamW(e.net, r.set.Epochs*r.stepsPerEpoch(), r.set)
	return e, r, nil
}

// group returns the group of a pair's context.
func (p Pair) group() string {
	if p.Group != "" {
		return p.Group
	}
	return "\x00" + p.Context
}

// splitPairs takes a share of the groups for validation, so that none of their contexts is trained on.
func splitPairs(p *Pairs, share float64, seed uint64) (training, validation *Pairs) {
	var groups []string
	seen := map[string]bool{}
	for _, x := range p.List {
		if g := x.group(); !seen[g] {
			seen[g] = true
			groups = append(groups, g)
		}
	}
	rand.New(rand.NewPCG(seed, 1)).Shuffle(len(groups), func(i, j int) { groups[i], groups[j] = groups[j], groups[i] })
	held := map[string]bool{}
	for _, g := range groups[:min(int(share*float64(len(groups))+.5), len(groups)-1)] {
		held[g] = true
	}
	training, validation = &Pairs{Source: p.Source}, &Pairs{Source: p.Source}
	for _, x := range p.List {
		if held[x.group()] {
			validation.List = append(validation.List, x)
		} else {
			training.List = append(training.List, x)
		}
	}
	return training, validation
}

// tokenise converts pairs to ids and, if layers are frozen, features.
func (e *encoder) tokenise(ctx context.Context, p *Pairs) (pairSet, error) {
	var s pairSet
	known := map[string]int{}
	var texts [2][]string // queries, contexts
	place := func(kind int, text string) int {
		key := fmt.Sprint(kind, text)
		at, ok := known[key]
		if !ok {
			at = len(texts[kind])
			known[key] = at
			texts[kind] = append(texts[kind], text)
		}
		return at
	}
	for _, x := range p.List {
		s.queries = append(s.queries, place(0, x.Query))
		s.context = append(s.context, place(1, x.Context))
	}
	for kind, prefix := range []string{e.base.settings.QueryPrefix, e.base.settings.DocumentPrefix} {
		ids, cut, err := tokens(e.in.Tokenizer, texts[kind], prefix, e.in.Settings.MaxTokens)
		if err != nil {
			return s, err
		}
		if cut > 0 {
			e.in.Hooks.warn("%s: %d of %d different %s are longer than %d tokens: their ends are not read", p.Source,
				cut, len(ids), []string{"queries", "contexts"}[kind], e.in.Settings.MaxTokens)
		}
		s.ids = append(s.ids, ids...)
	}
	for i := range s.context {
		s.context[i] += len(texts[0])
	}
	for i := range texts[1] {
		s.contexts = append(s.contexts, len(texts[0])+i)
	}
	var err error
	s.features, err = freeze(ctx, e.net, &s.set, e.in.Hooks.Prepare)
	return s, err
}

// vectors runs the trained layers on some texts of a set.
func (e *encoder) vectors(s *pairSet, items []int) (*batch, []*tape[float32], *pool[float32], error) {
	n := e.net
	n.arena.reset()
	texts := make([][]int32, len(items))
	for i, at := range items {
		texts[i] = s.ids[at]
	}
	b := newBatch(texts)
	var x []float32
	if s.features == nil {
		var err error
		if x, err = n.features(b); err != nil {
			return nil, nil, nil, err
		}
	} else {
		x = n.arena.get(len(b.ids) * n.Hidden)
		to := x
		for _, at := range items {
			to = to[copy(to, s.features[at]):]
		}
	}
	var tapes []*tape[float32]
	for at := n.from; at < n.Layers; at++ {
		var rows []int
		if at == n.Layers-1 && e.first {
			rows = b.firsts()
		}
		var t *tape[float32]
		x, t = n.forward(at, x, b, rows)
		tapes = append(tapes, t)
	}
	return b, tapes, n.sentences(x, b, e.first), n.err
}

// step computes the gradients of some pairs.
func (e *encoder) step(items []int) (float64, error) {
	var texts, owners []int
	for _, at := range items {
		texts = append(texts, e.train.queries[at])
		owners = append(owners, e.train.context[at])
	}
	for _, at := range items {
		texts = append(texts, e.train.context[at])
	}
	b, tapes, p, err := e.vectors(&e.train, texts)
	if err != nil {
		return 0, err
	}
	half := len(items) * e.net.Hidden
	l, dq, dc := ranking(p.y[:half], p.y[half:], e.net.Hidden, owners, e.in.Settings.Scale)
	x := e.net.sentencesBack(p, append(dq, dc...), b)
	for i := len(tapes) - 1; i >= 0; i-- {
		x = e.net.backward(e.net.from+i, x, tapes[i])
	}
	return l, e.net.err
}

// validate ranks the distinct contexts of the validation pairs for each of their queries. The loss is the cross-entropy
// of finding the right context among all of them.
func (e *encoder) validate() (Scores, error) {
	rate := e.net.dropout.rate
	e.net.dropout.rate = 0
	defer func() { e.net.dropout.rate = rate }()
	s := &e.val
	h := e.net.Hidden
	all := make([]float32, 0, len(s.ids)*h)
	for _, part := range portions(s.ids) {
		items := make([]int, part[1]-part[0])
		for i := range items {
			items[i] = part[0] + i
		}
		_, _, p, err := e.vectors(s, items)
		if err != nil {
			return Scores{}, err
		}
		all = append(all, p.y...)
	}
	out := Scores{Examples: len(s.queries)}
	z, g := make([]float64, len(s.contexts)), make([]float64, len(s.contexts))
	for i, q := range s.queries {
		own := slices.Index(s.contexts, s.context[i])
		for j, c := range s.contexts {
			z[j] = e.in.Settings.Scale * float64(dot(all[q*h:][:h], all[c*h:][:h]))
		}
		out.Loss += crossEntropy(z, g, own, 1)
		rank := 1
		for j, v := range z {
			if v > z[own] || v == z[own] && j < own {
				rank++
			}
		}
		if rank == 1 {
			out.Accuracy++
		}
		if rank <= 10 {
			out.NDCG += 1 / math.Log2(float64(rank)+1)
		}
	}
	count := float64(len(s.queries))
	out.Loss, out.Accuracy, out.NDCG = out.Loss/count, out.Accuracy/count, out.NDCG/count
	return out, nil
}

// write writes the encoder to its folder.
func (e *encoder) write(r *Result) error {
	y := describe(e.base, r, e.in.Settings)
	b := e.base.settings
	y.Kind, y.MaxTokens, y.Pooling, y.Normalise = "encoder", e.in.Settings.MaxTokens, b.Pooling, b.Normalise
	y.QueryPrefix, y.DocumentPrefix = b.QueryPrefix, b.DocumentPrefix
	if e.in.Name != "" {
		y.Name = e.in.Name
	}
	y.Training.Data, y.Training.Examples = e.in.Training.Digest, len(e.train.queries)
	if e.in.Validation != nil {
		y.Training.Validation = e.in.Validation.Digest
	}
	config, err := configOf(e.in.From, classes[e.family]+"Model")
	if err != nil {
		return err
	}
	return writeModel(e.in.Out, e.in.From, e.net, config, y)
}
