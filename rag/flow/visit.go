package flow

import (
	"context"
	"math/rand/v2"

	"github.com/sluice-rag/sluice/llm"
)

// Visit is one visit of a node, for its step and its calls of language models.
type Visit struct {
	Last bool // every verdict of the node ends the run

	run  *run
	step *Step
}

// Input says what the node goes by, in a line.
func (v *Visit) Input(text string) { v.step.Input = text }

// Detail says what is to know beside the verdict.
func (v *Visit) Detail(text string) { v.step.Detail = text }

// Score says the number that the verdict goes by.
func (v *Visit) Score(x float64) { v.step.Score = &x }

// Draw returns the seed of the node's next request in this run: the given one at first, and then others that follow
// from it, so that a retry is no repetition and the same question has the same draws each time. A negative seed, which
// means a random one, stays.
func (v *Visit) Draw(seed int64) int64 {
	n := v.run.draws[v.step.Node]
	v.run.draws[v.step.Node]++
	if n == 0 || seed < 0 {
		return seed
	}
	return int64(rand.NewPCG(uint64(seed), n).Uint64() >> 33)
}

// Model returns g as a model whose calls count against the run's budget, and stand in the node's step. A request that
// the budget has no calls or tokens left for ends the run; one that asks for more tokens than are left is cut.
func (v *Visit) Model(g llm.Generator) llm.Generator {
	v.step.Model = g.Info().Name
	return &counted{g, v}
}

// counted is a model whose calls count.
type counted struct {
	llm.Generator
	visit *Visit
}

// Check passes on what a model says of a request before it is made.
func (c *counted) Check(r llm.Request) error {
	if g, ok := c.Generator.(interface{ Check(llm.Request) error }); ok {
		return g.Check(r)
	}
	return nil
}

// Generate implements llm.Generator.
func (c *counted) Generate(ctx context.Context, r llm.Request, stream func(string) error) (llm.Result, error) {
	run, step := c.visit.run, c.visit.step
	if b := run.budget.Calls; b > 0 && run.ending.Calls >= b {
		return llm.Result{}, spentError{Calls}
	}
	if b := run.budget.Tokens; b > 0 {
		asked, err := c.promptTokens(r)
		if err != nil {
			return llm.Result{}, err
		}
		left := b - run.ending.Tokens - asked
		if left < 1 {
			return llm.Result{}, spentError{Tokens}
		}
		if r.MaxTokens == 0 || r.MaxTokens > left {
			r.MaxTokens = left
		}
	}
	run.ending.Calls++
	step.Calls++
	result, err := c.Generator.Generate(ctx, r, stream)
	run.ending.Tokens += result.PromptTokens + result.CompletionTokens
	step.Tokens += result.PromptTokens + result.CompletionTokens
	return result, err
}

// Unwrap returns the model whose calls are counted.
func (c *counted) Unwrap() llm.Generator { return c.Generator }

// promptTokens returns how many tokens a request's prompt is, but for the marks of a chat format.
func (c *counted) promptTokens(r llm.Request) (int, error) {
	sum, err := 0, error(nil)
	count, _ := llm.ContentCounter(c.Generator)
	if r.Prompt != "" {
		sum, err = c.CountTokens(r.Prompt)
	}
	for _, m := range r.Messages {
		n, failed := count(m.Content)
		if failed != nil {
			err = failed
		}
		sum += n
	}
	return sum, err
}
