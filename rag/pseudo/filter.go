package pseudo

import (
	"context"
	"fmt"

	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/kernels"
)

// rankBatch questions are embedded and ranked at a time: enough to fill the encoder's batches, in flat memory.
const rankBatch = 1024

// candidate is a question that only its rank decides about.
type candidate struct {
	row  int // of its context
	text string
	near bool // its context is among the best RankLimit
}

// filter applies the filters that look at one question to the model's answers about the contexts in rows, in that
// order, and finds the rank of what is left.
func filter(
	ctx context.Context, emb embed.Embedder, e engine.Interface, c Contexts, rows []int, answers [][]answer, o Options,
	report *Report,
) ([]candidate, error) {
	var list []candidate
	for i, row := range rows {
		passage, template, err := spoken(c.Chunks[row].Text, o)
		if err != nil {
			return nil, err
		}
		report.Generated += len(answers[i])
		for _, a := range answers[i] {
			reason := fault(a.Text, passage, template)
			if a.Cut {
				reason = TooLong
			}
			if reason != "" {
				report.Rejected[reason]++
				continue
			}
			list = append(list, candidate{row: row, text: a.Text})
		}
	}
	for start := 0; start < len(list); start += rankBatch {
		if err := rank(ctx, emb, e, c.Vectors, list[start:min(start+rankBatch, len(list))], o); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// keeper leaves out what comes twice, ranks too low, or is more than a context is to have.
type keeper struct {
	seen map[string]bool
	kept map[int][]Query // by row
}

func newKeeper() *keeper { return &keeper{map[string]bool{}, map[int][]Query{}} }

func (k *keeper) add(c Contexts, list []candidate, o Options, report *Report) {
	for _, q := range list {
		var reason Reason
		switch {
		case k.seen[normal(q.text)]:
			reason = Duplicate
		case !q.near:
			reason = LowRank
		case len(k.kept[q.row]) == o.PerContext:
			reason = Surplus
		}
		if reason != "" {
			report.Rejected[reason]++
			continue
		}
		k.seen[normal(q.text)] = true
		id := c.Chunks[q.row].ID
		k.kept[q.row] = append(k.kept[q.row],
			Query{ID: fmt.Sprintf("%s-q%d", id, len(k.kept[q.row])+1), ContextID: id, Text: q.text})
	}
}

// short returns the rows that have fewer than n questions.
func (k *keeper) short(rows []int, n int) (short []int) {
	for _, row := range rows {
		if len(k.kept[row]) < n {
			short = append(short, row)
		}
	}
	return short
}

// all returns the questions in the order of their contexts, and counts them.
func (k *keeper) all(rows []int, report *Report) (kept []Query) {
	for _, row := range rows {
		kept = append(kept, k.kept[row]...)
	}
	report.Barren, report.Kept = len(rows)-len(k.kept), len(kept)
	return kept
}

// spoken returns the words of the passage, and those of the prompts about it that are not the passage's.
func spoken(text string, o Options) (passage, template wordSet, err error) {
	requests, err := o.Prompter.Requests(text, o.PerContext)
	passage, template = wordsOf(text), wordSet{}
	for _, r := range requests {
		for t := range wordsOf(r.text()) {
			if !passage[t] {
				template[t] = true
			}
		}
	}
	return passage, template, err
}

// rank finds out which questions have their own context among the best RankLimit of the whole base.
func rank(
	ctx context.Context, emb embed.Embedder, e engine.Interface, contexts engine.Vectors, list []candidate, o Options,
) error {
	texts := make([]string, len(list))
	for i, q := range list {
		texts[i] = q.text
	}
	v, err := emb.Embed(ctx, texts, embed.Query)
	if err != nil {
		return fmt.Errorf("pseudo: embedding questions: %w", err)
	}
	if v.Dim != contexts.Dim || len(v.Data) != len(list)*v.Dim {
		return fmt.Errorf("pseudo: %w: questions of dimension %d, contexts of %d", kernels.ErrShape, v.Dim,
			contexts.Dim)
	}
	hits, err := e.TopK(ctx, engine.Vectors{Data: v.Data, Rows: len(list), Dim: v.Dim}, contexts, o.Metric, o.RankLimit,
		nil)
	if err != nil {
		return fmt.Errorf("pseudo: ranking questions: %w", err)
	}
	for i, best := range hits {
		for _, h := range best {
			list[i].near = list[i].near || h.Row == list[i].row
		}
	}
	return nil
}
