package gate

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"slices"
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

// Kind names the scores that are compared beside the similarities of the contexts, or instead of them.
type Kind string

// The kinds of scores.
const (
	// Similarity is the best similarity over the contexts.
	Similarity Kind = ""
	// Cover is the best similarity plus a weight times the cover: the share of the query's words, weighted by IDF, that
	// the context has (postings.Cover).
	Cover Kind = "cover"
	// PseudoQuery is the best similarity over the calibration's pseudo-queries instead of the contexts (the further
	// work of Heydari et al.). A context without pseudo-queries is not found.
	PseudoQuery Kind = "pseudo-query"
)

// coverSuffix of a score's name, behind that of the metric.
const coverSuffix = "+cover"

// Score is the value that the gate compares with the cut-off: a query's best over the contexts.
type Score struct {
	Metric kernels.Metric
	Kind   Kind
	Weight float64 // of the cover; 0: the calibration chooses it
}

// Name is "cosine", "cosine+cover" or "pseudo-query", as artifacts keep it.
func (s Score) Name() string {
	switch s.Kind {
	case Similarity:
		return s.Metric.String()
	case Cover:
		return s.Metric.String() + coverSuffix
	}
	return string(s.Kind)
}

// Words reports whether the score goes by the query's words as well.
func (s Score) Words() bool { return s.Kind == Cover }

// ParseScore reads the metric's name ("cosine"), "cosine+cover", "cosine+cover:WEIGHT" or "pseudo-query".
func ParseScore(s string, m kernels.Metric) (Score, error) {
	score := Score{Metric: m}
	name, weight, weighed := strings.Cut(s, ":")
	switch {
	case name == m.String():
	case name == m.String()+coverSuffix:
		score.Kind = Cover
	case name == string(PseudoQuery):
		score.Kind = PseudoQuery
	default:
		weighed, score.Kind = true, PseudoQuery // unknown
	}
	if weighed && score.Kind != Cover {
		return Score{Metric: m}, fmt.Errorf("%w: score %q (known for this store: auto, %s, %s%s, %s%s:WEIGHT, %s)",
			ErrPolicy, s, m, m, coverSuffix, m, coverSuffix, PseudoQuery)
	}
	if score.Kind != Similarity && m != kernels.Cosine {
		return score, fmt.Errorf("%w: score %q: it is made of cosines, the store compares by %s", ErrPolicy, s, m)
	}
	if weighed {
		w, ok := parsePercent(weight) // as well up to maxCoverWeight
		if !ok || w == 0 {
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
		score = cmp.Or(score, Auto)
	case Paper:
		policy = paperPolicy
	}
	if p, err = ParsePolicy(policy); err != nil {
		return p, nil, err
	}
	switch {
	case p.promised != nil && (score == "" || score == Auto) && m == kernels.Cosine:
		return p, &Score{Metric: m, Kind: Cover, Weight: unmeasuredWeight}, nil
	case score == Auto && p.promised == nil:
		return p, nil, nil
	case score == "" || score == Auto:
		score = m.String()
	}
	parsed, err := ParseScore(score, m)
	if err == nil && p.promised != nil && !parsed.isFixed() {
		err = fmt.Errorf("%w: %s needs a score that is fixed before the questions are seen: %s, or %s%s:WEIGHT, given "+
			"%s", ErrPolicy, p.Name, m, m, coverSuffix, score)
	}
	return p, &parsed, err
}

// keptScore names the score in force, with its weight if the calibration's questions have not chosen that.
func (c *Calibration) keptScore() string {
	compared := 0
	for _, x := range c.Candidates {
		if x.Score == c.Score {
			compared++
		}
	}
	if s := c.ScoredBy(); s.Kind == Cover && compared < 2 {
		return fmt.Sprintf("%s:%s", c.Score, strconv.FormatFloat(s.Weight, 'f', -1, 64))
	}
	return c.Score
}

// CheckPolicy finds out whether Calibrate would take a policy and a score, for a store of that metric.
func CheckPolicy(policy, score string, m kernels.Metric) error {
	_, _, err := resolve(policy, score, m)
	return err
}

// ScoredBy returns the kind of score that the gate compares with its cut-off.
func (g *Gate) ScoredBy() Score { return g.c.ScoredBy() }

// ScoredBy returns the score in force.
func (c *Calibration) ScoredBy() Score {
	s := Score{Metric: c.Metric}
	for _, k := range c.kept() {
		if with := (Score{Metric: c.Metric, Kind: k.kind, Weight: k.Weight}); c.Score == with.Name() {
			s = with
		}
	}
	return s
}

// place is where the distributions of a kind of score are, if they were kept.
type place struct {
	kind Kind
	of   **Scored
}

// kinds returns the scores beside the similarity.
func (c *Calibration) kinds() []place {
	return []place{{Cover, &c.Cover}, {PseudoQuery, &c.PseudoQuery}}
}

type kept struct {
	*Scored
	kind Kind
	file string // what the names of its files begin with
}

// kept returns the scores beside the similarity whose distributions the calibration has.
func (c *Calibration) kept() (list []kept) {
	if c.Cover != nil {
		list = append(list, kept{c.Cover, Cover, "cover-"})
	}
	if c.PseudoQuery != nil {
		list = append(list, kept{c.PseudoQuery, PseudoQuery, "question-"})
	}
	return list
}

// Chosen returns the distributions of the score in force; nil where that is the similarity.
func (c *Calibration) Chosen() *Scored {
	s := c.ScoredBy()
	for _, k := range c.kept() {
		if s.Kind == k.kind {
			return k.Scored
		}
	}
	return nil
}

// Reference returns what scores of queries are compared with to see whether these have changed: the best score of each
// of the calibration's own pseudo-queries over all contexts, by the score in force; nil if it was not kept. It must not
// be changed.
func (g *Gate) Reference() []float64 { return g.c.lists().maximum }

// Mark is different for different calibrations: a digest of when the calibration was made, of its policy and of
// Reference.
func (g *Gate) Mark() string {
	h := sha256.New()
	fmt.Fprintln(h, g.c.Created.UnixNano(), g.c.Score, g.c.Policy, math.Float64bits(g.c.Cutoff))
	_ = binary.Write(h, binary.LittleEndian, g.Reference()) // a digest takes everything
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// lists returns the distributions of the score in force.
func (c *Calibration) lists() *scores {
	if s := c.Chosen(); s != nil {
		return &s.scores
	}
	return &c.scores
}

// tables are their statistics.
func (c *Calibration) tables() (positive, maximum *Stats, other *Stats) {
	if s := c.Chosen(); s != nil {
		return &s.Positive, &s.Maximum, s.MaximumOther
	}
	return &c.Positive, &c.Maximum, c.MaximumOther
}

// Bias returns what the words of a query add to the contexts' similarities: nil where the gate goes by similarity
// alone. x is the index of the contexts.
func (g *Gate) Bias(x *postings.Index, query string) (kernels.Biases, error) {
	s := g.ScoredBy()
	if s.Kind != Cover {
		return nil, nil
	}
	q, err := x.Query(query, postings.Scoring{Kind: postings.Cover})
	if err != nil {
		return nil, fmt.Errorf("gate: %w", err)
	}
	return q.Biases(s.Weight), nil
}

func coverOf(x *postings.Index, query string, weight float64) (*postings.Biases, error) {
	q, err := x.Query(query, postings.Scoring{Kind: postings.Cover})
	if err != nil {
		return nil, fmt.Errorf("gate: %w", err)
	}
	return q.Biases(weight), nil
}

// holds reports whether the calibration has the distributions of a score.
func (c *Calibration) holds(s Score) bool {
	return s.Kind == Similarity || slices.ContainsFunc(c.kept(), func(k kept) bool {
		return k.kind == s.Kind && (s.Weight == 0 || s.Weight == k.Weight)
	})
}

// check looks at the distributions of a kind of score.
func (s *Scored) check(kind Kind) error {
	switch {
	case s.Queries < 1 || kind == Cover && !(s.Weight > 0 && s.Weight <= maxCoverWeight):
		return fmt.Errorf("%s of weight %v over %d pseudo-queries", kind, s.Weight, s.Queries)
	case s.PositiveFile == "" || s.MaximumFile == "" || s.OwnerFile == "":
		return fmt.Errorf("%s without its score files", kind)
	}
	return nil
}
