package generate

import (
	"math"
	"slices"

	"github.com/sluice-rag/sluice/bench/harness"
)

// What is measured, in the unit of the same place in units.
const (
	Rate       = "rate"        // tokens a second of all requests together
	FirstToken = "first_token" // from a request to its first text
	Latency    = "latency"     // from a request to its end
	Resident   = "rss"         // VmRSS of the competitor's process after a batch
	Prompt     = "prompt"      // tokens of a batch's prompts
	Reused     = "reused"      // of these, found in a cache
)

func unit(metric string) string {
	switch metric {
	case Rate:
		return "tokens/s"
	case FirstToken, Latency:
		return "ms"
	case Resident:
		return "MiB"
	}
	return "tokens"
}

// Row is one metric of one competitor: over its rounds, for times over the requests of all rounds.
type Row struct {
	Workload    string  `json:"workload"`
	Concurrency int     `json:"concurrency"`
	Impl        string  `json:"impl"`
	Threads     int     `json:"threads"`
	Metric      string  `json:"metric"`
	Unit        string  `json:"unit"`
	Median      float64 `json:"median"`
	Min         float64 `json:"min"`
	Max         float64 `json:"max"`
	P95         float64 `json:"p95,omitempty"` // of times
	Samples     int     `json:"samples"`
}

// Ratio compares Sluice with a peer, round by round: above 1, Sluice is better (more tokens a second, less
// time, less memory). Of times, a round's value is the median of its requests.
type Ratio struct {
	Workload    string    `json:"workload"`
	Concurrency int       `json:"concurrency"`
	Metric      string    `json:"metric"`
	Peer        string    `json:"peer"`
	Ratio       float64   `json:"ratio"` // median of Rounds
	Min         float64   `json:"min"`
	Max         float64   `json:"max"`
	Rounds      []float64 `json:"rounds"`
	// SameTexts is the share of answers that are equal to the peer's, with the rate of a workload that compares them.
	SameTexts *float64 `json:"same_texts,omitempty"`
}

// series are the values of one metric of one competitor.
type series struct {
	impl, metric string
	rounds, all  []float64
}

// measurements collects the values of the competitors of one workload.
type measurements struct {
	workload    string
	concurrency int
	list        []*series
	same, texts map[string]int // answers by peer: equal to Sluice's, and all
}

func newMeasurements(workload string, concurrency int) *measurements {
	return &measurements{workload: workload, concurrency: concurrency, same: map[string]int{}, texts: map[string]int{}}
}

// add takes the values of one round.
func (m *measurements) add(impl, metric string, values ...float64) {
	i := slices.IndexFunc(m.list, func(s *series) bool { return s.impl == impl && s.metric == metric })
	if i < 0 {
		i = len(m.list)
		m.list = append(m.list, &series{impl: impl, metric: metric})
	}
	s := m.list[i]
	s.rounds, s.all = append(s.rounds, quantile(values, .5)), append(s.all, values...)
}

// compare counts the answers of a round that are equal.
func (m *measurements) compare(peer string, ours, theirs batchResult) {
	for i, c := range theirs.Completions {
		m.texts[peer]++
		if c.Text == ours.Completions[i].Text {
			m.same[peer]++
		}
	}
}

func (m *measurements) rows(threads int) (out []Row) {
	for _, s := range m.list {
		r := Row{
			Workload: m.workload, Concurrency: m.concurrency, Impl: s.impl, Threads: threads, Metric: s.metric,
			Unit:   unit(s.metric),
			Median: harness.Digits(quantile(s.all, .5)), Min: harness.Digits(slices.Min(s.all)),
			Max: harness.Digits(slices.Max(s.all)), Samples: len(s.all),
		}
		if s.metric == FirstToken || s.metric == Latency {
			r.P95 = harness.Digits(quantile(s.all, .95))
		}
		out = append(out, r)
	}
	return out
}

// ratios returns the ratios of the rounds that both ran: a peer that failed has fewer.
func (m *measurements) ratios() (out []Ratio) {
	for _, own := range m.list {
		if own.impl != Own || own.metric == Prompt || own.metric == Reused {
			continue
		}
		for _, peer := range m.list {
			if peer.impl == Own || peer.metric != own.metric {
				continue
			}
			r := Ratio{Workload: m.workload, Concurrency: m.concurrency, Metric: own.metric, Peer: peer.impl}
			for i := range min(len(own.rounds), len(peer.rounds)) {
				x := own.rounds[i] / peer.rounds[i]
				if own.metric != Rate {
					x = 1 / x
				}
				if math.IsNaN(x) || math.IsInf(x, 0) {
					continue // neither made a token
				}
				r.Rounds = append(r.Rounds, harness.Digits(x))
			}
			if len(r.Rounds) == 0 {
				continue
			}
			r.Ratio, r.Min, r.Max = harness.Digits(quantile(r.Rounds, .5)), slices.Min(r.Rounds), slices.Max(r.Rounds)
			if n := m.texts[peer.impl]; n > 0 && own.metric == Rate {
				share := harness.Digits(float64(m.same[peer.impl]) / float64(n))
				r.SameTexts = &share
			}
			out = append(out, r)
		}
	}
	return out
}

// quantile returns the type-7 quantile (Hyndman and Fan): of two values, the median is their mean.
func quantile(values []float64, p float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	at := p * float64(len(sorted)-1)
	low := int(at)
	if low+1 >= len(sorted) {
		return sorted[len(sorted)-1]
	}
	return sorted[low] + (at-float64(low))*(sorted[low+1]-sorted[low])
}

// publish reports the rows and ratios of measurements.
func (s *session) publish(m *measurements) {
	for _, r := range m.rows(s.o.Threads) {
		s.report.Rows = append(s.report.Rows, r)
		if s.o.Row != nil {
			s.o.Row(r)
		}
	}
	for _, r := range m.ratios() {
		s.report.Ratios = append(s.report.Ratios, r)
		if s.o.Ratio != nil {
			s.o.Ratio(r)
		}
	}
}
