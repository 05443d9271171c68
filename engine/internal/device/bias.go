package device

import (
	"context"
	"fmt"
	"math"

	"github.com/sluice-rag/sluice/engine/internal/workers"
	"github.com/sluice-rag/sluice/kernels"
)

// MaxBlock is the length of a block of biases at most.
const MaxBlock = 1024

// CheckBias refuses a list that is not strictly ascending by row, out of range, negative or no number. Other
// biases are checked when they are read.
func CheckBias(ctx context.Context, query int, biases kernels.Biases, rows int) error {
	list, _ := biases.(kernels.BiasList)
	before := -1
	for i, b := range list {
		if i%workers.Stretch == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		if b.Row <= before || b.Row >= rows || !(b.Value >= 0 && b.Value <= math.MaxFloat64) {
			return refuse(query, i, b, before, rows)
		}
		before = b.Row
	}
	return nil
}

// refuse says what is wrong with entry i of a list, which comes after the row before.
func refuse(query, i int, b kernels.Bias, before, rows int) error {
	switch {
	case b.Row < 0 || b.Row >= rows:
		return fmt.Errorf("engine: bias %d of query %d: %w: row %d of %d rows", i, query, kernels.ErrArgument, b.Row,
			rows)
	case b.Row <= before:
		return fmt.Errorf("engine: bias %d of query %d: %w: row %d after row %d; sort by row, each at most once",
			i, query, kernels.ErrArgument, b.Row, before)
	case math.IsNaN(b.Value) || math.IsInf(b.Value, 0):
		return fmt.Errorf("engine: bias %d of query %d: %w: %v", i, query, kernels.ErrNonFinite, b.Value)
	}
	return fmt.Errorf("engine: bias %d of query %d: %w: %v is negative", i, query, kernels.ErrArgument, b.Value)
}

// ReadBias reads the biases of a block into out, which has its length, checks them and returns the largest.
func ReadBias(biases kernels.Biases, b kernels.RowBlock, out []float32) (largest float32, err error) {
	clear(out)
	if err := biases.Read(b, out); err != nil {
		return 0, err
	}
	highest := uint32(0) // floats that are not negative are ordered like their bits, and all others have more
	for _, v := range out {
		highest = max(highest, math.Float32bits(v))
	}
	if highest < math.Float32bits(float32(math.Inf(1))) {
		return math.Float32frombits(highest), nil
	}
	for i, v := range out {
		switch {
		case math.IsNaN(float64(v)) || math.IsInf(float64(v), 0):
			return 0, fmt.Errorf("engine: bias of row %d: %w: %v", b.Row(i), kernels.ErrNonFinite, v)
		case v < 0:
			return 0, fmt.Errorf("engine: bias of row %d: %w: %v is negative", b.Row(i), kernels.ErrArgument, v)
		}
		largest = max(largest, v)
	}
	return largest, nil // there is a −0
}

// AddBiases adds the biases of the rows from first on to their scores. It reads into scratch, of MaxBlock, unless
// they are a list.
func AddBiases(scores []float64, metric kernels.Metric, biases kernels.Biases, first int, scratch []float32) error {
	if biases == nil {
		return nil
	}
	if list, ok := biases.(kernels.BiasList); ok {
		for _, b := range list.Between(first, first+len(scores)) {
			scores[b.Row-first] = metric.Biased(scores[b.Row-first], b.Value)
		}
		return nil
	}
	for len(scores) > 0 {
		n := min(len(scores), MaxBlock)
		if _, err := ReadBias(biases, kernels.RowBlock{Number: -1, First: first, Len: n}, scratch[:n]); err != nil {
			return err
		}
		for i, b := range scratch[:n] {
			scores[i] = metric.Biased(scores[i], float64(b))
		}
		scores, first = scores[n:], first+n
	}
	return nil
}
