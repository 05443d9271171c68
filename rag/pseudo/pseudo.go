// Package pseudo writes the pseudo-queries of the Context Awareness Gate: questions that a context
// answers, asked of the local language model, extracted from the contexts without one, or read from a file. Of
// a model's questions echoes, non-questions, duplicates and those whose own context does not rank near the top
// for them are rejected and counted.
package pseudo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/llm"
	"github.com/sluice-rag/sluice/rag/corpus"
)

// Query is one pseudo-query. Its JSON is the format of a line of `calibrate --queries FILE.jsonl`.
type Query struct {
	ID        string `json:"id,omitempty"`
	ContextID string `json:"context_id"`
	Text      string `json:"text"`
}

// Reason says why a generated question was dropped.
type Reason string

// The reasons, as they appear in reports and in the calibration artifact, in the order in which they are checked.
const (
	TooShort     Reason = "too_short"
	TooLong      Reason = "too_long" // or cut off by MaxTokens
	NotAQuestion Reason = "not_a_question"
	Echo         Reason = "echo"      // repeats the context, the prompt or an example
	Duplicate    Reason = "duplicate" // the same question, normalised, was kept before
	LowRank      Reason = "low_rank"  // its own context is not in the top RankLimit for it
	Surplus      Reason = "surplus"   // its context has PerContext questions already
)

// Report counts what happened; every generated question is either kept or in Rejected.
type Report struct {
	Contexts  int            `json:"contexts"`
	Generated int            `json:"generated"`
	Kept      int            `json:"kept"`
	Rejected  map[Reason]int `json:"rejected"`
	Calls     int            `json:"llm_calls"`           // of this run
	Resumed   int            `json:"resumed_contexts"`    // taken from an earlier, interrupted run
	Barren    int            `json:"barren_contexts"`     // contexts without a single kept question
	Truncated int            `json:"truncated_contexts"`  // contexts of which the model could not read the whole
	Parallel  int            `json:"parallel"`            // contexts asked about at a time
	Extracted bool           `json:"extracted,omitempty"` // by Extract, without a model
}

// The errors of this package.
var (
	ErrQueries = errors.New("pseudo: unusable pseudo-queries")           // a malformed file, or no question left
	ErrJournal = errors.New("pseudo: the journal belongs to other work") // other settings, or damaged
)

// Defaults of Options.
const (
	DefaultPerContext = 3
	DefaultRankLimit  = 10
	DefaultMaxTokens  = 48 // of one question
	// MaxPerContext bounds the questions about a context, each of which has a prompt with the context's text.
	MaxPerContext = 1000
)

// Options of Generate. Zero values are defaults.
type Options struct {
	PerContext int   // questions asked for, and kept at most, per context
	Sample     int   // contexts to ask about, spread over topics; 0 = all
	Rows       []int // contexts to ask about instead of a sample, in the order of asking; nil draws one
	// More, if not nil, is asked before each context that the model has to be asked about: false ends the asking there,
	// and the contexts from that one on are left out, as if they were not in Rows.
	More      func() bool
	Seed      uint64 // of the sample and of the model's sampling
	RankLimit int    // a question is kept if its own context is among the best RankLimit for it
	Metric    kernels.Metric
	MaxTokens int // of a question; a longer one is cut off and rejected
	// Journal is a JSONL file to which every finished context is written and synced, so that an
	// interrupted run goes on where it was; "" keeps nothing. One call writes it at a time (filelock.ErrHeld).
	Journal  string
	Parallel int // contexts asked about at a time; 0 is llm.ParallelOf
	Progress func(done, total int)
	// Again is how often contexts with fewer than PerContext questions that are kept are asked about once more, with
	// other seeds and a higher temperature. What is too many of the new questions is rejected as Surplus.
	Again int
	// Prompter makes the prompts; nil is OneShot.
	Prompter Prompter
}

// Contexts are the contexts of the whole base: row i of Vectors is the embedding of Chunks[i].
type Contexts struct {
	Vectors engine.Vectors
	Chunks  []corpus.Chunk
}

// Generate asks the model for questions about the contexts (or a sample of them), filters them and returns
// those that are kept, in the order of the contexts. The order of work and the answers do not depend on
// interruptions: each context has a seed of its own. When ctx ends, the error is ctx's and what was
// finished is in the journal. No question left is ErrQueries.
func Generate(
	ctx context.Context, gen llm.Generator, emb embed.Embedder, e engine.Interface, c Contexts, o Options,
) ([]Query, Report, error) {
	report := Report{Rejected: map[Reason]int{}}
	o, rows, err := begin(c, o)
	if err != nil {
		return nil, report, err
	}
	if o.Parallel == 0 {
		o.Parallel = llm.ParallelOf(gen)
	}
	report.Contexts, report.Parallel = len(rows), o.Parallel
	answers, err := ask(ctx, gen, c.Chunks, rows, o, &report)
	if err != nil {
		return nil, report, err
	}
	rows, answers = inOrder(rows[:len(answers)], answers)
	report.Contexts = len(rows)
	asked := rows
	k := newKeeper()
	for again := 1; ; again++ {
		list, err := filter(ctx, emb, e, c, rows, answers, o, &report)
		if err != nil {
			return nil, report, err
		}
		k.add(c, list, o, &report)
		short := k.short(rows, o.PerContext)
		if again > o.Again || len(short) == 0 {
			break
		}
		if answers, err = ask(ctx, gen, c.Chunks, short, o.again(again), &report); err != nil {
			return nil, report, err
		}
		rows = short[:len(answers)]
	}
	kept := k.all(asked, &report)
	if report.Kept == 0 {
		return nil, report,
			fmt.Errorf("%w: none of %d generated questions about %d contexts can be used (rejected: %v); a larger "+
				"model or --queries FILE may help", ErrQueries, report.Generated, report.Contexts, report.Rejected)
	}
	return kept, report, nil
}

// again returns the options of asking for the n-th time more.
func (o Options) again(n int) Options {
	o.Seed += uint64(n)
	if o.Journal != "" { // a journal has one answer for each text
		o.Journal = fmt.Sprintf("%s.%d", o.Journal, n)
	}
	if p, ok := o.Prompter.(OneShot); ok {
		p.Temperature = cmp.Or(p.Temperature, temperature) + .2*float64(n)
		o.Prompter = p
	}
	return o
}

// begin checks the input and finds the contexts that are asked about.
func begin(c Contexts, o Options) (_ Options, rows []int, err error) {
	if o, err = o.withDefaults(); err != nil {
		return o, nil, err
	}
	if len(c.Chunks) == 0 || c.Vectors.Rows != len(c.Chunks) {
		return o, nil,
			fmt.Errorf("pseudo: %w: %d vectors for %d contexts", kernels.ErrShape, c.Vectors.Rows, len(c.Chunks))
	}
	if rows = o.Rows; rows == nil {
		rows = sample(c.Chunks, o.Sample, o.Seed)
	}
	return o, rows, nil
}

// inOrder sorts rows with their answers.
func inOrder(rows []int, answers [][]answer) ([]int, [][]answer) {
	at := make([]int, len(rows))
	for i := range at {
		at[i] = i
	}
	slices.SortFunc(at, func(a, b int) int { return rows[a] - rows[b] })
	sorted, of := make([]int, len(rows)), make([][]answer, len(rows))
	for i, j := range at {
		sorted[i], of[i] = rows[j], answers[j]
	}
	return sorted, of
}

func (o Options) withDefaults() (Options, error) {
	for _, x := range []struct {
		name      string
		value     *int
		otherwise int
	}{{"questions per context", &o.PerContext, DefaultPerContext}, {"rank limit", &o.RankLimit, DefaultRankLimit},
		{"maximum of tokens", &o.MaxTokens, DefaultMaxTokens}, {"parallel requests", &o.Parallel, 0},
		{"sample", &o.Sample, 0}, {"further times", &o.Again, 0}} {
		if *x.value < 0 {
			return o, fmt.Errorf("pseudo: %s: %d is negative", x.name, *x.value)
		}
		if *x.value == 0 {
			*x.value = x.otherwise
		}
	}
	if o.PerContext > MaxPerContext {
		return o, fmt.Errorf("pseudo: %d questions per context, at most %d are asked for", o.PerContext, MaxPerContext)
	}
	if o.Prompter == nil {
		o.Prompter = OneShot{}
	}
	return o, nil
}
