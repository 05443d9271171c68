//go:build native

package embed

import (
	"context"
	"fmt"
	"strings"
)

// Reader finds the span of a passage that answers a question (extractive question answering: Devlin et al., BERT, 2019,
// section 4.3). It is safe for concurrent use.
type Reader struct{ *model }

var _ Extractor = (*Reader)(nil)

// OpenReader loads a question-answering checkpoint (BERT, DistilBERT, RoBERTa, MPNet, DeBERTa) whose head, qa_outputs,
// gives each token two logits: as the first and as the last one of the answer; or a ready export with the outputs
// start_logits and end_logits. tokenizer.json must say how it reads two texts. Errors as of Open.
func OpenReader(ctx context.Context, dir string, o Options) (*Reader, error) {
	return openAs[Reader](ctx, dir, KindReader, o)
}

// readerStride is how many tokens of a passage two windows in a row share, as in BERT's code for SQuAD.
const readerStride = 128

// Read implements Extractor. A passage of more tokens than the model takes beside the question is read in windows that
// overlap by readerStride tokens. A question that takes more than half of a window is cut there.
func (r *Reader) Read(ctx context.Context, question string, passages []string) ([]Reading, error) {
	if err := r.enter(); err != nil {
		return nil, err
	}
	defer r.running.Done()
	asked, err := r.pair.read("", question)
	if err != nil {
		return nil, fmt.Errorf("the question: %w", err)
	}
	out := make([]Reading, len(passages))
	var windows []Window
	of := make([]int, 0, len(passages)) // the passage of each window
	for i, passage := range passages {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		all, tokens, cut, err := r.pair.windows(asked, passage, maxSpanTokens, readerStride)
		if err != nil {
			return nil, fmt.Errorf("passage %d: %w", i, err)
		}
		for _, w := range all {
			windows, of = append(windows, w), append(of, i)
		}
		out[i].Tokens, out[i].Truncated = tokens, cut || !asked.whole || len(asked.ids) > r.pair.room/2
	}
	found, err := r.infer(ctx, len(windows), func(n int) (input, error) {
		return input{sequence: sequence{ids: windows[n].IDs, types: windows[n].Types}}, nil
	})
	if err != nil {
		return nil, err
	}
	for n, w := range windows {
		read := w.Read(found.data[2*found.starts[n] : 2*found.starts[n+1]])
		if best := &out[of[n]]; n > 0 && of[n-1] == of[n] {
			best.Merge(read)
		} else {
			best.set(read.Found())
			best.Null = read.Null
		}
	}
	for i := range out {
		out[i].trim(passages[i])
		if _, ok := r.NullThreshold(); !ok {
			out[i].Null = 0
		}
	}
	return out, nil
}

// trim leaves out white space around the spans, which tokens of byte-level vocabularies include, and spans that are
// nothing else.
func (r *Reading) trim(passage string) {
	var spans []Extract
	for _, s := range r.Found() {
		if text := strings.TrimSpace(passage[s.Start:s.End]); text != "" {
			s.Start += strings.Index(passage[s.Start:s.End], text)
			s.End = s.Start + len(text)
			spans = append(spans, s)
		}
	}
	r.Extract, r.Others = Extract{}, nil
	r.set(spans)
}

// NullThreshold implements Extractor.
func (r *Reader) NullThreshold() (threshold float64, ok bool) {
	return r.set.NullThreshold, r.set.NullAnswer == nil || *r.set.NullAnswer
}
