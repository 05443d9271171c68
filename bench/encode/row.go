package encode

import (
	"math"
	"slices"
	"time"

	"github.com/sluice-rag/sluice/bench/harness"
	"github.com/sluice-rag/sluice/bench/limits"
	"github.com/sluice-rag/sluice/kernels"
)

// Row is the result of one competitor in one workload. Times are per round, or per text in workloads of single texts,
// where MedianMS is p50.
type Row struct {
	Workload   string   `json:"workload"`
	Shape      string   `json:"shape"`
	Impl       string   `json:"impl"`
	ISA        string   `json:"isa"` // "" for peers, which choose themselves
	DType      string   `json:"dtype"`
	Mode       string   `json:"mode"` // batch or one
	Threads    int      `json:"threads"`
	MedianMS   float64  `json:"median_ms"`
	MinMS      float64  `json:"min_ms"`
	P99MS      float64  `json:"p99_ms,omitempty"` // of single texts
	TextsPerS  float64  `json:"texts_per_s"`      // from the median
	TokensPerS float64  `json:"tokens_per_s"`
	LimitPct   float64  `json:"limit_pct"` // of the arithmetic's peak; for single texts, of reading the weights once
	MaxError   *float64 `json:"max_error"` // of a vector's component, to float64; null: there was no reference
	NDCG       *float64 `json:"ndcg10"`    // on squad16; null: not computed
	Samples    int      `json:"samples"`
}

// Ratio compares one of Sluice's rows with a peer's, round by round. Above 1, Sluice is faster.
type Ratio struct {
	Workload string    `json:"workload"`
	DType    string    `json:"dtype"`
	Peer     string    `json:"peer"`
	Ratio    float64   `json:"ratio"` // median of Rounds
	Min      float64   `json:"min"`
	Max      float64   `json:"max"`
	Rounds   []float64 `json:"rounds"`
	// SameClass reports whether the peer's vectors are at least as exact as Sluice's.
	SameClass bool `json:"same_class"`
}

// Errors up to float32Errors are typical of float32 arithmetic: all such competitors are considered equally exact.
const float32Errors = 5e-6

// asExact reports whether the peer's vectors are at least as exact as Sluice's. The errors are maxima over few texts.
func asExact(peer, own *float64) bool {
	return peer != nil && own != nil && *peer <= max(float32Errors, 2**own)
}

// size describes what a model computes and reads.
type size struct {
	layers, hidden, inner int
}

// operations returns the operations of the layers for a text of n tokens; a multiply-add counts as two.
func (z size) operations(n int) float64 {
	products := 2 * float64(n) * float64(4*z.hidden*z.hidden+2*z.hidden*z.inner)
	attention := 4 * float64(n) * float64(n) * float64(z.hidden)
	return float64(z.layers) * (products + attention)
}

// weights returns the number of weights of the layers, without the word embeddings, of which a text reads only some
// rows.
func (z size) weights() float64 {
	return float64(z.layers) * float64(4*z.hidden*z.hidden+2*z.hidden*z.inner)
}

// shortest returns the least time that the machine needs: for many texts the arithmetic's (for float32 in fused
// multiply-adds, whatever units a competitor uses), for a single text that of reading the weights once from memory.
func shortest(l limits.Limits, z size, tokens []int, single bool, dtype string) time.Duration {
	kind, bytes := kernels.F32, 4.
	switch dtype {
	case "i8", "int8":
		kind, bytes = kernels.I8, 1
	case "bf16":
		kind, bytes = kernels.BF16, 2
	}
	if l.Read == 0 {
		return 0
	}
	if single {
		return time.Duration(z.weights() * bytes / l.Read * float64(time.Second))
	}
	var operations float64
	for _, n := range tokens {
		operations += z.operations(n)
	}
	return time.Duration(operations / l.Peak(kind, "") * float64(time.Second))
}

// timed fills in the fields that depend on the times of the rounds; texts and tokens are the amounts per time.
func (r *Row) timed(rounds [][]time.Duration, texts, tokens float64, shortest time.Duration) {
	all := slices.Concat(rounds...)
	slices.Sort(all)
	median := max(middle(all), 1)
	r.MedianMS, r.MinMS, r.Samples = ms(median), ms(all[0]), len(all)
	if r.Mode == modeOne {
		r.P99MS = ms(all[min(len(all)-1, len(all)*99/100)])
	}
	r.TextsPerS = harness.Digits(texts / median.Seconds())
	r.TokensPerS = harness.Digits(tokens / median.Seconds())
	r.LimitPct = harness.Digits(100 * shortest.Seconds() / median.Seconds())
}

// ratio compares the rounds of two competitors; ok is false if they have no rounds in common.
func ratio(own, peer [][]time.Duration) (r Ratio, ok bool) {
	for i := range min(len(own), len(peer)) {
		x := middle(peer[i]).Seconds() / middle(own[i]).Seconds()
		if !math.IsNaN(x) && !math.IsInf(x, 0) {
			r.Rounds = append(r.Rounds, harness.Digits(x))
		}
	}
	if len(r.Rounds) == 0 {
		return r, false
	}
	sorted := slices.Sorted(slices.Values(r.Rounds))
	r.Ratio = harness.Digits((sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2)
	r.Min, r.Max = sorted[0], sorted[len(sorted)-1]
	return r, true
}

// middle returns the median.
func middle(times []time.Duration) time.Duration {
	sorted := slices.Sorted(slices.Values(times))
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}

func ms(d time.Duration) float64 { return harness.Digits(float64(d) / float64(time.Millisecond)) }
