package learn

import (
	"context"
	"fmt"
	"math"
	"slices"
)

// counted returns the number of rows of each class, and the logarithms of their shares. Every class must have a row.
func counted(of []int32, classes int) (rows, logShare []float64) {
	rows, logShare = make([]float64, classes), make([]float64, classes)
	for _, k := range of {
		rows[k]++
	}
	for k, n := range rows {
		logShare[k] = math.Log(n / float64(len(of)))
	}
	return rows, logShare
}

// fitMultinomial is naive Bayes over counts, or weights that take their place, with a smoothing of 1. Its weights are
// the logarithms of the terms' shares.
func fitMultinomial(f *Features, of []int32, classes int) (*Model, error) {
	if f.Dim > 0 {
		return nil, fmt.Errorf("%w: multinomial naive Bayes takes weights of terms (tfidf); an embedding has negative "+
			"numbers", ErrFeatures)
	}
	_, logShare := counted(of, classes)
	n := f.Columns()
	m := &Model{Kind: MultinomialNB, Classes: classes, Columns: n, Weights: make([]float64, classes*n),
		Intercepts: logShare}
	for i, k := range of {
		f.add(i, 1, m.Weights[int(k)*n:][:n])
	}
	for k := range classes {
		w := m.Weights[k*n:][:n]
		all := 0.
		for j := range w {
			w[j]++
			all += w[j]
		}
		for j := range w {
			w[j] = math.Log(w[j]) - math.Log(all)
		}
	}
	return m, nil
}

// smoothing of variances, as a share of the largest one of a column.
const smoothing = 1e-9

// fitGaussian is naive Bayes with a normal distribution for each class and column.
func fitGaussian(ctx context.Context, f *Features, of []int32, classes int) (*Model, error) {
	rows, logShare := counted(of, classes)
	n := f.Columns()
	m := &Model{Kind: GaussianNB, Classes: classes, Columns: n, Weights: make([]float64, classes*n),
		Intercepts: logShare}
	mean := make([]float64, n)
	for i, k := range of {
		f.add(i, 1, m.Weights[int(k)*n:][:n])
	}
	for k := range classes {
		w := m.Weights[k*n:][:n]
		for j, sum := range w {
			mean[j] += sum / float64(f.Rows)
			w[j] = sum / rows[k]
		}
	}
	whole := f.variances(make([]int32, f.Rows), mean, []float64{float64(f.Rows)})
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.Variances = f.variances(of, m.Weights, rows)
	largest := slices.Max(whole)
	if largest == 0 {
		return nil, fmt.Errorf("%w: all rows are equal", ErrFeatures)
	}
	for i := range m.Variances {
		m.Variances[i] += smoothing * largest
	}
	return m, nil
}

// variances of the columns within each class, whose means and numbers of rows are known.
func (f *Features) variances(of []int32, means, rows []float64) []float64 {
	n := f.Columns()
	out, zeros := make([]float64, len(means)), make([]float64, len(means))
	for k, count := range rows {
		for j := range f.Terms {
			zeros[k*n+j] = count
		}
	}
	for i, k := range of {
		mean, to, z := means[int(k)*n:][:n], out[int(k)*n:][:n], zeros[int(k)*n:][:n]
		columns, values := f.sparse(i)
		for e, c := range columns {
			d := values[e] - mean[c]
			to[c] += d * d
			z[c]--
		}
		for e, v := range f.dense(i) {
			d := float64(v) - mean[f.Terms+e]
			to[f.Terms+e] += d * d
		}
	}
	for k, count := range rows {
		for j := range n {
			at := k*n + j
			out[at] = (out[at] + zeros[at]*means[at]*means[at]) / count
		}
	}
	return out
}

// gaussianBase returns a class's score of a row of zeros.
func (m *Model) gaussianBase(k int) float64 {
	s := m.Intercepts[k]
	for j := range m.Columns {
		at := k*m.Columns + j
		s -= (math.Log(2*math.Pi*m.Variances[at]) + m.Weights[at]*m.Weights[at]/m.Variances[at]) / 2
	}
	return s
}

// gaussian returns a class's score of a row: base and what differs from a row of zeros.
func (m *Model) gaussian(f *Features, row, k int, base float64) float64 {
	mean, variance := m.Weights[k*m.Columns:][:m.Columns], m.Variances[k*m.Columns:][:m.Columns]
	s := 0.
	columns, values := f.sparse(row)
	for e, c := range columns {
		s += values[e] * (values[e] - 2*mean[c]) / variance[c]
	}
	for e, v := range f.dense(row) {
		c, x := f.Terms+e, float64(v)
		s += x * (x - 2*mean[c]) / variance[c]
	}
	return base - s/2
}
