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
	Resident   = "rss"         // VmRSS of the entrant's process after a turn
	Prompt     = "prompt"      // tokens of a turn's prompts
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

// Row is what one entrant reached: over its turns, for times over the requests of all turns.
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

// series are the values of one metric of one entrant.
type series struct {
	impl, metric string
	rounds, all  []float64
}

// board collects what the entrants of one race reach.
type board struct {
	workload    string
	concurrency int
	list        []*series
	same, texts map[string]int // answers by peer: equal to Sluice's, and all
}

func newBoard(workload string, concurrency int) *board {
	return &board{workload: workload, concurrency: concurrency, same: map[string]int{}, texts: map[string]int{}}
}

// add takes the values of one round.
func (b *board) add(impl, metric string, values ...float64) {
	i := slices.IndexFunc(b.list, func(s *series) bool { return s.impl == impl && s.metric == metric })
	if i < 0 {
		i = len(b.list)
		b.list = append(b.list, &series{impl: impl, metric: metric})
	}
	s := b.list[i]
	s.rounds, s.all = append(s.rounds, quantile(values, .5)), append(s.all, values...)
}

// compare counts the answers of a round that are equal.
func (b *board) compare(peer string, ours, theirs turn) {
	for i, c := range theirs.Done {
		b.texts[peer]++
		if c.Text == ours.Done[i].Text {
			b.same[peer]++
		}
	}
}

func (b *board) rows(threads int) (out []Row) {
	for _, s := range b.list {
		r := Row{
			Workload: b.workload, Concurrency: b.concurrency, Impl: s.impl, Threads: threads, Metric: s.metric, Unit: unit(s.metric),
			Median: harness.Digits(quantile(s.all, .5)), Min: harness.Digits(slices.Min(s.all)), Max: harness.Digits(slices.Max(s.all)), Samples: len(s.all),
		}
		if s.metric == FirstToken || s.metric == Latency {
			r.P95 = harness.Digits(quantile(s.all, .95))
		}
		out = append(out, r)
	}
	return out
}

// ratios are of the rounds that both went through: a peer that failed stopped there.
func (b *board) ratios() (out []Ratio) {
	for _, own := range b.list {
		if own.impl != Own || own.metric == Prompt || own.metric == Reused {
			continue
		}
		for _, peer := range b.list {
			if peer.impl == Own || peer.metric != own.metric {
				continue
			}
			r := Ratio{Workload: b.workload, Concurrency: b.concurrency, Metric: own.metric, Peer: peer.impl}
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
			if n := b.texts[peer.impl]; n > 0 && own.metric == Rate {
				share := harness.Digits(float64(b.same[peer.impl]) / float64(n))
				r.SameTexts = &share
			}
			out = append(out, r)
		}
	}
	return out
}

// quantile is the type-7 quantile (Hyndman and Fan): of two values, the median is their mean.
func quantile(values []float64, p float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	at := p * float64(len(sorted)-1)
	low := int(at)
	if low+1 >= len(sorted) {
		return sorted[len(sorted)-1]
	}
	return sorted[low] + (at-float64(low))*(sorted[low+1]-sorted[low])
}

// publish reports what is on a board.
func (s *session) publish(b *board) {
	for _, r := range b.rows(s.o.Threads) {
		s.report.Rows = append(s.report.Rows, r)
		if s.o.Row != nil {
			s.o.Row(r)
		}
	}
	for _, r := range b.ratios() {
		s.report.Ratios = append(s.report.Ratios, r)
		if s.o.Ratio != nil {
			s.o.Ratio(r)
		}
	}
}
