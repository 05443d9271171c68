//go:build native

package embed

import "context"

// Classifier gives texts classes. It is safe for concurrent use.
type Classifier struct{ m *model }

// OpenClassifier loads a sequence-classification checkpoint (DistilBERT, BERT, RoBERTa, MPNet, …) or a ready export
// with the output "logits". The labels are config.json's id2label, or LABEL_0 and on where it has none. Errors as of
// Open.
func OpenClassifier(ctx context.Context, dir string, o Options) (*Classifier, error) {
	m, err := openModel(ctx, dir, kindClassifier, o)
	if err != nil {
		return nil, err
	}
	return &Classifier{m}, nil
}

// Classify returns the scores of each text, in input order.
func (c *Classifier) Classify(ctx context.Context, texts []string) (*Classes, error) {
	r, err := c.m.infer(ctx, len(texts), c.m.texts(texts, Document))
	if err != nil {
		return nil, err
	}
	classes := &Classes{Labels: c.m.src.labels, Logits: r.data, Tokens: r.tokens, Truncated: r.truncated,
		Repaired: r.repaired, Temperature: c.m.set.Temperature, Threshold: c.m.set.Threshold}
	classes.fill(c.m.src.independent)
	return classes, nil
}

// Info identifies the classifier; Dim is the number of labels.
func (c *Classifier) Info() Info { return c.m.info }

// Stats counts what it has computed.
func (c *Classifier) Stats() Stats { return c.m.batches.now() }

// Close waits for the calls under way and frees the model; later calls return ErrClosed.
func (c *Classifier) Close() error { return c.m.close() }
