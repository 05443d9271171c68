package limits

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/sluice-rag/sluice/kernels"
)

func TestMeasure(t *testing.T) {
	l, err := Measure(t.Context(), 1, 8<<20)
	if errors.Is(err, kernels.ErrUnavailable) {
		t.Skipf("SKIP: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", l)
	if l.Read < 1e8 || l.FMABase < 1e8 || l.Threads != 1 {
		t.Errorf("%+v", l) // the slowest machine of this century does a hundred million a second
	}
	// A wider unit that is slower than half the narrower one was measured wrong.
	if l.FMAAVX512 > 0 && l.FMAAVX512 < l.FMAAVX2/2 || l.AMXBF16 > 0 && l.AMXBF16 < l.FMAAVX512 {
		t.Errorf("%+v", l)
	}
}

func TestMeasureRefuses(t *testing.T) {
	for _, c := range []struct {
		threads int
		memory  int64
	}{{0, 1 << 20}, {-1, 1 << 20}, {1, 0}} {
		if _, err := Measure(t.Context(), c.threads, c.memory); !errors.Is(err, kernels.ErrArgument) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Measure(ctx, 1, 1<<20); !errors.Is(err, context.Canceled) && !errors.Is(err, kernels.ErrUnavailable) {
		t.Error(err)
	}
}

func TestBest(t *testing.T) {
	a, b := Limits{Threads: 2, Read: 5, FMABase: 1, AMXI8: 9}, Limits{Threads: 2, Read: 4, FMABase: 2, VNNI: 3}
	if got, want := a.Best(b), (Limits{Threads: 2, Read: 5, FMABase: 2, VNNI: 3, AMXI8: 9}); got != want {
		t.Errorf("%+v", got)
	}
}

func TestPeakAndTime(t *testing.T) {
	l := Limits{Read: 10, FMABase: 1, FMAAVX2: 2, FMAAVX512: 4, VNNI: 16, AMXBF16: 60, AMXI8: 120}
	for _, c := range []struct {
		isa   string
		dtype kernels.DType
		want  float64
	}{
		{"", kernels.F32, 4}, {"amx", kernels.F32, 10}, {"avx512", kernels.BF16, 4}, {"avx2", kernels.I8, 2},
		{"scalar", kernels.F32, 1},
		{"amx", kernels.BF16x3, 20}, {"", kernels.BF16, 60}, {"amx", kernels.I8, 120}, {"avx512vnni", kernels.I8, 16},
		{"avx512vnni", kernels.BF16, 4},
	} {
		if got := l.Peak(c.dtype, c.isa); got != c.want {
			t.Errorf("%s %s: %v, want %v", c.isa, c.dtype, got, c.want)
		}
	}
	if got := l.Time(8, 30, kernels.F32, ""); got != 3*time.Second {
		t.Error(got) // reading takes longer than computing
	}
	if got := l.Time(8, 30, kernels.F32, "scalar"); got != 8*time.Second {
		t.Error(got)
	}
}
