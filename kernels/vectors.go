package kernels

import "sort"

// Vectors is a view of Rows vectors of Dim float32 each; row i is Data[i*Stride : i*Stride+Dim].
// A Stride of 0 means Dim. Data is never written to. No rows are an empty set, whose other fields are
// not looked at; every operation has a natural result for it. Values that are NaN or infinite are
// refused (ErrNonFinite, naming row and column).
//
// Set is not nil where the vectors are those of a prepared set (engine.Set.Vectors): operations then use what is
// prepared. Data may be nil in this case, and a Vectors of some of the rows leaves Set out.
type Vectors struct {
	Data              []float32
	Rows, Dim, Stride int
	Set               any
}

// Biases are what one query adds to the closeness of each context (Metric.Biased), such as a lexical score: a
// BiasList, or whatever computes them when a search comes to the rows. nil adds nothing.
type Biases interface {
	// Read writes the biases of a block's rows, finite and ≥ 0, to out, which is as long as the block and zero.
	// Several goroutines may call it at once. Blocks come in any order, one that a search does not need never,
	// another one perhaps twice. An error ends the search, which returns it.
	Read(b RowBlock, out []float32) error
}

// RowBlock is a set of rows whose biases are read together.
type RowBlock struct {
	Number int     // of a prepared set's block (engine.Set.Blocks); −1: rows that follow each other
	First  int     // row i of the block is First + Rows[i]; without Rows, First + i
	Rows   []int32 // not to be written to
	Len    int
}

// Row is the number of the block's row i.
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

// BiasList are biases sorted by Row, each row at most once; rows not listed have bias 0. Searches use the
// values as they are; only Read rounds them to float32.
type BiasList []Bias

// Read implements Biases.
func (l BiasList) Read(b RowBlock, out []float32) error {
	for i := range b.Len {
		out[i] = float32(l.At(b.Row(i)))
	}
	return nil
}

// At is the bias of a row.
func (l BiasList) At(row int) float64 {
	if part := l.Between(row, row+1); len(part) > 0 {
		return part[0].Value
	}
	return 0
}

// Between are the biases of the rows [from, to).
func (l BiasList) Between(from, to int) BiasList {
	i := sort.Search(len(l), func(i int) bool { return l[i].Row >= from })
	return l[i : i+sort.Search(len(l)-i, func(j int) bool { return l[i+j].Row >= to })]
}

// Hit is a row of the searched set and its canonical (biased) score.
type Hit struct {
	Row   int
	Score float64
}

// Closer orders hits: the better score first, then the lower row.
func (m Metric) Closer(a, b Hit) bool {
	if a.Score != b.Score {
		return m.Better(a.Score, b.Score)
	}
	return a.Row < b.Row
}
