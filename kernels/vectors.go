package kernels

import "sort"

// Vectors is a view of Rows vectors of Dim float32 each; row i is Data[i*Stride : i*Stride+Dim]. A Stride of 0 means
// Dim. Data is never modified. With Rows 0 the set is empty and its other fields are ignored; every operation has a
// natural result for it. NaN and infinite values are rejected (ErrNonFinite, naming row and column).
//
// Set is not nil if the vectors belong to a prepared set (engine.Set.Vectors): operations then use the prepared data.
// Data may then be nil, and a Vectors with a part of the rows must leave Set nil.
type Vectors struct {
	Data              []float32
	Rows, Dim, Stride int
	Set               any
}

// Row returns a row of Data. It shares memory with Data.
func (v Vectors) Row(i int) []float32 { return v.Data[i*max(v.Stride, v.Dim):][:v.Dim] }

// Slice returns the rows of Data from up to below to. They share memory with Data.
func (v Vectors) Slice(from, to int) Vectors {
	stride := max(v.Stride, v.Dim)
	data := v.Data[from*stride : min(to*stride, len(v.Data))]
	return Vectors{Data: data, Rows: to - from, Dim: v.Dim, Stride: v.Stride}
}

// Biases holds what one query adds to the closeness of each context (Metric.Biased), such as a lexical score: a
// BiasList, or an implementation that computes the biases when a search reaches the rows. nil adds nothing.
type Biases interface {
	// Read writes the biases of a block's rows, finite and ≥ 0, to out, which has the length of the block and is
	// zeroed. Several goroutines may call it at once. Blocks come in any order; some may be skipped or read twice. An
	// error ends the search, which returns it.
	Read(b RowBlock, out []float32) error
}

// RowBlock is a set of rows whose biases are read together.
type RowBlock struct {
	Number int     // block of a prepared set (engine.Set.Blocks); −1: consecutive rows
	First  int     // row i of the block is First + Rows[i]; without Rows, First + i
	Rows   []int32 // read-only
	Len    int
}

// Row returns the number of the block's row i.
func (b RowBlock) Row(i int) int {
	if b.Rows == nil {
		return b.First + i
	}
	return b.First + int(b.Rows[i])
}

// Bias adds Value ≥ 0 to the closeness of context Row.
type Bias struct {
	Row   int
	Value float64
}

// BiasList holds biases sorted by Row, each row at most once; other rows have bias 0. Searches use the exact values;
// only Read rounds them to float32.
type BiasList []Bias

// Read implements Biases.
func (l BiasList) Read(b RowBlock, out []float32) error {
	for i := range b.Len {
		out[i] = float32(l.At(b.Row(i)))
	}
	return nil
}

// At returns the bias of a row.
func (l BiasList) At(row int) float64 {
	if part := l.Between(row, row+1); len(part) > 0 {
		return part[0].Value
	}
	return 0
}

// Between returns the biases of the rows [from, to).
func (l BiasList) Between(from, to int) BiasList {
	i := sort.Search(len(l), func(i int) bool { return l[i].Row >= from })
	return l[i : i+sort.Search(len(l)-i, func(j int) bool { return l[i+j].Row >= to })]
}

// Hit is a row of the searched set and its canonical (biased) score.
type Hit struct {
	Row   int
	Score float64
}

// Closer orders hits by better score, then by lower row.
func (m Metric) Closer(a, b Hit) bool {
	if a.Score != b.Score {
		return m.Better(a.Score, b.Score)
	}
	return a.Row < b.Row
}
