package gate

import (
	"math"
	"math/rand/v2"
	"slices"
	"sort"
)

// Martingale tests whether the questions that come in are exchangeable with a reference, after each of them: while they
// are, its value exceeds 1/δ at any time with a probability of at most δ (Ville's inequality). Each question gets a
// smoothed conformal p-value among the reference and the questions before it, and joins them; on the p-values, which
// are independent and uniform as long as nothing changes, the simple jumper bets (Vovk et al., Conformal testing in a
// nutshell, 2021). It is not safe for concurrent use.
type Martingale struct {
	known   []float64  // ascending
	capital [3]float64 // of the bets on low p-values, on none, and on high ones; their sum is 1
	log     float64    // natural logarithm of the value
	n       int        // questions
	random  *rand.Rand
}

// jump is the share of the capital that is spread anew over the bets before each question.
const jump = .01

// NewMartingale begins a test against a reference. The seed breaks ties.
func NewMartingale(reference []float64, seed uint64) *Martingale {
	return &Martingale{known: sorted(reference), capital: [3]float64{1. / 3, 1. / 3, 1. / 3},
		random: rand.New(rand.NewPCG(seed, streamMartingale))}
}

// Add takes the score of the next question. It returns the conformal p-value.
func (m *Martingale) Add(score float64) (p float64) {
	below := sort.SearchFloat64s(m.known, score)
	to := below + sort.Search(len(m.known)-below, func(i int) bool { return m.known[below+i] > score })
	p = (float64(below) + m.random.Float64()*float64(to-below+1)) / float64(len(m.known)+1)
	m.known = slices.Insert(m.known, to, score)
	m.n++
	sum := 0.
	for i := range m.capital {
		m.capital[i] = (1-jump)*m.capital[i] + jump/3
		m.capital[i] *= 1 + float64(i-1)*(p-.5)
		sum += m.capital[i]
	}
	for i := range m.capital {
		m.capital[i] /= sum
	}
	m.log += math.Log(sum)
	return p
}

// Log10 returns the decimal logarithm of the value: how many digits the evidence against exchangeability has.
func (m *Martingale) Log10() float64 { return m.log / math.Ln10 }

// Questions returns how many were added.
func (m *Martingale) Questions() int { return m.n }

// Alarms reports whether the value has reached 1/delta now.
func (m *Martingale) Alarms(delta float64) bool { return m.log >= -math.Log(delta) }

// OpenReference returns the scores of the calibration's questions that open the gate, one of each context: what scores
// of questions that have opened it are compared with.
func (g *Gate) OpenReference() (open []float64) {
	if g.Router() == "" {
		for _, s := range g.own {
			if g.c.Metric.Better(s, g.c.Cutoff) {
				open = append(open, s)
			}
		}
		return open
	}
	lists, seed := g.c.lists(), g.c.Bootstrap.Seed
	of := oneEach(lists.domain, lists.owner, seed)
	for i, s := range oneEach(lists.maximum, lists.owner, seed) {
		cut := g.c.Cutoff
		if x := g.c.Domains.find(g.c.Domains.Names[of[i]]); x != nil {
			cut = x.Cutoff
		}
		if g.c.Metric.Better(s, cut) {
			open = append(open, s)
		}
	}
	return open
}
