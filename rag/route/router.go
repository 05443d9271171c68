package route

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/embed/identity"
	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/rag/route/learn"
)

// Router finds the domains of texts. Its methods may be called from any goroutine; it is not changed after Train or
// Load.
type Router struct {
	About
	words      *learn.Vectoriser // nil without weights of words
	model      *learn.Model
	prototypes engine.Vectors // no rows without vectors
	chunks     []Chunk        // of the store that it was trained on, ascending by key
	digest     string
}

// Digest identifies a router that was loaded: the digest of router.json, which names those of its other files.
func (r *Router) Digest() string { return r.digest }

// About is the content of router.json.
type About struct {
	Schema      int               `json:"schema"`
	Created     time.Time         `json:"created"`
	Tool        string            `json:"tool"`
	Settings    Settings          `json:"settings"`
	Labels      []string          `json:"labels"` // sorted
	Multi       bool              `json:"multi,omitempty"`
	Encoder     *identity.Encoder `json:"encoder,omitempty"` // absent without vectors
	Data        Data              `json:"data"`
	Temperature float64           `json:"temperature"`      // that scores are divided by
	Offset      float64           `json:"offset,omitempty"` // of the logits of several labels
	// several labels: the probability from which on one is given
	Threshold  float64 `json:"threshold"`
	Abstain    float64 `json:"abstain"`              // the familiarity below which the router abstains
	Prototypes []int   `json:"prototypes,omitempty"` // of each label
	Sets       Sets    `json:"sets"`                 // of labels, for searches
	HeldOut    *Report `json:"held_out"`
	Seconds    float64 `json:"seconds"` // of the training, embedding included
}

// Data says what a router was trained on.
type Data struct {
	Source string         `json:"source"`
	SHA256 string         `json:"sha256,omitempty"`
	Texts  int            `json:"texts"`
	Counts map[string]int `json:"counts"` // texts of each label
	Left   Left           `json:"left_out"`
	// of a router of a store:
	Corpus  string `json:"corpus,omitempty"`  // digest of its chunks
	Chunks  int    `json:"chunks,omitempty"`  // how many there were
	Domains string `json:"domains,omitempty"` // what they were taken from
}

// Label is a label of a text and its probability.
type Label struct {
	Label       string  `json:"label"`
	Probability float64 `json:"probability"`
}

// Decision is a router's decision on a text.
type Decision struct {
	Labels []Label `json:"labels"` // all, the most probable first
	// Given are the labels that the text gets: one, or those from the threshold on where it may have several, none when
	// the router abstains.
	Given     []string `json:"given"`
	Abstained bool     `json:"abstained,omitempty"` // the text is unlike everything that the router was trained on
	// Familiarity is how like the texts of the training it is: the largest cosine with a prototype of its best label,
	// plus a tenth of the largest margin; without vectors the largest margin, or probability, alone.
	Familiarity float64 `json:"familiarity"`
}

// SameEncoder refuses vectors of another encoder than the router's: ErrEncoder.
func (r *Router) SameEncoder(enc identity.Encoder) error {
	if r.Encoder != nil && !r.Encoder.Same(enc) {
		return fmt.Errorf("%w: it was made with %s (%d dimensions, %.19s), the encoder in use is %s (%d dimensions, "+
			"%.19s)", ErrEncoder, r.Encoder.Name, r.Encoder.Dim, r.Encoder.Digest, enc.Name, enc.Dim, enc.Digest)
	}
	return nil
}

// NeedsVectors reports whether the router reads the texts' vectors.
func (r *Router) NeedsVectors() bool { return r.Settings.Features.vectors() }

// Engine is the part of *engine.Engine that a router computes with.
type Engine interface {
	engine.Interface
	Parallel(ctx context.Context, tasks int, fn func(task int) error) error
}

// DecideTexts is Decide for texts whose vectors are not known; enc may be nil for a router without vectors.
func (r *Router) DecideTexts(ctx context.Context, e Engine, enc embed.Embedder, texts []string) ([]Decision, error) {
	var v engine.Vectors
	if r.NeedsVectors() {
		if enc == nil {
			return nil, fmt.Errorf("%w: it reads vectors, and there is no encoder", ErrEncoder)
		}
		if err := r.SameEncoder(enc.Info().Encoder); err != nil {
			return nil, err
		}
		found, err := enc.Embed(ctx, texts, embed.Query)
		if err != nil {
			return nil, err
		}
		v = engine.Vectors{Data: found.Data, Rows: len(texts), Dim: found.Dim}
	}
	return r.Decide(ctx, e, texts, v)
}

// Decide predicts the domains of texts. Row i of vectors is the embedding of texts[i] by the router's encoder. A router
// that was trained without vectors ignores them.
func (r *Router) Decide(ctx context.Context, e Engine, texts []string, vectors engine.Vectors) ([]Decision, error) {
	if len(texts) == 0 {
		return nil, nil
	}
	outcomes, err := r.outcomes(ctx, e, texts, vectors)
	if err != nil {
		return nil, err
	}
	out := make([]Decision, len(texts))
	for i := range outcomes {
		o := &outcomes[i]
		d := Decision{Labels: make([]Label, len(r.Labels)), Given: []string{}, Familiarity: o.familiar,
			Abstained: o.familiar < r.Abstain}
		for k, p := range o.probabilities {
			d.Labels[k] = Label{r.Labels[k], p}
		}
		if !d.Abstained {
			for _, k := range o.got(r.Multi, r.Threshold) {
				d.Given = append(d.Given, r.Labels[k])
			}
		}
		slices.SortStableFunc(d.Labels, func(a, b Label) int { return cmp.Compare(b.Probability, a.Probability) })
		out[i] = d
	}
	return out, nil
}

// outcomes scores texts.
func (r *Router) outcomes(ctx context.Context, e Engine, texts []string, vectors engine.Vectors) ([]outcome, error) {
	f, err := features(r.Settings, r.words, texts, vectors)
	if err != nil {
		return nil, err
	}
	scores, err := r.model.Scores(ctx, f, e.Parallel)
	if err != nil {
		return nil, err
	}
	out := make([]outcome, len(texts))
	for i := range out {
		o := outcome{scores: scores[i*len(r.Labels):][:len(r.Labels)]}
		o.probabilities = probabilities(o.scores, r.Multi, r.Temperature, r.Offset)
		sure := o.probabilities[best(o.probabilities)]
		if r.Settings.Kind == learn.LinearSVC {
			sure = o.scores[best(o.scores)]
		}
		o.familiar = sure
		if r.prototypes.Rows > 0 {
			o.familiar = r.familiar(vectors.Row(i), best(o.scores)) + familiarWeight*max(-2, min(sure, 2))
		}
		out[i] = o
	}
	return out, nil
}

// features of texts with their vectors.
func features(s Settings, words *learn.Vectoriser, texts []string, vectors engine.Vectors) (*learn.Features, error) {
	var dense []float32
	dim := 0
	if s.Features.vectors() {
		if vectors.Rows != len(texts) || vectors.Dim < 1 {
			return nil,
				fmt.Errorf("route: %w: %d vectors of %d dimensions for %d texts", kernels.ErrShape, vectors.Rows,
					vectors.Dim, len(texts))
		}
		dim = vectors.Dim
		dense = make([]float32, 0, len(texts)*dim)
		for i := range texts {
			for _, x := range vectors.Row(i) {
				dense = append(dense, float32(s.Scale)*x)
			}
		}
	}
	if !s.Features.words() {
		words = nil
	}
	return words.Features(texts, dense, dim)
}
