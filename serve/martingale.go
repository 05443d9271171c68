package serve

import (
	"log/slog"
	"sync"

	"github.com/sluice-rag/sluice/rag/gate"
)

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
