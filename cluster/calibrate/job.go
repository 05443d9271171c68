// Package calibrate computes a calibration's distributions with many workers: the same artifact as gate.Calibrate.
//
//	base, questions → words of each segment → document frequencies → blocks → partials → their sum → artifact
//
// The steps are plain Go (Words, Pairs); package pipeline runs them on a runner of Apache Beam.
package calibrate

import (
	"context"
	"errors"
	"fmt"

	"github.com/sluice-rag/sluice/cluster/base"
	"github.com/sluice-rag/sluice/cluster/objects"
	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/rag/gate"
	"github.com/sluice-rag/sluice/rag/postings"
)

// ErrJob is wrapped by errors about parts of a job that do not fit together.
var ErrJob = errors.New("calibrate: job")

// Questions are what a base is calibrated with, and how.
type Questions struct {
	Vectors base.Pieces `json:"vectors"` // of the pseudo-queries
	Rows    int         `json:"rows"`
	Owner   []int32     `json:"owner"` // context of each
	Texts   []string    `json:"texts,omitempty"`
	General string      `json:"general,omitempty"` // vectors of the general questions
	// GeneralTexts has a text for each general question.
	GeneralTexts []string        `json:"general_texts,omitempty"`
	AboutGeneral gate.General    `json:"about_general"`
	Options      Options         `json:"options"`
	Provenance   gate.Provenance `json:"provenance"`
}

// Options holds the options of gate.Input.
type Options struct {
	Policy        string  `json:"policy"`
	Score         string  `json:"score"`
	Negatives     string  `json:"negatives"`
	Threshold     float64 `json:"threshold"`
	Holdout       float64 `json:"holdout"`
	Resamples     int     `json:"resamples"`
	Seed          uint64  `json:"seed"`
	Tool          string  `json:"tool"`
	KeepQuestions bool    `json:"keep_questions"`
}

// Job is what every task of a step reads first.
type Job struct {
	Base      string `json:"base"` // base.Manifest
	Questions string `json:"questions"`
	// Owners are the own contexts of all questions, ascending.
	Owners       []int64     `json:"owners"`
	OwnerVectors base.Pieces `json:"owner_vectors"`

	// What the step Words counts.
	Terms []string `json:"terms,omitempty"`

	// What the step Pairs counts.
	Pairs *PairsJob `json:"pairs,omitempty"`
}

// PairsJob is what the step Pairs counts.
type PairsJob struct {
	Words      string              `json:"words,omitempty"` // the index of the owners
	Statistics postings.Statistics `json:"statistics"`
	Brackets   engine.Brackets     `json:"brackets"`
	Weights    []float64           `json:"weights,omitempty"`
	Rated      []int               `json:"rated,omitempty"`
	Centres    string              `json:"centres,omitempty"` // vectors of the parts' centres
	Parts      int                 `json:"parts,omitempty"`
	PartOf     string              `json:"part_of,omitempty"` // []int32 of all contexts, instead of centres
	OwnerParts []int32             `json:"owner_parts,omitempty"`
	OwnerGroup []int32             `json:"owner_groups,omitempty"`
	Step       int                 `json:"step"` // questions of a block

	// Again is a further pass, of all pairs alone. From names the job of the pass whose blocks kept the pairs within
	// the brackets; "": they are counted anew.
	Again bool   `json:"again,omitempty"`
	From  string `json:"from,omitempty"`
}

// whole names all pairs.
func (j *Job) whole(m *base.Manifest, questions int) engine.Whole {
	return engine.Whole{Contexts: m.Contexts, Queries: int64(questions), Digest: j.Base + " " + j.Questions}
}

// opened is a job with what all of its tasks need.
type opened struct {
	Job
	name      string
	manifest  base.Manifest
	questions Questions
}

func open(ctx context.Context, s *objects.Store, name string) (*opened, error) {
	o := &opened{name: name}
	if err := s.GetJSON(ctx, name, &o.Job); err != nil {
		return nil, err
	}
	if err := s.GetJSON(ctx, o.Base, &o.manifest); err != nil {
		return nil, err
	}
	if err := o.manifest.Check(); err != nil {
		return nil, err
	}
	if err := s.GetJSON(ctx, o.Job.Questions, &o.questions); err != nil {
		return nil, err
	}
	q := &o.questions
	if len(q.Owner) != q.Rows || q.Texts != nil && len(q.Texts) != q.Rows {
		return nil, fmt.Errorf("%w: %d questions, %d owners, %d texts", ErrJob, q.Rows, len(q.Owner), len(q.Texts))
	}
	return o, nil
}
