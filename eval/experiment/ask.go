package experiment

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/sluice-rag/sluice"
	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/eval/metric"
	"github.com/sluice-rag/sluice/llm"
	"github.com/sluice-rag/sluice/rag/answer"
	"github.com/sluice-rag/sluice/rag/corpus"
	"github.com/sluice-rag/sluice/rag/flow"
	"github.com/sluice-rag/sluice/rag/prompt"
	"github.com/sluice-rag/sluice/rag/retrieve"
)

// asking is one question in one cell.
type asking struct {
	*run
	s        *session
	data     *data
	cell     Cell
	q        question
	item     Item
	passages []corpus.Chunk
	invented bool // the passages are one that the model made up, for scoring only
}

// ask computes an item.
func (r *run) ask(ctx context.Context, s *session, d *data, c Cell, q question) (Item, error) {
	a := &asking{run: r, s: s, data: d, cell: c, q: q,
		item: Item{Scores: map[string]metric.Score{}, MS: map[string]float64{}}}
	var err error
	if c.Kind == Gates {
		err = a.decides(ctx)
	} else if c.Answers {
		a.item.Asked = &Asked{Part: c.Part, Cell: c.name(), Model: c.Generator.Model, Question: q.Text}
		err = a.answer(ctx)
	} else {
		err = a.search(ctx)
	}
	if err == nil {
		err = a.measure(ctx)
	}
	if err != nil {
		return a.item, fmt.Errorf("part %s, question %s: %w", c.Part, q.ID, err)
	}
	return a.item, nil
}

// timed adds the milliseconds of a stage.
func (a *asking) timed(stage string, do func() error) error {
	begun := time.Now()
	err := do()
	a.item.MS[stage] += float64(time.Since(begun).Microseconds()) / 1000
	return err
}

// search finds passages without answering, and asks the gate if there is one.
func (a *asking) search(ctx context.Context) error {
	o, err := a.cell.search()
	if err != nil {
		return err
	}
	queries := answer.Standing(a.q.Text, a.history())
	if a.cell.System.Gate == "calibrated" {
		if err := a.calibrated(ctx, queries); err != nil {
			return err
		}
	}
	if !slices.ContainsFunc(a.cell.Measures, needsPassages) {
		return nil
	}
	if o.Where, err = a.partitions(ctx); err != nil {
		return err
	}
	found, times, err := a.s.Lookup(ctx, queries, sluice.LookupOptions{Gate: answer.GateOpen, Retrieve: &o})
	if err != nil {
		return err
	}
	a.item.MS["embed"], a.item.MS["retrieve"] = times.Embed, times.Retrieve // as in an answer's trace
	chunks, lists := map[string]corpus.Chunk{}, make([]retrieve.List, len(found))
	for i, f := range found {
		lists[i] = retrieve.List{Taken: f.Taken, Results: f.Results}
		for j, r := range f.Results {
			chunks[r.ID] = f.Passages[j].Chunk
		}
	}
	for _, r := range retrieve.Merge(lists, o.K) {
		a.passages = append(a.passages, chunks[r.ID])
	}
	return nil
}

// history returns the conversation before the question, unless the system ignores it.
func (a *asking) history() (all []llm.Message) {
	if a.cell.System.History == ignored {
		return nil
	}
	for _, t := range a.q.History {
		all = append(all, llm.Message{Role: llm.User, Content: t.User})
		if t.Assistant != "" {
			all = append(all, llm.Message{Role: llm.Assistant, Content: t.Assistant})
		}
	}
	return all
}

// answer has the system decide and the generator answer.
func (a *asking) answer(ctx context.Context) error {
	o, g := answer.DefaultOptions(), a.cell.Generator
	o.Gate, o.Style, o.MaxTokens = answer.GateOpen, answer.Write, cmp.Or(g.MaxTokens, o.MaxTokens)
	o.Temperature, o.RepeatPenalty, o.NoRepeatNGram = g.Temperature, g.RepeatPenalty, g.NoRepeatNGram
	o.History = a.history()
	o.Transform = cmp.Or(prompt.Transform(a.cell.System.Transform), o.Transform)
	o.Flow, o.Template = cmp.Or(a.cell.System.Flow, o.Flow), cmp.Or(a.cell.System.Template, o.Template)
	var err error
	if o.Retrieve, err = a.cell.search(); err != nil {
		return err
	}
	if o.Retrieve.Where, err = a.partitions(ctx); err != nil {
		return err
	}
	switch a.cell.System.Gate {
	case "closed":
		o.Gate = answer.GateClosed
	case "calibrated":
		o.Gate = answer.GateAuto
	case "model", "supervisor":
		err := a.timed("gate", func() error { return a.decide(ctx) })
		if err != nil {
			return err
		}
		if !*a.item.Open {
			o.Gate = answer.GateClosed
		}
	}
	got, err := a.s.Ask(ctx, a.q.Text, o)
	if err != nil {
		return err
	}
	t := got.Trace
	a.item.Answer, a.item.Calls = got.Answer, a.item.Calls+t.LLMCalls
	a.item.Visits, a.item.Retries, a.item.Unknown = map[string]int{}, t.Retries, t.Outcome == flow.Unknown
	for _, s := range t.Steps {
		a.item.Visits[s.Node]++
		a.item.Tokens += s.Tokens
	}
	opened := got.Retrieved
	if a.item.Open == nil {
		a.item.Open = &opened
	}
	for stage, ms := range map[string]float64{"embed": t.Milliseconds.Embed, "gate": t.Milliseconds.Gate,
		"transform": t.Milliseconds.Transform, "retrieve": t.Milliseconds.Retrieve, "prompt": t.Milliseconds.Prompt,
		"generate": t.Milliseconds.Generate, "total": t.Milliseconds.Total - t.Milliseconds.Load + a.item.MS["gate"] +
			a.item.MS["route"]} {
		a.item.MS[stage] += ms
	}
	var ids []string
	for _, f := range t.Retrieved {
		ids = append(ids, f.ID)
	}
	if len(ids) > 0 {
		a.passages, err = a.s.Documents().Chunks(ctx, ids)
	}
	return err
}

// decide has the generator decide whether to retrieve.
func (a *asking) decide(ctx context.Context) error {
	gen, err := a.s.Models().Language(ctx)
	if err != nil {
		return err
	}
	j := &metric.Judge{Model: gen}
	open := false
	if a.cell.System.Gate == "model" {
		score, err := j.NeedsContext(ctx, a.q.Text)
		if err != nil {
			return err
		}
		open = score.Value > 0
	} else {
		o, err := a.cell.search()
		if err != nil {
			return err
		}
		o.K = a.cell.System.Supervise
		found, err := a.s.Retrieve(ctx, []string{a.q.Text}, o)
		if err != nil {
			return err
		}
		for _, p := range found[0].Passages {
			score, err := j.Supervise(ctx, a.q.Text, p.Chunk.Text)
			if err != nil {
				return err
			}
			open = open || score.Value > 0
		}
	}
	a.item.Open, a.item.Calls = &open, int(j.Calls())
	return nil
}

func needsPassages(m string) bool {
	switch before(m) {
	case "ndcg", "recall", "precision", "mrr", "map", "answer":
		return true
	}
	return false
}

// measure fills in the scores.
func (a *asking) measure(ctx context.Context) error {
	ranking := a.ranking()
	for _, m := range a.cell.Measures {
		name, k, err := parseMeasure(m)
		if err != nil {
			return err
		}
		one := func(v float64) { a.item.Scores[m] = metric.Of(v) }
		switch {
		case needsPassages(m):
			a.item.Scores[m] = a.ranked(name, k, ranking)
		case name == "open" || name == "gate_right":
			if a.item.Open == nil {
				a.item.Scores[m] = metric.Score{Unscored: "nothing decided"}
				break
			}
			one(number(*a.item.Open == (name == "open" || a.q.known)))
		case Judged(m):
			err = a.timed("judge", func() (err error) {
				a.item.Scores[m], err = a.graded(ctx, name)
				return err
			})
		case needsVectors(m):
			a.item.Scores[m], err = a.csga(ctx)
		default:
			maps.Copy(a.item.Scores, texts(name, a.item.Answer, a.q.Answers))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func number(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// ranking returns the contexts that were found, without repetitions.
func (a *asking) ranking() metric.Ranking {
	r := metric.Ranking{Grade: map[string]int{}}
	for _, c := range a.passages {
		if !slices.Contains(r.Found, c.Document) {
			r.Found = append(r.Found, c.Document)
		}
	}
	if a.q.known && a.q.CanAnswer() {
		r.Grade[a.q.ContextID] = 1
	}
	a.item.Retrieved = r.Found
	return r
}

func (a *asking) ranked(name string, k int, r metric.Ranking) metric.Score {
	if name == "answer" {
		if len(a.q.Answers) == 0 {
			return metric.Score{Unscored: "there is no true answer"}
		}
		return metric.Of(number(slices.ContainsFunc(a.passages[:min(k, len(a.passages))], func(c corpus.Chunk) bool {
			return contains(c.Text, a.q.Answers)
		})))
	}
	if a.cell.Base.Documents || len(a.data.files) > 0 {
		return metric.Score{Unscored: "the contexts are within documents"}
	}
	if len(r.Grade) == 0 {
		return metric.Score{Unscored: "no context is relevant"}
	}
	switch name {
	case "ndcg":
		return metric.Of(r.NDCG(k))
	case "recall":
		return metric.Of(r.Recall(k))
	case "precision":
		return metric.Of(r.Precision(k))
	case "mrr":
		return metric.Of(r.ReciprocalRank())
	}
	return metric.Of(r.AveragePrecision())
}

// contextTexts returns the passages that the answer came from. Where the gate stayed closed, the model invents one for
// the scores of context, as in the paper, outside of the system's calls and times.
func (a *asking) contextTexts(ctx context.Context) ([]string, error) {
	if len(a.passages) == 0 && !a.invented {
		gen, err := a.s.Models().Language(ctx)
		if err != nil {
			return nil, err
		}
		library, err := prompt.Open(a.Config.Templates)
		if err != nil {
			return nil, err
		}
		t, err := library.Apply(ctx, gen, prompt.HyDE, prompt.Asked{Question: a.q.Text})
		if err != nil {
			return nil, err
		}
		if a.invented = true; !t.Fallback {
			a.passages = []corpus.Chunk{{Text: t.Queries[0]}}
		}
	}
	var texts []string
	for _, c := range a.passages {
		texts = append(texts, c.Text)
	}
	return texts, nil
}

func (a *asking) graded(ctx context.Context, name string) (metric.Score, error) {
	j, err := a.judge(ctx, a.s)
	if err != nil {
		return metric.Score{}, err
	}
	switch name {
	case "answer_relevancy":
		return j.AnswerRelevancy(ctx, a.q.Text, a.item.Answer)
	case "correct":
		var truths []string
		if a.q.known && a.q.CanAnswer() {
			if truths = a.q.Answers; len(truths) == 0 {
				return metric.Score{Unscored: "there is no true answer"}, nil
			}
		}
		return j.Correct(ctx, a.q.Text, a.item.Answer, truths)
	}
	contexts, err := a.contextTexts(ctx)
	if err != nil {
		return metric.Score{}, err
	}
	switch name {
	case "faithfulness":
		return j.Faithfulness(ctx, a.q.Text, a.item.Answer, contexts)
	case "context_relevancy":
		return j.ContextRelevancy(ctx, a.q.Text, contexts)
	}
	return j.CorrectBy(ctx, a.q.Text, a.item.Answer, contexts)
}

// csga returns the best cosine of the answer with a true one.
func (a *asking) csga(ctx context.Context) (metric.Score, error) {
	if len(a.q.Answers) == 0 {
		return metric.Score{Unscored: "there is no true answer"}, nil
	}
	vectors, err := a.s.vectors(ctx, append([]string{a.item.Answer}, a.q.Answers...))
	if err != nil {
		return metric.Score{}, err
	}
	best := -1.0
	for _, v := range vectors[1:] {
		best = max(best, metric.Cosine(vectors[0], v))
	}
	return metric.Of(best), nil
}

// vectors of texts, as documents.
func (s *session) vectors(ctx context.Context, texts []string) ([][]float32, error) {
	e, err := s.Embed(ctx, texts, embed.Document)
	if err != nil {
		return nil, err
	}
	all := make([][]float32, len(texts))
	for i := range all {
		all[i] = e.Row(i)
	}
	return all, nil
}
