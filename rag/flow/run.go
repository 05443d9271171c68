package flow

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"github.com/sluice-rag/sluice/internal/spans"
)

// Step records the visit of a node.
type Step struct {
	Node    string  `json:"node"`
	Input   string  `json:"input,omitempty"` // what the node decided on, in one line
	Verdict Verdict `json:"verdict"`         // Failed or Stopped if the node returned no verdict
	Next    string  `json:"next,omitempty"`  // a node, End or IDontKnow; "" after an error
	Detail  string  `json:"detail,omitempty"`
	// Score is the number that the verdict is based on, if any: a similarity or a probability.
	Score        *float64 `json:"score,omitempty"`
	Model        string   `json:"model,omitempty"` // language model that it asked
	Tokens       int      `json:"tokens"`          // of language models: prompts and completions
	Calls        int      `json:"calls"`           // of language models
	Milliseconds float64  `json:"ms"`
}

// The verdicts of a step whose node returned no verdict.
const (
	Failed  Verdict = "error"   // the run ends with the node's error
	Stopped Verdict = "stopped" // the budget is spent
)

// Budget limits a run. A limit of 0 means unlimited, except for Retries.
type Budget struct {
	Retries int           `key:"retries" bounds:"0,100" doc:"how often a graph may turn back; then the answer is \"I don't know\""`
	Calls   int           `key:"max_calls" bounds:"0,100000" doc:"calls of language models that a question may cost; then the answer is \"I don't know\"; 0 sets no limit"`
	Tokens  int           `key:"max_tokens" flag:"flow-tokens" bounds:"0,100000000" doc:"tokens of language models that a question may cost, prompts and completions; 0 sets no limit"`
	Time    time.Duration `key:"timeout_s" flag:"flow-timeout" unit:"s" bounds:"0,86400" doc:"seconds that a question may take; 0 sets no limit"`
}

// DefaultRetries is the limit of retry edges that a run takes unless a user says otherwise.
const DefaultRetries = 3

// Outcome says how a run ended.
type Outcome string

// The outcomes.
const (
	Answered Outcome = "answered"
	Unknown  Outcome = "unknown" // no answer passed the checks
)

// Limit names the reason of the outcome Unknown.
type Limit string

// The limits of a Budget, and ByNode if a node ended the run.
const (
	Retries Limit = "retries"
	Calls   Limit = "calls"
	Tokens  Limit = "tokens"
	Time    Limit = "time"
	ByNode  Limit = "node"
)

// Ending is the result of a run.
type Ending struct {
	Outcome Outcome
	Why     Limit // of Unknown
	Retries int   // that were made
	Calls   int   // of language models
	Tokens  int
}

// Say returns the reason of Unknown as text, "" for an answer.
func (e Ending) Say() string {
	switch e.Why {
	case Retries:
		return fmt.Sprintf("no answer held after %d retries", e.Retries)
	case Calls, Tokens, Time:
		return fmt.Sprintf("the budget of %s was spent before an answer held", e.Why)
	case ByNode:
		return "no answer held"
	}
	return ""
}

// spentError ends a run whose budget is spent.
type spentError struct{ limit Limit }

func (e spentError) Error() string { return "flow: the budget of " + string(e.limit) + " is spent" }

// Run visits nodes from the first one until an edge ends the run. step, unless nil, is called with each step when its
// node has finished, on the goroutine of the caller; it is called for a node that failed, too, before Run returns that
// error. A spent budget is not an error; the outcome is Unknown.
func (g *Graph[S]) Run(ctx context.Context, state S, b Budget, step func(Step)) (Ending, error) {
	r := &run{budget: b, draws: map[string]uint64{}}
	if b.Time > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeoutCause(ctx, b.Time, spentError{Time})
		defer stop()
	}
	for node := g.start; ; {
		s := Step{Node: node}
		v := &Visit{Last: g.last(node), run: r, step: &s}
		begun := time.Now()
		err := ctx.Err()
		if err == nil {
			s.Verdict, err = g.visit(ctx, node, state, v)
		}
		s.Milliseconds = math.Round(float64(time.Since(begun).Microseconds())) / 1000
		if err == nil {
			err = g.next(r, &s)
		}
		if spent := (spentError{}); errors.As(err, &spent) || ctx.Err() != nil &&
			errors.As(context.Cause(ctx), &spent) {
			err, s.Verdict, s.Next, r.ending.Why = nil, Stopped, IDontKnow, spent.limit
		}
		if err != nil {
			s.Verdict, s.Next = Failed, ""
		}
		if step != nil {
			step(s)
		}
		if err != nil || terminal(s.Next) {
			return r.end(s.Next), err
		}
		node = s.Next
	}
}

// visit visits a node, as a span of its own.
func (g *Graph[S]) visit(ctx context.Context, node string, state S, v *Visit) (verdict Verdict, err error) {
	ctx, end := spans.Start(ctx, node)
	defer end(&err)
	verdict, err = g.nodes[node].Visit(ctx, state, v)
	spans.Say(ctx, attribute.String("sluice.verdict", string(verdict)), attribute.Int("sluice.calls", v.step.Calls),
		attribute.Int("sluice.tokens", v.step.Tokens))
	return verdict, err
}

// next sets the successor of a step: a node, or IDontKnow if the budget of retries is spent.
func (g *Graph[S]) next(r *run, s *Step) error {
	e, ok := g.edge(s.Node, s.Verdict)
	if !ok {
		return fmt.Errorf("%w: %q of node %q, which says %v", ErrVerdict, s.Verdict, s.Node,
			slices.Clone(g.nodes[s.Node].verdicts()))
	}
	s.Next = e.To
	switch {
	case !e.Retry:
	case r.ending.Retries >= r.budget.Retries:
		s.Next, r.ending.Why = IDontKnow, Retries
	default:
		r.ending.Retries++
	}
	return nil
}

// run counts what one call of Run has spent.
type run struct {
	budget Budget
	ending Ending
	draws  map[string]uint64 // number of seeds handed out, by node
}

func (r *run) end(at string) Ending {
	r.ending.Outcome = Answered
	if at != End {
		r.ending.Outcome = Unknown
		r.ending.Why = cmp.Or(r.ending.Why, ByNode)
	}
	return r.ending
}
