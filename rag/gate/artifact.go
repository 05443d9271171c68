package gate

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/sluice-rag/sluice/embed/identity"
	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/internal/durable"
	"github.com/sluice-rag/sluice/kernels"
)

// Schema is the version of the artifact format. Load reads no other version.
const Schema = 5

// maxArtifact bounds what Load reads of the JSON file; eight bytes per context fill most of it.
const maxArtifact = 256 << 20

// Stats is the table of one distribution; quantiles are type 7 (Hyndman & Fan 1996; NumPy's default).
type Stats struct {
	N      int64   `json:"n"`
	Min    float64 `json:"min"`
	P5     float64 `json:"p5"`
	Q1     float64 `json:"q1"`
	Mean   float64 `json:"mean"`
	Median float64 `json:"median"`
	Q3     float64 `json:"q3"`
	P95    float64 `json:"p95"`
	Max    float64 `json:"max"`
}

// Corpus describes the set of calibrated contexts.
type Corpus struct {
	Digest   string `json:"digest"`
	Contexts int    `json:"contexts"`
	Groups   int    `json:"groups"`
	Topics   bool   `json:"topics,omitempty"` // groups are topics, not documents
}

// Provenance says where the pseudo-queries came from.
type Provenance struct {
	Kind        string         `json:"kind"` // "generated", "extracted" or "file"
	Source      string         `json:"source,omitempty"`
	SHA256      string         `json:"sha256,omitempty"`
	Model       string         `json:"model,omitempty"`
	ModelSHA256 string         `json:"model_sha256,omitempty"`
	PerContext  int            `json:"per_context"`
	Sampled     int            `json:"sampled_contexts"`
	Sample      int            `json:"sample,omitempty"` // limit of contexts with pseudo-queries; 0: all
	Ended       string         `json:"ended,omitempty"`  // why sampling stopped, if the sample size was automatic
	Queries     int            `json:"queries"`
	Rejected    map[string]int `json:"rejected,omitempty"` // reason → count
	Seed        uint64         `json:"seed"`
}

// General describes the general questions, which are unrelated to the contexts.
type General struct {
	Language  string `json:"language"`             // ISO 639-1
	Name      string `json:"name"`                 // of the language, in English
	InsteadOf string `json:"instead_of,omitempty"` // language of most contexts, if it has no general questions
}

// Words describes the general questions. Questions are English if the artifact names no language.
func (g *General) Words() string {
	switch {
	case g == nil || g.Language == "en" && g.InsteadOf == "":
		return "general questions"
	case g.InsteadOf == "":
		return "general questions in " + g.Name
	}
	return fmt.Sprintf("general questions in %s (there are none in %s)", g.Name, g.InsteadOf)
}

// Interval is a bootstrap confidence interval of the policy value P (percentile method, resampled by context because
// the queries of one context are not independent). Resamples is 0 if no interval was computed. Seed also seeds the
// hold-out split.
type Interval struct {
	Level     float64 `json:"level"`
	Low       float64 `json:"low"`
	High      float64 `json:"high"`
	LowOpen   bool    `json:"low_open,omitempty"`  // too few contexts: P may be below Low
	HighOpen  bool    `json:"high_open,omitempty"` // too few contexts: P may be above High
	Resamples int     `json:"resamples"`
	Seed      uint64  `json:"seed"`
}

// Holdout reports the gate on pseudo-queries whose contexts were left out when P was computed.
// In scope: the query against all contexts. Out of scope (estimate): against contexts of other
// groups only, as if its own topic were not in the base; absent with a single group.
type Holdout struct {
	Share      float64 `json:"share"`
	Cutoff     float64 `json:"cutoff"` // computed without the held-out part
	InScope    int     `json:"in_scope"`
	Retrieved  int     `json:"retrieved"`   // of InScope: gate open (right)
	FalseSkips int     `json:"false_skips"` // of InScope: gate closed (wrong)
	// Contexts are the contexts that were held out, and ContextsSkipped those of them about which one question, drawn
	// at random, finds the gate closed.
	Contexts        int      `json:"contexts"`
	ContextsSkipped int      `json:"contexts_skipped"`
	OutOfScope      int      `json:"out_of_scope"`
	FalseRetrieve   int      `json:"false_retrieve"` // of OutOfScope: gate open (wrong)
	AUROC           *float64 `json:"auroc,omitempty"`
	// Alternatives lists the results of other policies with the same T on the same split.
	Alternatives []Alternative `json:"alternatives,omitempty"`
}

// Alternative is a line of the hold-out report's comparison of policies.
type Alternative struct {
	Policy        string  `json:"policy"`
	Cutoff        float64 `json:"cutoff"`
	Retrieved     int     `json:"retrieved"`
	FalseRetrieve int     `json:"false_retrieve"`
}

// Calibration is the artifact (*.cal.json). The complete distributions are stored beside it as .npy files.
type Calibration struct {
	Schema    int              `json:"schema"`
	Created   time.Time        `json:"created"`
	Tool      string           `json:"tool"`
	Encoder   identity.Encoder `json:"encoder"`
	Corpus    Corpus           `json:"corpus"`
	Queries   Provenance       `json:"queries"`
	Metric    kernels.Metric   `json:"metric"`
	Negatives string           `json:"negatives"`
	Positive  Stats            `json:"positive"`
	Negative  Stats            `json:"negative"` // N is 0 if there is no foreign context
	Maximum   Stats            `json:"maximum"`
	// over the contexts of other groups; absent with a single group
	MaximumOther *Stats  `json:"maximum_other,omitempty"`
	Separation   float64 `json:"separation,omitempty"` // P(D+ > D−), for l2 P(D+ < D−); absent when D− is empty
	// Score is the name of the Score that the gate compares with the cut-off. Positive, Negative and Maximum always
	// describe the similarity; Cover describes a score with words.
	Score       string      `json:"score"`
	Choice      string      `json:"score_choice,omitempty"` // why this score was chosen
	Candidates  []Candidate `json:"score_candidates,omitempty"`
	Cover       *Scored     `json:"cover,omitempty"`
	PseudoQuery *Scored     `json:"pseudo_query,omitempty"`
	Policy      string      `json:"policy"`
	PolicyValue float64     `json:"policy_value"` // P
	Threshold   float64     `json:"threshold"`    // T
	Cutoff      float64     `json:"cutoff"`       // P − T (l2: P + T)
	Promise     *Promise    `json:"promise,omitempty"`
	Domains     *Domains    `json:"domains,omitempty"`
	Bootstrap   Interval    `json:"bootstrap"`
	Holdout     *Holdout    `json:"holdout,omitempty"`
	General     *General    `json:"general,omitempty"`
	Reader      *Reader     `json:"reader,omitempty"`
	Second      *Second     `json:"second,omitempty"`
	SecondOff   bool        `json:"second_off,omitempty"` // nobody wants one
	Evidence    Evidence    `json:"evidence"`             // derived from the other fields; Load recomputes it
	Device      string      `json:"device"`
	Kernel      string      `json:"kernel"`
	// The names of the score files carry the first 16 hex digits of their sha256.
	PositiveFile string `json:"positive_file"`
	MaximumFile  string `json:"maximum_file,omitempty"`
	OtherFile    string `json:"maximum_other_file,omitempty"`
	OwnerFile    string `json:"owner_file,omitempty"`
	DomainFile   string `json:"domain_file,omitempty"`
	GeneralFile  string `json:"general_file,omitempty"` // scores of the general questions
	// NegativeHistogram counts NegativeSample pairs of D−, which Separation is of, in equal bins from Min to Max.
	NegativeHistogram []int64 `json:"negative_histogram,omitempty"`
	// ContextDigests are the first 8 bytes of each calibrated context's text digest, sorted, each once
	// (base64 in the file): staleness is the share of live contexts that are not among them.
	ContextDigests []byte `json:"context_digests"`
	// QuestionContexts holds the context id of each pseudo-query, and QuestionsFile holds the vectors of the
	// pseudo-queries. Both are empty unless a score uses them.
	QuestionContexts []string `json:"question_contexts,omitempty"`
	QuestionsFile    string   `json:"questions_file,omitempty"`

	scores    scores
	questions engine.Vectors
}

// scoreFiles are the names of the files of a score's distributions, "" where one is not kept.
type scoreFiles struct{ positive, maximum, other, owner, general, domain *string }

func (c *Calibration) scoreFiles() scoreFiles {
	return scoreFiles{&c.PositiveFile, &c.MaximumFile, &c.OtherFile, &c.OwnerFile, &c.GeneralFile, &c.DomainFile}
}

func (s *Scored) scoreFiles() scoreFiles {
	return scoreFiles{&s.PositiveFile, &s.MaximumFile, &s.OtherFile, &s.OwnerFile, &s.GeneralFile, &s.DomainFile}
}

// Reader is from which score on an extractive reader's best span answers a question of this base.
type Reader struct {
	Model     string  `json:"model"`
	Digest    string  `json:"digest"`
	Questions int     `json:"questions"` // with the passages that a search finds for them
	Threshold float64 `json:"threshold"` // score of the span above that of the null answer, in logits
	Answered  float64 `json:"answered"`  // share of these questions at or above the threshold
	// Unanswered is the share below the threshold of the same questions, asked of the passages found without the
	// question's own context.
	Unanswered float64 `json:"unanswered"`
}

// MaximumScores returns the maximum distribution, one score per pseudo-query, nil if it was not kept. The caller must
// not modify it.
func (c *Calibration) MaximumScores() []float64 { return c.scores.maximum }

// WithPolicy returns a copy of the calibration with another policy, score and threshold. P, the cut-off, the bootstrap
// interval and the hold-out report are recomputed from the kept distributions. An empty policy or score keeps the
// current one. Auto selects the score that the calibration found best, Paper the similarity. The error is ErrPolicy if
// the policy is unknown or needs a distribution that was not kept.
func (c *Calibration) WithPolicy(policy, score string, threshold float64) (*Calibration, error) {
	n := *c
	switch {
	case policy == "" && score == "":
		policy, score = c.Policy, c.keptScore()
	case score == "" && policy != Auto && policy != Paper:
		score = c.keptScore()
	case policy == "":
		policy = c.Policy
	}
	p, s, err := resolve(policy, score, c.Metric)
	switch {
	case err != nil:
		return nil, err
	case s == nil && len(c.Candidates) > 0:
		n.Score = c.Candidates[winner(c.Candidates)].Score
	case s == nil:
		n.Score = c.Metric.String()
	case !c.holds(*s):
		return nil, fmt.Errorf("%w: score %s needs distributions that this calibration does not hold; calibrate again",
			ErrPolicy, score)
	default:
		n.Score = s.Name()
	}
	if n.Score != c.Score {
		n.Choice = "asked for"
	}
	return n.withPolicy(context.Background(), nil, p.Name, threshold)
}

// Save writes the artifact to path (by convention *.cal.json) and the distributions beside it. positive is D+ as
// Calibrate returned it. The score files are new files named by the hash of their content. The JSON file is replaced
// last and atomically, so that after a crash path holds either the complete old or the complete new calibration.
func (c *Calibration) Save(path string, positive []float64) error {
	if int64(len(positive)) != c.Positive.N || len(positive) == 0 {
		return fmt.Errorf("gate: saving %s: %d scores of D+, the calibration counts %d", path, len(positive),
			c.Positive.N)
	}
	saved := *c
	for _, k := range saved.kinds() {
		if *k.of != nil {
			*k.of = new(**k.of)
		}
	}
	if err := saved.writeAll(path, positive); err != nil {
		return fmt.Errorf("gate: saving %s: %w", path, err)
	}
	if err := saved.check(); err != nil {
		return fmt.Errorf("gate: saving %s: %w", path, err)
	}
	text, err := json.MarshalIndent(&saved, "", "  ")
	if err != nil {
		return fmt.Errorf("gate: saving %s: %w", path, err)
	}
	if err := durable.Replace(path,
		func(w io.Writer) error { _, err := w.Write(append(text, '\n')); return err }); err != nil {
		return fmt.Errorf("gate: saving %s: %w", path, err)
	}
	c.PositiveFile, c.MaximumFile, c.OtherFile, c.OwnerFile, c.GeneralFile, c.DomainFile = saved.PositiveFile,
		saved.MaximumFile, saved.OtherFile, saved.OwnerFile, saved.GeneralFile, saved.DomainFile
	c.Cover, c.PseudoQuery, c.QuestionsFile = saved.Cover, saved.PseudoQuery, saved.QuestionsFile
	kept := []string{saved.QuestionsFile}
	for _, f := range saved.files(nil) {
		kept = append(kept, *f.name)
	}
	removeOldScores(path, kept...)
	return nil
}

// file is a complete distribution that is stored beside the artifact.
type file struct {
	kind   string
	scores []float64
	name   *string
}

// files lists the files of a calibration, including the files of the scores that are not in force.
func (c *Calibration) files(positive []float64) []file {
	numbers := func(owner []int32) []float64 {
		out := make([]float64, len(owner))
		for i, o := range owner {
			out[i] = float64(o)
		}
		return out
	}
	var list []file
	add := func(prefix string, s *scores, positive []float64, to scoreFiles) {
		list = append(list, file{prefix + "positive", positive, to.positive},
			file{prefix + "maximum", s.maximum, to.maximum}, file{prefix + "other", s.other, to.other},
			file{prefix + "owner", numbers(s.owner), to.owner}, file{prefix + "general", s.general, to.general},
			file{prefix + "domain", numbers(s.domain), to.domain})
	}
	add("", &c.scores, positive, c.scoreFiles())
	for _, k := range c.kept() {
		add(k.file, &k.scores, k.scores.positive, k.scoreFiles())
	}
	return list
}

// Load reads an artifact and D+. The error is ErrArtifact for another schema, unknown keys, values that are not finite
// or inconsistent, and modified score files. For a missing file it also matches fs.ErrNotExist.
func Load(path string) (*Calibration, []float64, error) {
	c, err := load(path)
	if errors.Is(err, os.ErrNotExist) { // a concurrent Save may have replaced the score files after the JSON was read
		c, err = load(path)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %s: %w", ErrArtifact, path, err)
	}
	return c, c.scores.positive, nil
}

func load(path string) (*Calibration, error) {
	text, err := readLimited(path, maxArtifact)
	if err != nil {
		return nil, err
	}
	c, err := decode(text)
	if err != nil {
		return nil, err
	}
	dir := filepath.Dir(path)
	err = c.scores.read(dir, c.Positive.N, c.scoreFiles())
	for _, k := range c.kept() {
		if err == nil {
			err = k.scores.read(dir, int64(k.Queries), k.scoreFiles())
		}
	}
	if err != nil {
		return nil, err
	}
	if c.QuestionsFile != "" {
		c.questions, err = readQuestions(dir, c.QuestionsFile, len(c.QuestionContexts), c.Encoder.Dim)
		if err != nil {
			return nil, err
		}
	}
	return c, c.follows()
}

// read reads the files of distributions and skips empty names. Each file must hold n scores, except the file of the
// general questions.
func (s *scores) read(dir string, n int64, of scoreFiles) (err error) {
	var rows, domains []float64
	for _, f := range []struct {
		name *string
		to   *[]float64
	}{{of.positive, &s.positive}, {of.maximum, &s.maximum}, {of.other, &s.other}, {of.owner, &rows},
		{of.general, &s.general}, {of.domain, &domains}} {
		if *f.name == "" {
			continue
		}
		if *f.to, err = readScores(dir, *f.name); err != nil {
			return err
		}
		if int64(len(*f.to)) != n && f.name != of.general {
			return fmt.Errorf("%s holds %d scores, the calibration counts %d", *f.name, len(*f.to), n)
		}
	}
	for _, f := range []struct {
		name   *string
		values []float64
		to     *[]int32
	}{{of.owner, rows, &s.owner}, {of.domain, domains, &s.domain}} {
		for _, x := range f.values {
			if x != math.Trunc(x) || x < 0 || x > math.MaxInt32 {
				return fmt.Errorf("%s: %v is not a row number", *f.name, x)
			}
			*f.to = append(*f.to, int32(x))
		}
	}
	return nil
}

// decode parses the JSON strictly. It checks the schema first, because another schema would fail with an unknown key.
func decode(text []byte) (*Calibration, error) {
	var version struct {
		Schema int `json:"schema"`
	}
	if err := json.Unmarshal(text, &version); err != nil {
		return nil, err
	}
	if version.Schema != Schema {
		return nil, fmt.Errorf("schema version %d, this program reads %d; calibrate again", version.Schema, Schema)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	c := &Calibration{}
	if err := d.Decode(c); err != nil {
		return nil, err
	}
	return c, c.check()
}

// check validates everything that does not need the score files.
func (c *Calibration) check() error {
	tables := map[string]*Stats{"positive": &c.Positive, "negative": &c.Negative, "maximum": &c.Maximum,
		"maximum_other": c.MaximumOther}
	for _, k := range c.kept() {
		tables[k.file+"positive"], tables[k.file+"maximum"] = &k.Positive, &k.Maximum
		tables[k.file+"maximum_other"] = k.MaximumOther
	}
	for name, s := range tables {
		if s == nil {
			continue
		}
		order := []float64{s.Min, s.P5, s.Q1, s.Median, s.Q3, s.P95, s.Max}
		if s.N < 0 || !slices.IsSorted(order) ||
			slices.ContainsFunc(append(order, s.Mean), func(x float64) bool { return !finite(x) }) {
			return fmt.Errorf("%s: not a table of statistics", name)
		}
	}
	for name, x := range map[string]float64{"separation": c.Separation, "policy_value": c.PolicyValue,
		"threshold": c.Threshold, "cutoff": c.Cutoff, "bootstrap": c.Bootstrap.Low + c.Bootstrap.High} {
		if !finite(x) {
			return fmt.Errorf("%s is %v", name, x)
		}
	}
	if _, err := ParsePolicy(c.Policy); err != nil {
		return err
	}
	if _, err := ParseNegatives(c.Negatives, 0); err != nil {
		return err
	}
	switch {
	case c.Positive.N < 1:
		return errors.New("D+ is empty")
	case c.Encoder.Dim < 1:
		return fmt.Errorf("encoder dimension %d", c.Encoder.Dim)
	case c.Cutoff != cutoff(c.Metric, c.PolicyValue, c.Threshold):
		return fmt.Errorf("the cut-off %v does not follow from policy value %v and threshold %v", c.Cutoff,
			c.PolicyValue, c.Threshold)
	case c.Bootstrap.Level < 0 || c.Bootstrap.Level >= 1 || c.Bootstrap.Resamples < 0 ||
		c.Bootstrap.Resamples > maxResamples:
		return fmt.Errorf("bootstrap of level %v with %d resamples", c.Bootstrap.Level, c.Bootstrap.Resamples)
	case len(c.ContextDigests)%digestBytes != 0:
		return fmt.Errorf("context_digests of %d bytes are not of %d each", len(c.ContextDigests), digestBytes)
	case slices.ContainsFunc(c.NegativeHistogram, func(n int64) bool { return n < 0 }):
		return errors.New("negative_histogram counts below zero")
	}
	if err := errors.Join(c.checkScore(), c.Second.check(), c.Domains.check()); err != nil {
		return err
	}
	for _, f := range c.files(nil) {
		if name := *f.name; name != "" &&
			(name != filepath.Base(name) || strings.ContainsAny(name, `/\`) || scoreDigest(name) == "") {
			return fmt.Errorf("%q is not the name of a score file beside the artifact", name)
		}
	}
	if name := c.QuestionsFile; name != "" && (name != filepath.Base(name) || scoreDigest(name) == "") {
		return fmt.Errorf("%q is not the name of a file of pseudo-queries beside the artifact", name)
	}
	if c.PositiveFile == "" {
		return errors.New("positive_file is missing")
	}
	return nil
}

// checkScore validates the score of the gate and the fields that belong to it.
func (c *Calibration) checkScore() error {
	s, err := ParseScore(c.Score, c.Metric)
	for _, k := range c.kept() {
		if err == nil {
			err = k.check(k.kind)
		}
	}
	if err == nil && !c.holds(s) {
		err = fmt.Errorf("score %s without its distributions", c.Score)
	}
	if err == nil && s.Kind == PseudoQuery && (c.QuestionsFile == "" || len(c.QuestionContexts) == 0) {
		err = fmt.Errorf("score %s without the vectors of its pseudo-queries", c.Score)
	}
	for _, x := range c.Candidates {
		if !finite(x.Balanced + x.Low + x.High + x.AUROC + x.Weight + x.Opens + x.KeepsOut) {
			return fmt.Errorf("candidate %s is not a number", x.Score)
		}
	}
	return err
}

// follows checks that the policy value and the cut-off follow from the distributions, and computes the evidence.
func (c *Calibration) follows() error {
	p, err := ParsePolicy(c.Policy)
	if err != nil {
		return err
	}
	values := sorted(c.lists().of(p))
	if len(values) == 0 {
		return fmt.Errorf("policy %s without its distribution", c.Policy)
	}
	v, promise, err := c.derive(p, values)
	if err != nil {
		return err
	}
	if !reflect.DeepEqual(promise, c.Promise) {
		return fmt.Errorf("policy %s promises something else than the artifact says", c.Policy)
	}
	if v != c.PolicyValue {
		return fmt.Errorf("policy %s is %v of the distribution, policy_value says %v", c.Policy, v, c.PolicyValue)
	}
	c.weigh(p)
	return c.followDomains(p)
}
