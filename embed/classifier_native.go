//go:build native

package embed

import "context"

// Classifier gives texts classes. Dim of its Info is the number of labels. It is safe for concurrent use.
type Classifier struct{ *model }

// OpenClassifier loads a sequence-classification checkpoint (DistilBERT, BERT, RoBERTa, MPNet, …) or a ready export
// with the output "logits". The labels are config.json's id2label, or LABEL_0 and on where it has none. Errors as of
// Open.
func OpenClassifier(ctx context.Context, dir string, o Options) (*Classifier, error) {
	return openAs[Classifier](ctx, dir, KindClassifier, o)
}

// Classify returns the scores of each text, in input order.
func (c *Classifier) Classify(ctx context.Context, texts []string) (*Classes, error) {
	r, err := c.infer(ctx, len(texts), c.texts(texts, Document))
	if err != nil {
		return nil, err
	}
	classes := &Classes{Labels: c.src.labels, Logits: r.data, Tokens: r.tokens, Truncated: r.truncated,
		Repaired: r.repaired, Temperature: c.set.Temperature, Threshold: c.set.Threshold}
	classes.fill(c.src.independent)
	return classes, nil
}
