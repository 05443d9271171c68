package serve

import (
	"context"
	"log/slog"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluice-rag/sluice/kernels/ref"
	"github.com/sluice-rag/sluice/rag/gate"
)

// drift compares the latest gate scores of a base with the scores of its calibration's pseudo-queries: if users'
// questions differ from these, the calibration's threshold is not reliable. Of a shared store it compares the scores of
// all servers.
type drift struct {
	store  string
	log    *slog.Logger
	limits Drift

	mu        sync.Mutex
	given     *float64  // address of the calibration's scores: another calibration resets the comparison
	reference []float64 // sorted
	last      []float64 // a ring buffer
	seen      int
	statistic float64
	alarm     bool
}

// leastScores is the least number of scores that are compared.
const leastScores = 20

// add adds scores; reference has the calibration's scores.
func (d *drift) add(reference []float64, scores ...float64) {
	if len(reference) == 0 {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if &reference[0] != d.given {
		d.given, d.reference = &reference[0], slices.Sorted(slices.Values(reference))
		d.last, d.seen, d.statistic = nil, 0, 0
	}
	every := max(d.limits.Scores/10, 1)
	for _, x := range scores {
		if len(d.last) < d.limits.Scores {
			d.last = append(d.last, x)
		} else {
			d.last[d.seen%len(d.last)] = x
		}
		if d.seen++; d.seen%every == 0 && d.seen >= min(leastScores, d.limits.Scores) {
			d.compare()
		}
	}
}

// compare logs the beginning and the end of an alarm; d.mu is held. An alarm ends below nine tenths of the threshold,
// so that it does not flap.
func (d *drift) compare() {
	last := slices.Sorted(slices.Values(d.last))
	d.statistic = ref.KolmogorovSmirnov(d.reference, last)
	switch at := d.limits.Threshold; {
	case !d.alarm && d.statistic > at && len(d.last) == d.limits.Scores:
		d.alarm = true
		d.log.Warn("the gate's scores have moved away from the calibration's: calibrate again with questions as they "+
			"are asked now", "store", d.store, "statistic", d.statistic, "threshold", at, "scores", len(d.last),
			"median", last[len(last)/2], "median of the calibration", d.reference[len(d.reference)/2])
	case d.alarm && d.statistic < .9*at:
		d.alarm = false
		d.log.Info("the gate's scores are like the calibration's again", "store", d.store, "statistic", d.statistic)
	}
}

// now returns the statistic, whether there is an alarm, and the number of scores.
func (d *drift) now() (statistic float64, alarm bool, scores int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.statistic, d.alarm, len(d.last)
}

// watch counts and compares the decisions of a base.
func (m *metrics) watch(b *base) *prometheus.Registry {
	d := &drift{store: b.Name, log: m.s.log, limits: m.s.cfg.Drift}
	x := &exchangeTest{store: b.Name, log: m.s.log, delta: m.s.cfg.Drift.Delta}
	decisions := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "sluice_gate_decisions_total",
		Help: "Decisions of the gate."}, []string{"store", "decision"})
	share := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "sluice_gate_stale_ratio",
		Help: "Share of a base's contexts that its calibration has not seen, at the last decision."}, []string{"store"})
	open, closed := decisions.WithLabelValues(b.Name, "open"), decisions.WithLabelValues(b.Name, "closed")
	stale := share.WithLabelValues(b.Name)
	compare := func(g *gate.Gate, scores []float64, opens []bool) {
		var opened []float64
		for i, score := range scores {
			if opens[i] {
				opened = append(opened, score)
			}
		}
		d.add(g.Reference(), scores...)
		x.add(g.Reference(), g.OpenReference, opened...)
	}
	common := b.Decisions().Scores()
	if common != nil {
		b.compare = func(ctx context.Context) { common.Follow(ctx, compare) }
	}
	b.Decisions().Watch(func(g *gate.Gate, all []gate.Decision) {
		if m.s.warming.Load() { // a question of the warm-up
			return
		}
		scores, opens := make([]float64, len(all)), make([]bool, len(all))
		for i := range all {
			scores[i], opens[i] = all[i].Score, all[i].Retrieve
			if opens[i] {
				open.Inc()
			} else {
				closed.Inc()
			}
		}
		stale.Set(g.Stale())
		if common != nil {
			common.Add(g, all)
		} else {
			compare(g, scores, opens)
		}
	})
	all := prometheus.NewRegistry()
	all.MustRegister(decisions, share, collected(d.send), collected(x.send), collected(b.shared))
	return all
}

// shared exports how a base stands with the database that keeps it.
func (b *base) shared(out sink) {
	if s, ok := b.Store().Shared(); ok {
		out.gauge("sluice_store_database_up", "1 while the database of a shared store is followed.",
			number(s.Away == nil), "store", b.Name)
		out.counter("sluice_store_dropped_lines_total", "Decisions and scores that the database of a shared store did "+
			"not take in time.", float64(s.Dropped), "store", b.Name)
		out.gauge("sluice_store_generation", "Changes of a shared store that this server has.", float64(s.Generation),
			"store", b.Name)
	}
}

// send exports how far the scores have drifted.
func (d *drift) send(out sink) {
	statistic, alarm, n := d.now()
	out.gauge("sluice_gate_drift_statistic",
		"Kolmogorov-Smirnov statistic of the gate's last scores and the calibration's, 0 to 1.", statistic, "store",
		d.store)
	out.gauge("sluice_gate_drift_alarm", "1 while the statistic is above serve.drift_threshold.", number(alarm),
		"store", d.store)
	out.gauge("sluice_gate_drift_scores", "Scores that it is computed from.", float64(n), "store", d.store)
}

// exchangeTest tests whether the questions that open the gate of a base are exchangeable with those of its calibration
// that do (gate.Martingale). It begins anew with another calibration, and after mostTested questions.
type exchangeTest struct {
	store string
	log   *slog.Logger
	delta float64 // of calibrations whose questions change nothing, at most this share raises an alarm; 0: no test

	mu    sync.Mutex
	given *float64 // address of the calibration's scores
	test  *gate.Martingale
	at    int // questions when the alarm came; 0: no alarm
}

// mostTested bounds the memory of a test and the time of a question in it.
const mostTested = 1 << 16

// ties seeds how ties are broken: the servers of a shared store compute the same of the same scores.
const ties = 1

// add takes the scores of questions that have opened the gate; all are the calibration's scores, by which another one
// is known, and open returns those of them that open the gate.
func (x *exchangeTest) add(all []float64, open func() []float64, scores ...float64) {
	if x.delta == 0 || len(all) == 0 {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, score := range scores {
		if &all[0] != x.given || x.test.Questions() == mostTested {
			reference := open()
			x.given, x.test, x.at = &all[0], gate.NewMartingale(reference, ties), 0
			x.log.Info("the test begins whether questions are like the calibration's", "store", x.store, "questions",
				len(reference))
		}
		if x.test.Add(score); x.at == 0 && x.test.Alarms(x.delta) {
			x.at = x.test.Questions()
			x.log.Warn("the questions that come in are not like the calibration's, so that what it promises does not "+
				"hold: calibrate again with questions as they are asked now", "store", x.store, "questions", x.at,
				"chance", x.delta)
		}
	}
}

// send exports how far the test has come.
func (x *exchangeTest) send(out sink) {
	x.mu.Lock()
	value, n, alarm := 0., 0, x.at > 0
	if x.test != nil {
		value, n = x.test.Log10(), x.test.Questions()
	}
	x.mu.Unlock()
	out.gauge("sluice_gate_martingale_log10", "Decimal logarithm of the martingale against the hypothesis that the "+
		"questions that open the gate are exchangeable with the calibration's.", value, "store", x.store)
	out.gauge("sluice_gate_martingale_alarm", "1 from when the martingale has reached 1/serve.drift_delta, until "+
		"another calibration is in force.", number(alarm), "store", x.store)
	out.gauge("sluice_gate_martingale_questions", "Questions since the test began.", float64(n), "store", x.store)
}
