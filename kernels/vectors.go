package kernels

// Vectors is a view of Rows vectors of Dim float32 each; row i is Data[i*Stride : i*Stride+Dim].
// A Stride of 0 means Dim. Data is never written to. No rows are an empty set, whose other fields are
// not looked at; every operation has a natural result for it. Values that are NaN or infinite are
// refused (ErrNonFinite, naming row and column).
type Vectors struct {
	Data              []float32
	Rows, Dim, Stride int
}

// Bias adds Value ≥ 0 to the closeness of context Row (Metric.Biased). A list of them is sorted by
// Row, each row at most once; rows not listed have bias 0.
type Bias struct {
	Row   int
	Value float64
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
