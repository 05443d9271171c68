package gate

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/kernels"
)

// thousand are numbers that NumPy makes the same: ((i*i*7919 + i*31) % 1009) / 1009.
func thousand(n int) []float64 {
	v := make([]float64, n)
	for i := range v {
		v[i] = float64((i*i*7919+i*31)%1009) / 1009
	}
	return v
}

// TestPolicyValues compares with numpy.percentile(x, p) (2.x, method "linear") and numpy.mean.
func TestPolicyValues(t *testing.T) {
	for _, c := range []struct {
		policy string
		n      int
		metric kernels.Metric
		want   float64
	}{
		{"min", 1000, kernels.Cosine, 0},
		{"p0", 1000, kernels.Cosine, 0},
		{"p1", 1000, kernels.Cosine, 0.01087215064420218},
		{"p2.5", 1000, kernels.Cosine, 0.024777006937561942},
		{"p5", 1000, kernels.Cosine, 0.05450941526263627},
		{"q1", 1000, kernels.Cosine, 0.24925668979187315},
		{"median", 1000, kernels.Cosine, 0.489593657086224},
		{"q3", 1000, kernels.Cosine, 0.7284440039643212},
		{"p95", 1000, kernels.Cosine, 0.9545094152626362},
		{"p97.5", 1000, kernels.Cosine, 0.979187314172448},
		{"p99.9", 1000, kernels.Cosine, 0.998017839444995},
		{"max", 1000, kernels.Cosine, 0.998017839444995},
		{"p5", 7, kernels.Cosine, 0.10882061446977206},
		{"p33", 7, kernels.Cosine, 0.45306243805748264},
		{"median", 7, kernels.Cosine, 0.6967294350842418},
		{"p90", 7, kernels.Cosine, 0.7881070366699704},
		{"p5", 1, kernels.Cosine, 0},
		// density counts from the far end, whichever that is.
		{"density:95", 1000, kernels.Cosine, 0.05450941526263627},
		{"density:95", 1000, kernels.L2, 0.9545094152626362},
		{"density:0", 1000, kernels.IP, 0.998017839444995},
		// the others are statistics of the raw scores.
		{"p5", 1000, kernels.L2, 0.05450941526263627},
		{"maximum:density:97.5", 1000, kernels.IP, 0.024777006937561942},
	} {
		p, err := ParsePolicy(c.policy)
		if err != nil {
			t.Errorf("%s: %v", c.policy, err)
			continue
		}
		if got := p.value(c.metric, sorted(thousand(c.n))); math.Abs(got-c.want) > 1e-15 {
			t.Errorf("%s of %d, %s: %v, want %v", c.policy, c.n, c.metric, got, c.want)
		}
		if p.Name != c.policy || p.Maximum != strings.HasPrefix(c.policy, "maximum:") {
			t.Errorf("%s parsed as %+v", c.policy, p)
		}
	}
	p, err := ParsePolicy("mean")
	if got := p.value(kernels.Cosine, thousand(1000)); err != nil || math.Abs(got-0.49059861248761155) > 1e-13 {
		t.Errorf("mean %v, %v", got, err)
	}
}

func TestParsePolicyRefuses(t *testing.T) {
	for _, s := range []string{"", "P5", "p", "p-1", "p+5", "p101", "p100.1", "p1e1", "p0x5", "pNaN", "pinf", "p5 ",
		"p.5", "p5.", "p1.2.3", "5",
		"density", "density:", "density:p5", "density:101", "density:-1", "maximum", "maximum:", "maximum:maximum:p5",
		"q2", "mode"} {
		if p, err := ParsePolicy(s); !errors.Is(err, ErrPolicy) {
			t.Errorf("%q: %+v, %v", s, p, err)
		}
	}
}

func TestParseNegatives(t *testing.T) {
	for s, want := range map[string]engine.Negatives{
		"":            {Kind: engine.NegativesAll},
		"all":         {Kind: engine.NegativesAll},
		"cross-topic": {Kind: engine.NegativesCrossGroup},
		"sample:7":    {Kind: engine.NegativesSample, PerQuery: 7, Seed: 42},
	} {
		if got, err := ParseNegatives(s, 42); err != nil || got != want {
			t.Errorf("%q: %+v, %v", s, got, err)
		}
	}
	for _, s := range []string{"none", "sample", "sample:", "sample:0", "sample:-1", "sample:1.5", "sample:99999999999",
		"All"} {
		if got, err := ParseNegatives(s, 0); !errors.Is(err, ErrPolicy) {
			t.Errorf("%q: %+v, %v", s, got, err)
		}
	}
}

func FuzzParsePolicy(f *testing.F) {
	for _, s := range []string{"p5", "maximum:density:97.5", "mean", "p100", "p1e9", "density:p",
		"maximum:maximum:min"} {
		f.Add(s)
	}
	values := sorted(thousand(50))
	f.Fuzz(func(t *testing.T, s string) {
		p, err := ParsePolicy(s)
		if err != nil {
			if !errors.Is(err, ErrPolicy) {
				t.Fatal(err)
			}
			return
		}
		for _, m := range []kernels.Metric{kernels.Cosine, kernels.L2} {
			if v := p.value(m, values); !(v >= values[0] && v <= values[len(values)-1]) {
				t.Fatalf("%q: %v lies outside of the scores", s, v)
			}
		}
		if again, err := ParsePolicy(p.Name); err != nil || again != p {
			t.Fatalf("%q: parsed again: %+v, %v", s, again, err)
		}
	})
}
