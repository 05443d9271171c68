// Package axes learns rotations: orthogonal matrices whose first coordinates hold most of the variance of some vectors.
package axes

import (
	"context"
	"math"
	"math/rand/v2"

	"github.com/sluice-rag/sluice/engine/internal/device"
	"github.com/sluice-rag/sluice/engine/internal/workers"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/cpu"
	"github.com/sluice-rag/sluice/kernels/cpu/scan"
	"github.com/sluice-rag/sluice/kernels/cpu/scores"
)

// Learn returns an orthogonal matrix whose leading sections of coordinates hold most of the sample's variance:
// principal axes by orthogonal iteration (Golub & Van Loan 8.2.4), then a random rotation inside each section, which
// makes its coordinates alike, as codes with one scale need them. Few iterations do: every orthogonal matrix is valid,
// and how far this one is from that is skew ≥ ‖RᵀR − I‖.
func Learn(ctx context.Context, r *device.Resources, sample cpu.Rows, rng *rand.Rand) (rotation cpu.Rows, skew float64,
	err error) {
	d := sample.Dim
	covariance, err := covariance(ctx, r, sample)
	if err != nil {
		return rotation, 0, err
	}
	basis := make([]float64, d*d)
	for i := range d {
		basis[i*d+i] = 1
	}
	image, narrow := make([]float64, d*d), make([]float32, d*d)
	for range iterations(d) {
		for i, v := range basis {
			narrow[i] = float32(v)
		}
		if err := products(ctx, r, image, square(narrow, d), square(covariance, d)); err != nil {
			return rotation, 0, err
		}
		basis, image = image, basis
		if err := orthonormalise(ctx, r, basis, d, rng); err != nil {
			return rotation, 0, err
		}
	}
	mixed := make([]float64, d*d)
	for from := 0; from < d; from += scan.Section {
		n := min(scan.Section, d-from)
		mix := make([]float64, n*n)
		for i := range mix {
			mix[i] = rng.NormFloat64()
		}
		if err := orthonormalise(ctx, r, mix, n, rng); err != nil {
			return rotation, 0, err
		}
		for i := range n {
			if err := ctx.Err(); err != nil {
				return rotation, 0, err
			}
			out := mixed[(from+i)*d:][:d]
			for j, f := range mix[i*n : (i+1)*n] {
				axpy(f, basis[(from+j)*d:][:d], out)
			}
		}
	}
	if err := orthonormalise(ctx, r, mixed, d, rng); err != nil {
		return rotation, 0, err
	}
	for i, v := range mixed {
		narrow[i] = float32(v)
	}
	rotation = square(narrow, d)
	if err := products(ctx, r, image, rotation, rotation); err != nil {
		return rotation, 0, err
	}
	for i := range d {
		image[i*d+i]--
	}
	// ‖RᵀR − I‖₂ = ‖RRᵀ − I‖₂ ≤ the Frobenius norm; each product is off by less than d·2⁻⁵².
	skew = math.Sqrt(dot(image, image))*(1+1e-9) + float64(d*d)*0x1p-52
	return rotation, skew, nil
}

// iterations limits the work for large dimensions to a few seconds.
func iterations(d int) int { return workers.Clamp(3_000_000_000/(d*d*d), 2, 10) }

func square(data []float32, d int) cpu.Rows { return cpu.Rows{Data: data, N: d, Dim: d, Stride: d} }

// covariance returns the covariance matrix of the sample, up to a constant factor.
func covariance(ctx context.Context, r *device.Resources, sample cpu.Rows) ([]float32, error) {
	d, n := sample.Dim, sample.N
	columns := make([]float32, d*n)
	for k := range d {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		mean := 0.0
		for i := range n {
			mean += float64(sample.Data[i*sample.Stride+k]) / float64(n)
		}
		for i := range n {
			columns[k*n+i] = float32(float64(sample.Data[i*sample.Stride+k]) - mean)
		}
	}
	of := cpu.Rows{Data: columns, N: d, Dim: n, Stride: n}
	out, largest := make([]float64, d*d), 0.0
	if err := products(ctx, r, out, of, of); err != nil {
		return nil, err
	}
	for i := range d {
		largest = max(largest, out[i*d+i])
	}
	if largest == 0 {
		largest = 1
	}
	narrow := make([]float32, d*d)
	for i, v := range out {
		narrow[i] = float32(v / largest)
	}
	return narrow, nil
}

// products writes the inner products of the rows of a and b to out.
func products(ctx context.Context, r *device.Resources, out []float64, a, b cpu.Rows) error {
	const block = 8
	return r.Pool.Each(ctx, workers.Ceil(a.N, block), r.Pool.Threads, func(_, task int) error {
		from, to := task*block, min(a.N, (task+1)*block)
		return scores.Block(r.Host, kernels.IP, out[from*b.N:], b.N, a.Slice(from, to), b)
	})
}

// orthonormalise makes the d rows of a orthonormal (Gram–Schmidt, applied twice per row: "twice is enough", Kahan and
// Parlett). A row that is linearly dependent on earlier ones is replaced by a random one.
func orthonormalise(ctx context.Context, r *device.Resources, a []float64, d int, rng *rand.Rand) error {
	for i := range d {
		if err := ctx.Err(); err != nil {
			return err
		}
		row := a[i*d : (i+1)*d]
		for {
			before := math.Sqrt(dot(row, row))
			for range 2 {
				for j := range i {
					other := a[j*d : (j+1)*d]
					axpy(-dot(row, other), other, row)
				}
			}
			if after := math.Sqrt(dot(row, row)); after > 1e-9*before && after > 1e-200 {
				scale(1/after, row)
				break
			}
			for k := range row {
				row[k] = rng.NormFloat64()
			}
		}
	}
	return nil
}

func dot(a, b []float64) float64 {
	var s0, s1, s2, s3 float64
	k := 0
	for b = b[:len(a)]; k+4 <= len(a); k += 4 {
		s0 += a[k] * b[k]
		s1 += a[k+1] * b[k+1]
		s2 += a[k+2] * b[k+2]
		s3 += a[k+3] * b[k+3]
	}
	for ; k < len(a); k++ {
		s0 += a[k] * b[k]
	}
	return s0 + s1 + s2 + s3
}

func axpy(f float64, x, y []float64) {
	y = y[:len(x)]
	for k, v := range x {
		y[k] += f * v
	}
}

func scale(f float64, x []float64) {
	for k := range x {
		x[k] *= f
	}
}
