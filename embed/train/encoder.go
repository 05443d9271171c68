package train

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/sluice-rag/sluice/embed/onnx"
)

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

// encoder is the training of an encoder.
type encoder struct {
	task[Pair]
	before     Scores // of the initial model
	train, val pairSet
}

// pairSet holds tokenised pairs; each distinct text is stored once.
type pairSet struct {
	set
	queries, context []int // indices into ids, per pair
	contexts         []int // the distinct ones
}

// Encoder trains an encoder and writes it to in.Out, like Classifier. The model in in.From determines the pooling and
// the prefixes of queries and contexts; the result keeps both.
func Encoder(ctx context.Context, in EncoderInput) (*Result, error) {
	return train(ctx, in, openEncoder)
}

func openEncoder(ctx context.Context, in EncoderInput) (*run, error) {
	training, validation, err := splitGroups(in, "pairs", Pair.group)
	if err != nil {
		return nil, err
	}
	e := &encoder{}
	e.in = in
	if err := e.open(false); err != nil {
		return nil, err
	}
	e.net.first = e.base.settings.Pooling == onnx.CLS
	e.in.Settings.MaxTokens = e.base.limit(in.Settings.MaxTokens, e.net.Positions)
	if e.net.from == e.net.Layers {
		return nil, fmt.Errorf("%w: an encoder has no head: at least one layer is to be trained", ErrSetting)
	}
	e.net.grads()
	if e.train, err = e.tokenise(ctx, in.Training.Source, training); err != nil {
		return nil, err
	}
	if e.val, err = e.tokenise(ctx, cmp.Or(in.Validation, in.Training).Source, validation); err != nil {
		return nil, err
	}
	if e.before, err = e.validate(); err != nil {
		return nil, err
	}
	return e.run("encoder", len(training), len(training), e)
}

// group returns the group of a pair's context.
func (p Pair) group() string { return cmp.Or(p.Group, "\x00"+p.Context) }

// tokenise converts pairs to ids and, if layers are frozen, features.
func (e *encoder) tokenise(ctx context.Context, source string, list []Pair) (pairSet, error) {
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
	for _, x := range list {
		s.queries = append(s.queries, place(0, x.Query))
		s.context = append(s.context, place(1, x.Context))
	}
	for kind, prefix := range []string{e.base.settings.QueryPrefix, e.base.settings.DocumentPrefix} {
		ids, cut, err := tokens(e.in.Tokenizer, texts[kind], prefix, e.in.Settings.MaxTokens)
		if err != nil {
			return s, err
		}
		if cut > 0 {
			e.in.Hooks.warn("%s: %d of %d different %s are longer than %d tokens: their ends are not read", source,
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
	x, b, err := featuresOf(e.net, &s.set, items)
	if err != nil {
		return nil, nil, nil, err
	}
	x, tapes := e.net.trained(x, b)
	return b, tapes, e.net.sentences(x, b, e.net.first), e.net.err
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
	return l, e.net.trainedBack(e.net.sentencesBack(p, append(dq, dc...), b), tapes)
}

// validate ranks the distinct contexts of the validation pairs for each of their queries. The loss is the cross-entropy
// of finding the right context among all of them.
func (e *encoder) validate() (Scores, error) {
	s := &e.val
	h := e.net.Hidden
	all := make([]float32, 0, len(s.ids)*h)
	for _, items := range portions(s.ids) {
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

// better reports whether a has the higher NDCG, or the same NDCG and a smaller loss.
func (*encoder) better(a, b Scores) bool {
	return a.NDCG > b.NDCG || a.NDCG == b.NDCG && a.Loss < b.Loss
}

func (e *encoder) complete(_ context.Context, out *Result) error {
	out.Before = &e.before
	return nil
}

// write writes the encoder to its folder.
func (e *encoder) write(r *Result) error {
	y, b := e.describe("encoder", r), e.base.settings
	y.Pooling, y.Normalise, y.QueryPrefix, y.DocumentPrefix = b.Pooling, b.Normalise, b.QueryPrefix, b.DocumentPrefix
	return e.writeLike("Model", y)
}
