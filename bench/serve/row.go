package serve

import (
	"slices"
	"time"

	"github.com/sluice-rag/sluice/bench/harness"
)

// Row is the result of one competitor in one workload.
type Row struct {
	Workload    string  `json:"workload"`
	Impl        string  `json:"impl"`
	Connections int     `json:"connections"`
	Rate        float64 `json:"rate"`   // median of the rounds, in Unit
	Unit        string  `json:"unit"`   // "queries/s", "texts/s" or "tokens/s"
	P50MS       float64 `json:"p50_ms"` // of all rounds; of a request, for generate of its first token
	P99MS       float64 `json:"p99_ms"`
	CPUMS       float64 `json:"cpu_ms"`  // of the server, for each query, text or token
	RSSMiB      float64 `json:"rss_mib"` // of the server, at the end
	Rounds      int     `json:"rounds"`
	Samples     int     `json:"samples"`
	// The server's times of a query's steps, medians.
	EmbedMS    float64 `json:"embed_ms,omitempty"`
	DecisionMS float64 `json:"decision_ms,omitempty"`
}

// Ratio compares Sluice's rate with another one, round by round: above 1, Sluice is faster.
type Ratio struct {
	Workload    string    `json:"workload"`
	Connections int       `json:"connections"`
	Peer        string    `json:"peer"`
	Ratio       float64   `json:"ratio"` // median of Rounds
	Min         float64   `json:"min"`
	Max         float64   `json:"max"`
	Rounds      []float64 `json:"rounds"`
	P99         float64   `json:"p99"` // the peer's ÷ Sluice's
	CPU         float64   `json:"cpu"` // the peer's CPU time ÷ Sluice's
}

// measured is a competitor's measurement in a workload.
type measured struct {
	name, unit  string
	connections int
	rates       []float64
	latencies   []time.Duration
	cpu         time.Duration
	units       float64 // queries, texts or tokens of all rounds
	rss         int64
	times       map[string][]float64 // of steps, as the server reports them
}

// add takes a round in: r, of which units were computed (0: one for each request).
func (m *measured) add(r *result, units float64) {
	if units == 0 {
		units = float64(len(r.latencies))
	}
	m.rates = append(m.rates, units/r.wall.Seconds())
	m.latencies, m.cpu, m.units = append(m.latencies, r.latencies...), m.cpu+r.cpu, m.units+units
}

func median(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(v))
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}

func (m *measured) row(workload string) Row {
	slices.Sort(m.latencies)
	all := result{latencies: m.latencies}
	return Row{Workload: workload, Impl: m.name, Connections: m.connections, Rate: harness.Digits(median(m.rates)),
		Unit: m.unit, P50MS: harness.Digits(all.percentile(.5)), P99MS: harness.Digits(all.percentile(.99)),
		CPUMS:  harness.Digits(float64(m.cpu.Microseconds()) / 1000 / max(m.units, 1)),
		RSSMiB: harness.Digits(float64(m.rss) / (1 << 20)), Rounds: len(m.rates), Samples: len(m.latencies),
		EmbedMS: harness.Digits(median(m.times["embed"])), DecisionMS: harness.Digits(median(m.times["decision"]))}
}

// against compares two that have run in turns.
func (m *measured) against(p *measured, workload string) Ratio {
	x := Ratio{Workload: workload, Connections: m.connections, Peer: p.name}
	for i := range min(len(m.rates), len(p.rates)) {
		if p.rates[i] > 0 {
			x.Rounds = append(x.Rounds, harness.Digits(m.rates[i]/p.rates[i]))
		}
	}
	if len(x.Rounds) > 0 {
		x.Ratio, x.Min, x.Max = harness.Digits(median(x.Rounds)), slices.Min(x.Rounds), slices.Max(x.Rounds)
	}
	own, other := m.row(workload), p.row(workload)
	if own.P99MS > 0 {
		x.P99 = harness.Digits(other.P99MS / own.P99MS)
	}
	if own.CPUMS > 0 {
		x.CPU = harness.Digits(other.CPUMS / own.CPUMS)
	}
	return x
}
