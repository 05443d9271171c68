package search

import (
	"context"

	"github.com/sluice-rag/sluice/engine/internal/device"
	"github.com/sluice-rag/sluice/engine/internal/workers"
	"github.com/sluice-rag/sluice/kernels"
)

// biased gives all rows that have a bias their canonical scores: tiles know nothing of biases, and the rows that have
// one are few, as a rule.
func (s *search) biased(ctx context.Context) error {
	if s.Bias == nil {
		return nil
	}
	return s.r.Pool.Each(ctx, len(s.lanes), 0, func(_, q int) error {
		b := s.Bias[s.q0+q]
		if list, ok := b.(kernels.BiasList); b == nil || ok && len(list) == 0 {
			return nil
		}
		for i := range s.Parts {
			if err := s.biasedOf(ctx, q, b, i); err != nil {
				return err
			}
		}
		return nil
	})
}

// biasedOf is biased for one query and one part.
func (s *search) biasedOf(ctx context.Context, q int, b kernels.Biases, part int) error {
	p := &s.Parts[part]
	var rows []int32 // of the part
	var values []float64
	score := func() error {
		err := s.scoreBiased(q, part, rows, values)
		rows, values = rows[:0], values[:0]
		return err
	}
	add := func(row int, v float64) error {
		if rows, values = append(rows, int32(row-p.First)), append(values, v); len(rows) < piece {
			return nil
		}
		return score()
	}
	if list, ok := b.(kernels.BiasList); ok {
		for i, e := range list.Between(p.First, p.First+p.N) {
			if i%workers.Stretch == 0 && ctx.Err() != nil {
				return ctx.Err()
			}
			if err := add(e.Row, e.Value); err != nil {
				return err
			}
		}
		return score()
	}
	var block [device.MaxBlock]float32
	for from := 0; from < p.N; from += len(block) {
		if err := ctx.Err(); err != nil {
			return err
		}
		out := block[:min(len(block), p.N-from)]
		largest, err := device.ReadBias(b, kernels.RowBlock{Number: -1, First: p.First + from, Len: len(out)}, out)
		if err != nil {
			return err
		}
		for i := 0; largest > 0 && i < len(out); i++ {
			if out[i] > 0 {
				if err := add(p.First+from+i, float64(out[i])); err != nil {
					return err
				}
			}
		}
	}
	return score()
}

// scoreBiased offers rows of a part with their biases, and notes that they were offered. Where the part is scanned,
// those
// that cannot reach the bar are left out.
func (s *search) scoreBiased(q, part int, rows []int32, values []float64) error {
	if len(rows) == 0 {
		return nil
	}
	p := &s.Parts[part]
	found, all, err := s.sift(p, s.coded[part], q, rows, values)
	if err != nil {
		return err
	}
	if all {
		out := make([]float64, len(rows))
		if err := s.r.Pairs(s.Metric, out, s.queries.Slice(q, q+1), nil, p.Rows, rows); err != nil {
			return err
		}
		for i, score := range out {
			found = append(found, device.Scored{Score: score, Row: uint32(rows[i]), At: uint32(i)})
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	l := &s.lanes[q]
	for _, row := range rows {
		l.biased = append(l.biased, int32(p.First)+row)
	}
	l.survivors += int64(len(found))
	for _, f := range found {
		if row := p.First + int(f.Row); !s.deleted(row) {
			s.offer(l, kernels.Hit{Row: row, Score: s.Metric.Biased(f.Score, values[f.At])})
		}
	}
	return nil
}
