package gate

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/rag/postings"
)

// The names of policies that stand for a policy and a score together.
const (
	// Auto is DefaultPolicy with the score that tells the calibration's own questions best from those of other topics.
	Auto = "auto"
	// Paper is the rule of the authors: "95 % density" of D+, compared with the similarity alone.
	Paper       = "paper"
	paperPolicy = "density:95"
)

// coverSuffix of a score's name: the similarity plus a weight times the cover, the share of the query's words, weighted
// by IDF, that the context has (postings.Cover).
const coverSuffix = "+cover"

// Score is what the gate compares with the cut-off: of a query, the best over the contexts.
type Score struct {
	Metric kernels.Metric
	Cover  bool
	Weight float64 // of the cover; 0: the calibration chooses it
}

// Name is "cosine", or "cosine+cover", as artifacts keep it.
func (s Score) Name() string {
	if s.Cover {
		return s.Metric.String() + coverSuffix
	}
	return s.Metric.String()
}

// ParseScore reads the metric's name ("cosine"), "cosine+cover", or "cosine+cover:WEIGHT".
func ParseScore(s string, m kernels.Metric) (Score, error) {
	score := Score{Metric: m}
	name, weight, weighed := strings.Cut(s, ":")
	if name, score.Cover = strings.CutSuffix(name, coverSuffix); name != m.String() || weighed && !score.Cover {
		return score, fmt.Errorf("%w: score %q (known for this store: auto, %s, %s%s, %s%s:WEIGHT)", ErrPolicy, s, m, m,
			coverSuffix, m, coverSuffix)
	}
	if score.Cover && m != kernels.Cosine {
		return score,
			fmt.Errorf("%w: score %q: words are weighed beside cosines only, the store compares by %s", ErrPolicy,
				s, m)
	}
	if weighed {
		w, err := strconv.ParseFloat(weight, 64)
		if err != nil || !(w > 0 && w <= maxCoverWeight) {
			return score,
				fmt.Errorf("%w: score %q: the weight must be above 0 and at most %d", ErrPolicy, s, maxCoverWeight)
		}
		score.Weight = w
	}
	return score, nil
}

const maxCoverWeight = 100

// resolve turns what was asked for into a policy and a score; a score of nil is to be chosen. Who names a policy means
// a statistic of similarities, as long as he names no score.
func resolve(policy, score string, m kernels.Metric) (p Policy, s *Score, err error) {
	switch policy {
	case "", Auto:
		policy = DefaultPolicy(m)
		if score == "" {
			score = Auto
		}
	case Paper:
		policy = paperPolicy
	}
	if p, err = ParsePolicy(policy); err != nil {
		return p, nil, err
	}
	if score == Auto {
		return p, nil, nil
	}
	if score == "" {
		score = m.String()
	}
	parsed, err := ParseScore(score, m)
	return p, &parsed, err
}

// CheckPolicy finds out whether Calibrate would take a policy and a score, for a store of that metric.
func CheckPolicy(policy, score string, m kernels.Metric) error {
	_, _, err := resolve(policy, score, m)
	return err
}

// ScoredBy is what the gate compares with its cut-off.
func (g *Gate) ScoredBy() Score { return g.c.scored() }

// scored is the score in force.
func (c *Calibration) scored() Score {
	if c.Cover != nil && c.Score == (Score{Metric: c.Metric, Cover: true}).Name() {
		return Score{Metric: c.Metric, Cover: true, Weight: c.Cover.Weight}
	}
	return Score{Metric: c.Metric}
}

// Reference is what scores of queries are compared with to see whether these have changed: the best score of each of
// the calibration's own pseudo-queries over all contexts, by the score in force; nil if it was not kept. It must not
// be changed.
func (g *Gate) Reference() []float64 { return g.c.lists().maximum }

// lists are the distributions of the score in force.
func (c *Calibration) lists() *scores {
	if c.scored().Cover {
		return &c.Cover.scores
	}
	return &c.scores
}

// tables are their statistics.
func (c *Calibration) tables() (positive, maximum *Stats, other *Stats) {
	if c.scored().Cover {
		return &c.Cover.Positive, &c.Cover.Maximum, c.Cover.MaximumOther
	}
	return &c.Positive, &c.Maximum, c.MaximumOther
}

// Bias is what the words of a query add to the contexts' similarities: nil where the gate goes by similarity alone. x
// is the index of the contexts.
func (g *Gate) Bias(x *postings.Index, query string) (kernels.Biases, error) {
	s := g.ScoredBy()
	if !s.Cover {
		return nil, nil
	}
	return coverOf(x, query, s.Weight)
}

func coverOf(x *postings.Index, query string, weight float64) (*postings.Biases, error) {
	q, err := x.Query(query, postings.Scoring{Kind: postings.Cover})
	if err != nil {
		return nil, fmt.Errorf("gate: %w", err)
	}
	return q.Biases(weight), nil
}
