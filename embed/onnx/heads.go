package onnx

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strconv"
)

// maxLabels bounds what a checkpoint may claim to tell apart.
const maxLabels = 1 << 20

// headKey returns the tensor of a head's last layer, without ".weight".
func (f *family) headKey(t Task) string {
	switch {
	case t == Spans:
		return "qa_outputs"
	case t == Classify && f.head == headDense:
		return "classifier.out_proj"
	}
	return "classifier"
}

// findLabels settles the labels of a head: those of config.json, or LABEL_0 … as many as the head's last layer has
// rows.
func (e *encoder) findLabels(dir string, t Task) {
	key := e.family.headKey(t) + ".weight"
	head, ok := e.weights[key]
	config := filepath.Join(dir, "config.json")
	if t == Spans { // id2label says nothing about them
		e.Labels = []string{"start", "end"}
	}
	switch n := len(e.Labels); {
	case !ok && n == 0:
		e.fail("tensor %q is missing, and id2label in %s: it has no head for this", key, config)
	case !ok:
		e.fail("tensor %q is missing: it has no head for this", key)
	case t == Spans && len(head.Shape) == 2 && head.Shape[0] != 2:
		e.fail("tensor %q has shape %v, expected [2, %d]: the first and the last token of an answer", key, head.Shape,
			e.Hidden)
	case len(head.Shape) != 2 || head.Shape[0] < 1 || head.Shape[0] > maxLabels:
		e.fail("tensor %q has shape %v, expected [labels, %d]", key, head.Shape, e.Hidden)
	case n == 0:
		e.Labels = NumberedLabels(int(head.Shape[0]))
	case int64(n) != head.Shape[0]:
		e.fail("tensor %q is a head of %d labels, id2label in %s has %d", key, head.Shape[0], config, n)
	}
}

// NumberedLabels returns the labels of a head that has none: LABEL_0 and on, as transformers calls them.
func NumberedLabels(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = "LABEL_" + strconv.Itoa(i)
	}
	return out
}

// ParseLabels reads id2label and problem_type of a config.json, of any family; both may be missing.
func ParseLabels(raw []byte) (names []string, problem string, err error) {
	var r struct {
		Labels  map[string]string `json:"id2label"`
		Problem string            `json:"problem_type"`
	}
	if err := json.Unmarshal(raw, &r); err != nil {
		return nil, "", fmt.Errorf("%w: %w", ErrModel, err)
	}
	names, err = labels(r.Labels)
	return names, r.Problem, err
}

// head returns the model's head over the last layer's output: logits, [batch, labels] of a text or [batch, sequence,
// labels] of its tokens.
func (e *encoder) head(x string, t Task) string {
	n := int64(len(e.Labels))
	if t == Classify {
		x = e.first(x)
		switch e.family.head {
		case headPre:
			x = e.linear(x, "pre_classifier", e.Hidden, e.Hidden, "relu")
		case headDense:
			x = e.linear(x, "classifier.dense", e.Hidden, e.Hidden, "tanh")
		case headContext:
			x = e.linear(x, "pooler.dense", e.Hidden, e.Hidden, e.Disentangled.Pooler)
		default:
			x = e.linear(x, e.prefix+"pooler.dense", e.Hidden, e.Hidden, "tanh")
		}
	}
	return e.linear(x, e.family.headKey(t), e.Hidden, n, "")
}

// takesTypes reports whether the graph has token types as an input: where sequences have others than 0, and the family
// reads them. RoBERTa and its kin have them in their files, but are trained and used with type 0 alone.
func (e *encoder) takesTypes(highest int64) bool {
	if highest == 0 || !e.family.typed || e.TypeVocab == 0 {
		return false
	}
	if highest >= e.TypeVocab {
		e.fail("the tokenizer gives the token type %d, config.json's type_vocab_size is %d", highest, e.TypeVocab)
	}
	return true
}
