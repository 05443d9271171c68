//go:build native

package embed

import (
	"context"
	"fmt"
	"strings"
)

// Reader finds the span of a passage that answers a question (extractive question answering: Devlin et al., BERT, 2019,
// section 4.3). It is safe for concurrent use.
type Reader struct {
	m    *model
	pair *pairer
}

var _ Extractor = (*Reader)(nil)

// OpenReader loads a question-answering checkpoint (BERT, DistilBERT, RoBERTa, MPNet, DeBERTa) whose head, qa_outputs,
// gives each token two logits: as the first and as the last one of the answer; or a ready export with the outputs
// start_logits and end_logits. tokenizer.json must say how it reads two texts. Errors as of Open.
func OpenReader(ctx context.Context, dir string, o Options) (*Reader, error) {
	m, err := openModel(ctx, dir, kindReader, o)
	if err != nil {
		return nil, err
	}
	p, err := newPairer(m.tok, m.set.MaxTokens)
	if err == nil && m.session.dim != 2 {
		err = fmt.Errorf("%s: %w: a reader has 2 logits for each token, this model has %d", m.src.weights(), ErrModel,
			m.session.dim)
	}
	if err != nil {
		m.free()
		return nil, err
	}
	return &Reader{m, p}, nil
}

// readerStride is how many tokens of a passage two windows in a row share, as in BERT's code for SQuAD.
const readerStride = 128

// Read implements Extractor. A passage of more tokens than the model takes beside the question is read in windows that
// overlap by readerStride tokens. A question that takes more than half of a window is cut there.
func (r *Reader) Read(ctx context.Context, question string, passages []string) ([]Reading, error) {
	if err := r.m.enter(); err != nil {
		return nil, err
	}
	defer r.m.running.Done()
	fixed, _ := repair(question)
	asked, err := r.pair.read(fixed)
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
		ids, own, cut, err := r.m.tok.words(passage, maxSpanTokens)
		if err != nil {
			return nil, fmt.Errorf("passage %d: %w", i, err)
		}
		at := make([][2]int, len(own))
		for j, o := range own {
			at[j] = [2]int{o.start, o.end}
		}
		front := r.m.tok.special - r.m.tok.closing
		for _, w := range r.m.tok.pair.windowsOf(asked.ids, ids[front:front+len(own)], at, r.pair.room, readerStride) {
			windows, of = append(windows, w), append(of, i)
		}
		out[i].Tokens, out[i].Truncated = len(own), cut || !asked.whole || len(asked.ids) > r.pair.room/2
	}
	found, err := r.m.infer(ctx, len(windows), func(n int) (input, error) {
		return input{sequence: sequence{ids: windows[n].IDs, types: windows[n].Types}}, nil
	})
	if err != nil {
		return nil, err
	}
	seen := make([]bool, len(passages))
	for n, w := range windows {
		read := w.Read(found.data[2*found.starts[n] : 2*found.starts[n+1]])
		if best := &out[of[n]]; seen[of[n]] {
			best.Merge(read)
		} else {
			best.set(read.Found())
			best.Null = read.Null
		}
		seen[of[n]] = true
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
	return r.m.set.NullThreshold, r.m.set.NullAnswer == nil || *r.m.set.NullAnswer
}

// Info identifies the reader.
func (r *Reader) Info() Info { return r.m.info }

// Stats counts what it has computed.
func (r *Reader) Stats() Stats { return r.m.batches.now() }

// Close waits for the calls under way and frees the model; later calls return ErrClosed.
func (r *Reader) Close() error { return r.m.close() }
