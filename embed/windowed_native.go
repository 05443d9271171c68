//go:build native

package embed

import (
	"context"

	"github.com/sluice-rag/sluice/embed/onnx"
)

// inWindows implements Encoder.Embed for texts of more tokens than the model reads at a time.
func (m *model) inWindows(ctx context.Context, texts []string, role Role) (*Embeddings, error) {
	n := len(texts)
	out := &Embeddings{Dim: m.session.dim, Data: make([]float32, n*m.session.dim), Tokens: make([]int, n),
		Contents: make([]Content, n)}
	var parts []input
	first := make([]int, n+1) // of each text, its first part
	err := m.use(func() error {
		for i := range texts {
			in, err := m.text(texts[i], role, m.whole)
			if err == nil {
				err = ctx.Err()
			}
			if err != nil {
				return err
			}
			out.Tokens[i], out.Contents[i] = len(in.ids), in.content
			if in.cut {
				out.Truncated++
			}
			if in.repaired {
				out.Repaired++
			}
			for _, ids := range windowed(in.ids, m.front[role], m.tok.closing, m.set.MaxTokens) {
				parts = append(parts, input{sequence: sequence{ids: ids}})
			}
			first[i+1] = len(parts)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	r, err := m.infer(ctx, len(parts), func(i int) (input, error) { return parts[i], nil })
	if err != nil {
		return nil, err
	}
	for i := range texts {
		windows := first[i+1] - first[i]
		poolRow(r.data[first[i]*out.Dim:], windows, onnx.Mean, out.Row(i))
		if windows > 1 && m.set.Normalise {
			Normalise(out.Row(i))
		}
	}
	return out, nil
}
