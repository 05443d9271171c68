// Package gate is the Context Awareness Gate: it turns the calibration distributions into a policy
// value P and a cut-off P − T, keeps them with their provenance in a reviewable artifact, and decides
// for a query whether retrieval can help (Heydari et al., "Context Awareness Gate for Retrieval
// Augmented Generation", Algorithm 1: retrieve ⇔ max_i score(q, c_i) > P − T, strictly; mirrored for l2).
package gate

import (
	"errors"
	"time"

	"github.com/sluice-rag/sluice/kernels"
)

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

// Encoder is the identity that a calibration belongs to.
type Encoder struct {
	Name            string `json:"name"`
	Digest          string `json:"digest"`
	TokenizerDigest string `json:"tokenizer_digest"`
	Dim             int    `json:"dim"`
}

// Corpus is the set of contexts that was calibrated. Digests holds the calibrated contexts' text
// digests (hex, 8 bytes each, sorted) so that staleness is the share of live contexts not in it.
type Corpus struct {
	Digest   string `json:"digest"`
	Contexts int    `json:"contexts"`
	Groups   int    `json:"groups"`
}

// Provenance says where the pseudo-queries came from.
type Provenance struct {
	Kind        string         `json:"kind"` // "generated" or "file"
	Source      string         `json:"source,omitempty"`
	SHA256      string         `json:"sha256,omitempty"`
	Model       string         `json:"model,omitempty"`
	ModelSHA256 string         `json:"model_sha256,omitempty"`
	PerContext  int            `json:"per_context"`
	Sampled     int            `json:"sampled_contexts"`
	Queries     int            `json:"queries"`
	Rejected    map[string]int `json:"rejected,omitempty"` // reason → count
	Seed        uint64         `json:"seed"`
}

// Interval is a bootstrap confidence interval of the policy value P (percentile method, resampled by
// context because the queries of one context are not independent).
type Interval struct {
	Level     float64 `json:"level"`
	Low       float64 `json:"low"`
	High      float64 `json:"high"`
	Resamples int     `json:"resamples"`
	Seed      uint64  `json:"seed"`
}

// Holdout reports the gate on pseudo-queries whose contexts were left out when P was computed.
// In scope: the query against all contexts. Out of scope (estimate): against contexts of other
// groups only, as if its own topic were not in the base; absent with a single group.
type Holdout struct {
	Share         float64  `json:"share"`
	Cutoff        float64  `json:"cutoff"` // computed without the held-out part
	InScope       int      `json:"in_scope"`
	Retrieved     int      `json:"retrieved"`   // of InScope: gate open (right)
	FalseSkips    int      `json:"false_skips"` // of InScope: gate closed (wrong)
	OutOfScope    int      `json:"out_of_scope"`
	FalseRetrieve int      `json:"false_retrieve"` // of OutOfScope: gate open (wrong)
	AUROC         *float64 `json:"auroc,omitempty"`
}

// Calibration is the artifact (*.cal.json); D+ lies beside it as .npy.
type Calibration struct {
	Schema       int            `json:"schema"`
	Created      time.Time      `json:"created"`
	Tool         string         `json:"tool"`
	Encoder      Encoder        `json:"encoder"`
	Corpus       Corpus         `json:"corpus"`
	Queries      Provenance     `json:"queries"`
	Metric       kernels.Metric `json:"metric"`
	Negatives    string         `json:"negatives"`
	Positive     Stats          `json:"positive"`
	Negative     Stats          `json:"negative"`
	Maximum      Stats          `json:"maximum"`
	MaximumOther *Stats         `json:"maximum_other,omitempty"`
	Separation   float64        `json:"separation"` // P(D+ > D−)
	Policy       string         `json:"policy"`
	PolicyValue  float64        `json:"policy_value"` // P
	Threshold    float64        `json:"threshold"`    // T
	Cutoff       float64        `json:"cutoff"`       // P − T (l2: P + T)
	Bootstrap    Interval       `json:"bootstrap"`
	Holdout      *Holdout       `json:"holdout,omitempty"`
	Device       string         `json:"device"`
	Kernel       string         `json:"kernel"`
	PositiveFile string         `json:"positive_file"`
	// NegativeHistogram counts D− in equal bins between Negative.Min and Negative.Max, for plots.
	NegativeHistogram []int64 `json:"negative_histogram,omitempty"`
	// ContextDigests: see Corpus; base64 of the sorted 8-byte digests.
	ContextDigests []byte `json:"context_digests"`
}

// Decision is the gate's answer for one query, with its trace.
type Decision struct {
	Retrieve    bool           `json:"retrieve"`
	Score       float64        `json:"score"` // best score over the contexts
	Cutoff      float64        `json:"cutoff"`
	ContextID   string         `json:"context_id"` // the best context, also when closed
	Policy      string         `json:"policy"`
	PolicyValue float64        `json:"policy_value"`
	Threshold   float64        `json:"threshold"`
	Metric      kernels.Metric `json:"metric"`
	Percentile  float64        `json:"percentile"` // share of D+ that is not closer than Score, in [0,100]
	Stale       float64        `json:"stale"`      // share of contexts that the calibration has not seen
}

// The errors of this package.
var (
	ErrPolicy   = errors.New("gate: unknown policy")
	ErrMismatch = errors.New("gate: the calibration was made with another encoder, tokenizer or metric")
	ErrStale    = errors.New("gate: the calibration is stale")
	ErrArtifact = errors.New("gate: unreadable calibration")
	ErrQueries  = errors.New("gate: no usable pseudo-queries")
)
