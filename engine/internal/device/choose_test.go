package device

import (
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/kernels"
)

// machine is two CPU cores with AMX and a data-centre GPU, in round figures.
func machine() Costs {
	g := &GPU{Name: "H100", Transfer: 25e9, Launch: 10e-6, Memory: 70 << 30}
	g.Tiles[kernels.F32], g.Tiles[kernels.BF16x3], g.Tiles[kernels.BF16] = 2e13, 1e14, 3e14
	c := Costs{GPU: g}
	c.CPU.Tiles[kernels.F32], c.CPU.Tiles[kernels.BF16x3] = 3e11, 5e11
	c.CPU.Indexed, c.CPU.Read, g.Read = 2e11, 3e10, 3e12
	return c
}

func TestChoose(t *testing.T) {
	all := machine()
	alone := all
	alone.GPU = nil
	small := machine()
	small.GPU.Memory = 1 << 30
	fast := machine()
	fast.CPU.Indexed = 1e15
	const f32, x3 = kernels.F32, kernels.BF16x3
	for name, c := range map[string]struct {
		op    Op
		shape Shape
		has   Residency
		costs Costs
		want  Backend
		says  string
	}{
		"no GPU": {OpDistribution, Shape{60_000, 20_000, 384, f32}, Residency{}, alone, OnCPU,
			"no GPU is used"},
		"calibration": {OpDistribution, Shape{60_000, 20_000, 384, x3}, Residency{}, all, OnGPU,
			"H100"},
		"a small calibration": {OpDistribution, Shape{100, 100, 384, x3}, Residency{}, all, OnCPU,
			"to and fro"},
		"one pair": {OpMatrix, Shape{1, 1, 384, x3}, Residency{A: true, B: true}, all, OnCPU, "CPU"},
		"one query, nothing there": {OpTopK, Shape{1, 1_000_000, 384, f32}, Residency{}, all, OnCPU,
			"1536001552 bytes"},
		"one query, contexts there": {OpTopK, Shape{1, 1_000_000, 384, f32}, Residency{B: true}, all, OnGPU,
			"1552 bytes"},
		"one query, a fast index": {OpTopK, Shape{1, 1_000_000, 384, f32}, Residency{B: true, Indexed: true}, fast,
			OnCPU, "with its index"},
		"an index that does not help": {OpTopK, Shape{64, 1_000_000, 384, f32}, Residency{B: true, Indexed: true}, all,
			OnGPU, "the CPU with its index in"},
		"an index is for searches": {OpDistribution, Shape{64, 1_000_000, 384, f32},
			Residency{B: true, Indexed: true}, fast, OnGPU, "the CPU in"},
		"a matrix that is sent back": {OpMatrix, Shape{4096, 4096, 8, f32}, Residency{A: true, B: true}, all, OnCPU,
			"67108864 bytes"},
		"out of core": {OpDistribution, Shape{1_000_000, 3_000_000, 384, x3},
			Residency{A: true, B: true}, small, OnGPU, "in 6 parts"},
		"a format that it lacks": {OpMatrix, Shape{10, 10, 8, kernels.I8}, Residency{}, all, OnCPU,
			"does not multiply in i8"},
		"a format that only it has": {OpDistribution, Shape{60_000, 20_000, 384, kernels.BF16}, Residency{}, all,
			OnGPU, "H100"},
		"nothing": {OpTopK, Shape{0, 10, 8, f32}, Residency{}, all, OnCPU, "nothing"},
	} {
		got, reason := Choose(c.op, c.shape, c.has, c.costs)
		why := reason.String()
		if got != c.want || !strings.Contains(why, c.says) {
			t.Errorf("%s: %v, %q; want %v and %q", name, got, why, c.want, c.says)
		}
	}
}
