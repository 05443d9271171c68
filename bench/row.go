package bench

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/sluice-rag/sluice/bench/harness"
)

// Row is the result of one competitor. Mode is the kind of its results: exact (the statistic or decision
// itself: for Sluice bit-equal to the naive algorithm on canonical scores, for peers in the library's own
// arithmetic), interval (a quantile within [low, high]) or bounded (a score within a rounding error).
type Row struct {
	Workload  string    `json:"workload"`
	Shape     string    `json:"shape"`
	Impl      string    `json:"impl"`
	ISA       string    `json:"isa"` // "" for peers
	DType     string    `json:"dtype"`
	Mode      string    `json:"mode"`
	Threads   int       `json:"threads"`
	MedianMS  float64   `json:"median_ms"`
	MinMS     float64   `json:"min_ms"`
	RoundsMS  []float64 `json:"rounds_ms,omitempty"` // the mean time of each round
	PairsPerS float64   `json:"pairs_per_s"`         // by the median
	LimitPct  float64   `json:"limit_pct"`           // what the machine needs at least, in percent of the median
	MaxError  float64   `json:"max_error"`           // against canonical scores; in the workload's unit
	MemLimit  int64     `json:"mem_limit,omitempty"` // bytes of working memory, in the workload "memory"
	Choice    string    `json:"choice,omitempty"`    // device, kernels and way that Sluice's engine chose, and why
}

// Ratio compares one of Sluice's rows with the fastest peer of the same benchmark whose results are as good.
type Ratio struct {
	Workload     string  `json:"workload"`
	Shape        string  `json:"shape"`
	Impl         string  `json:"impl"`
	ISA          string  `json:"isa"`
	DType        string  `json:"dtype"`
	Mode         string  `json:"mode"`
	MedianMS     float64 `json:"median_ms"`
	Peer         string  `json:"peer"`
	PeerMedianMS float64 `json:"peer_median_ms"`
	Ratio        float64 `json:"ratio"`        // of the medians: above 1, Sluice is faster
	RatioOfMin   float64 `json:"ratio_of_min"` // of the best times, which a busy machine disturbs less
	Lowest       float64 `json:"lowest"`       // of the mean times of a round, in which both ran one after the other
	Highest      float64 `json:"highest"`
}

// label distinguishes rows of one implementation.
func (r Row) label() string {
	return strings.Join(strings.Fields(strings.Join([]string{r.Impl, r.ISA, r.DType, r.Mode}, " ")), " ")
}

// Own is the name of Sluice's rows.
const Own = harness.Own

// accuracyFactor is the largest ratio of errors that count as equal: errors of the same number format differ by a small
// factor, errors of a coarser one by far more.
const accuracyFactor = 4

// ratios compares every row of Sluice with the fastest peer of its benchmark that is at least as accurate: its error is
// within tolerance (the workload's requirement) or not much above the row's. A row that is less accurate than all peers
// is not compared.
func ratios(rows []Row, tolerance float64) (out []Ratio) {
	asAccurate := func(x, other float64) bool { return x <= max(tolerance, accuracyFactor*other) }
	for _, r := range rows {
		if r.Impl != Own {
			continue
		}
		var peers []Row
		equal := false
		for _, p := range rows {
			if p.Impl != Own && asAccurate(p.MaxError, r.MaxError) {
				peers, equal = append(peers, p), equal || asAccurate(r.MaxError, p.MaxError)
			}
		}
		if !equal {
			continue
		}
		p := slices.MinFunc(peers, func(a, b Row) int { return cmp.Compare(a.MedianMS, b.MedianMS) })
		ratio := Ratio{
			Workload: r.Workload, Shape: r.Shape, Impl: r.Impl, ISA: r.ISA, DType: r.DType, Mode: r.Mode,
			MedianMS: r.MedianMS,
			Peer:     p.Impl, PeerMedianMS: p.MedianMS, Ratio: harness.Digits(p.MedianMS / r.MedianMS),
			RatioOfMin: harness.Digits(p.MinMS / r.MinMS),
		}
		var of []float64
		for i, x := range r.RoundsMS[:min(len(r.RoundsMS), len(p.RoundsMS))] { // slow competitors have fewer
			of = append(of, harness.Digits(p.RoundsMS[i]/x))
		}
		if len(of) > 0 {
			ratio.Lowest, ratio.Highest = slices.Min(of), slices.Max(of)
		}
		out = append(out, ratio)
	}
	return out
}

// timed fills in what follows from the times of a competitor in each round; pairs and limit belong to one run.
func (r *Row) timed(rounds [][]time.Duration, pairs float64, limit time.Duration) {
	sorted := slices.Sorted(slices.Values(slices.Concat(rounds...)))
	median := (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
	median = max(median, 1)
	r.MedianMS, r.MinMS = ms(median), ms(sorted[0])
	for _, times := range rounds {
		sum := time.Duration(0)
		for _, d := range times {
			sum += d
		}
		r.RoundsMS = append(r.RoundsMS, ms(max(sum/time.Duration(max(len(times), 1)), 1)))
	}
	r.PairsPerS = math.Round(harness.Digits(pairs / median.Seconds()))
	r.LimitPct = harness.Digits(100 * limit.Seconds() / median.Seconds())
}

func ms(d time.Duration) float64 { return harness.Digits(float64(d) / float64(time.Millisecond)) }
