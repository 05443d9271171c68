package answer

import (
	"context"
	"slices"

	"github.com/sluice-rag/sluice/rag/flow"
	"github.com/sluice-rag/sluice/rag/gate"
	"github.com/sluice-rag/sluice/rag/quote"
	"github.com/sluice-rag/sluice/rag/retrieve"
)

// topicOnly is the notice of passages that are on the topic and do not answer by the second question.
const topicOnly = "the documents do not seem to answer this; these are the nearest passages"

// Sufficient is the answer to the second question: whether the passages that were found answer.
type Sufficient struct {
	gate.SecondDecision
	Parts quote.Support `json:"parts"` // of Features.Evidence
}

// isTopicOnly reports whether the passages do not seem to answer.
func (a *State) isTopicOnly() bool { return a.trace.Verdict == gate.TopicOnly && !a.fromWeb }

// search finds passages and asks the second question.
func (a *State) search(ctx context.Context, v *flow.Visit) (flow.Verdict, error) {
	said, err := a.retrieve(ctx, v)
	if err != nil || said != Found {
		return said, err
	}
	if err := a.second(ctx, v); err != nil {
		return "", err
	}
	if a.isTopicOnly() {
		return Topical, nil
	}
	return Found, nil
}

// second asks whether the passages answer, of as many of them as the calibration looked at, without what was joined to
// them. It is not asked where the gate was not, of pages of the web, or where the calibration has no second question,
// or one with another reader, cross-encoder or language model.
func (a *State) second(ctx context.Context, v *flow.Visit) error {
	if a.trace.Verdict, a.trace.Second = "", nil; a.asked == nil || a.fromWeb || len(a.Passages) == 0 {
		return nil
	}
	s := a.asked.Second()
	if s == nil {
		return nil
	}
	defer timer(&a.trace.Milliseconds.Second)()
	texts := chunkTexts(a.Passages[:min(len(a.Passages), retrieve.DefaultOptions().K)])
	if err := a.embed(ctx, v); err != nil {
		return err
	}
	parts, ok, err := a.snapshot.Evidence(ctx, a.subject(), a.vectors, texts)
	if err != nil || !ok {
		return err
	}
	f := gate.Features{Evidence: parts.Score}
	if s.Reader != "" {
		read, err := a.readBest(ctx, s.Reader, len(texts))
		if err != nil || read == nil {
			return err
		}
		f.Reader = read
	}
	if s.Reranker != "" {
		digest, err := a.base.Reranker(ctx)
		if err != nil || digest != s.Reranker {
			return err
		}
		scores, err := a.base.Rerank(ctx, a.subject(), texts)
		if err != nil {
			return err
		}
		f.Reranker = new(slices.Max(scores))
	}
	if s.Model != "" {
		model, err := a.load(ctx)
		if err != nil || model.Info().Identity() != s.Model {
			return err
		}
		odds, err := a.library.Sufficient(ctx, v.Model(model), a.subject(), texts, a.requests())
		if err != nil {
			return err
		}
		f.Model = &odds
	}
	d, err := a.asked.DecideSecond(f)
	if err != nil {
		return err
	}
	a.trace.Second, a.trace.Verdict = &Sufficient{d, parts}, d.Verdict
	return nil
}

// readBest returns the best score above the null answer in the first passages; nil if the base's reader is another one.
func (a *State) readBest(ctx context.Context, digest string, passages int) (*float64, error) {
	if !a.base.Reads() {
		return nil, nil
	}
	reader, err := a.base.Extractor(ctx)
	if err != nil || reader.Info().Digest != digest {
		return nil, err
	}
	r, err := a.read(ctx)
	if err != nil {
		return nil, err
	}
	best := gate.NoSpan
	for _, f := range r.found[:passages] {
		if !f.Empty() {
			best = max(best, f.Score)
		}
	}
	return &best, nil
}
