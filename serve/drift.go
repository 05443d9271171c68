package serve

import (
	"log/slog"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluice-rag/sluice/kernels/ref"
	"github.com/sluice-rag/sluice/rag/gate"
)

// drift compares the last scores that a base's gate has given with those of its calibration's own pseudo-queries: when
// users ask something else than the calibration was made for, its cut-off says little.
type drift struct {
	store  string
	log    *slog.Logger
	limits Drift

	mu        sync.Mutex
	given     *float64  // where the calibration's scores lie: another calibration begins anew
	reference []float64 // sorted
	last      []float64 // a ring
	seen      int
	statistic float64
	alarm     bool
}

// leastScores is how many scores say something about a distribution.
const leastScores = 20

// add takes scores in; reference are the calibration's.
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

// compare says when an alarm begins or ends; d.mu is held. It ends below nine tenths of the threshold, so that it does
// not come and go.
func (d *drift) compare() {
	d.statistic = ref.KolmogorovSmirnov(d.reference, slices.Sorted(slices.Values(d.last)))
	switch at := d.limits.Threshold; {
	case !d.alarm && d.statistic > at && len(d.last) == d.limits.Scores:
		d.alarm = true
		d.log.Warn("the gate's scores have moved away from the calibration's: calibrate again with questions as they "+
			"are "+
			"asked now", "store", d.store, "statistic", d.statistic, "threshold", at, "scores", len(d.last),
			"median", d.median(), "median of the calibration", d.reference[len(d.reference)/2])
	case d.alarm && d.statistic < .9*at:
		d.alarm = false
		d.log.Info("the gate's scores are like the calibration's again", "store", d.store, "statistic", d.statistic)
	}
}

func (d *drift) median() float64 { return slices.Sorted(slices.Values(d.last))[len(d.last)/2] }

// now is the statistic, whether it is an alarm, and of how many scores it is.
func (d *drift) now() (statistic float64, alarm bool, scores int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.statistic, d.alarm, len(d.last)
}

// watch has the decisions of a base counted and compared.
func (m *metrics) watch(b *base) *prometheus.Registry {
	d := &drift{store: b.Name, log: m.s.log, limits: m.s.cfg.Drift}
	decisions := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "sluice_gate_decisions_total",
		Help: "Decisions of the gate."}, []string{"store", "decision"})
	share := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "sluice_gate_stale_ratio",
		Help: "Share of a base's contexts that its calibration has not seen, at the last decision."}, []string{"store"})
	open, closed := decisions.WithLabelValues(b.Name, "open"), decisions.WithLabelValues(b.Name, "closed")
	stale := share.WithLabelValues(b.Name)
	b.Decisions().Watch(func(g *gate.Gate, all []gate.Decision) {
		if m.s.warming.Load() { // that question is nobody's
			return
		}
		scores := make([]float64, len(all))
		for i := range all {
			scores[i] = all[i].Score
			if all[i].Retrieve {
				open.Inc()
			} else {
				closed.Inc()
			}
		}
		stale.Set(g.Stale())
		d.add(g.Reference(), scores...)
	})
	all := prometheus.NewRegistry()
	all.MustRegister(decisions, share, collected(d.send))
	return all
}

// send says how far the scores have moved.
func (d *drift) send(out sink) {
	statistic, alarm, n := d.now()
	out.gauge("sluice_gate_drift_statistic",
		"Kolmogorov-Smirnov statistic of the gate's last scores and the calibration's, 0 to 1.", statistic, "store",
		d.store)
	out.gauge("sluice_gate_drift_alarm", "1 while the statistic is above serve.drift_threshold.", number(alarm),
		"store", d.store)
	out.gauge("sluice_gate_drift_scores", "Scores that it is computed from.", float64(n), "store", d.store)
}
