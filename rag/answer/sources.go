package answer

import (
	"context"
	"fmt"
	"slices"

	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/rag/knowledge"
	"github.com/sluice-rag/sluice/rag/prompt"
	"github.com/sluice-rag/sluice/rag/retrieve"
)

// sentences finds the sentence of each source that is nearest to the question, once the answer is there. That it cannot
// is said, and no reason to fail.
func (a *State) sentences(ctx context.Context, passages []prompt.Passage) {
	citations := a.Answer.Citations
	if !a.Retrieve.Sentences || len(citations) == 0 {
		return
	}
	passages = passages[:len(citations)] // those that fit the prompt are the first ones
	for i := range citations {
		citations[i].Sentence = passages[i].Sentence
	}
	if a.trace.Compression != nil || a.trace.Style == Quote { // they are known
		return
	}
	a.nearestSentences(ctx, "sources", citations, a.vectors, chunkTexts(passages))
}

// nearestSentences gives citations the sentences of their texts that are nearest to the queries.
func (a *State) nearestSentences(
	ctx context.Context, what string, list []prompt.Citation, queries engine.Vectors, texts []string,
) {
	defer timer(&a.trace.Milliseconds.Sentences)()
	found, err := a.base.Sentences(ctx, a.metric, []engine.Vectors{queries}, [][]string{texts})
	if err != nil {
		a.base.Logger().Warn(fmt.Sprintf("the %s come without their nearest sentences: %v", what, err))
		return
	}
	for i := range list {
		list[i].Sentence = found[0][i]
	}
}

// remember keeps what the first search with results found, for a question that stays without an answer. It is the
// search for the question itself, unless that found nothing.
func (a *State) remember() {
	if len(a.found) == 0 {
		a.found, a.foundBy = slices.Clone(a.Passages), a.vectors
	}
}

// nearest returns the passages nearest to a question without an answer, whatever graders said of them: they may hold
// what the model could not say. Where they cannot be found, the list is empty and the reason is logged.
func (a *State) nearest(ctx context.Context) []prompt.Citation {
	if len(a.found) == 0 && a.Gate != GateClosed {
		if err := a.look(ctx); err != nil {
			a.base.Logger().Warn(fmt.Sprintf("the passages nearest to the question cannot be shown: %v", err))
		}
	}
	list, texts := prompt.Citations(a.found), chunkTexts(a.found)
	for i := range list {
		list[i].Text = texts[i]
	}
	if a.Retrieve.Sentences && len(list) > 0 && a.foundBy.Rows > 0 {
		a.nearestSentences(ctx, "nearest passages", list, a.foundBy, texts)
	}
	return list
}

// look searches the store for the question as it was asked, where no node has done so.
func (a *State) look(ctx context.Context) error {
	if err := a.open(ctx); err != nil {
		return err
	}
	defer timer(&a.trace.Milliseconds.Retrieve)()
	texts := Standing(a.Question, a.History)
	e, err := a.base.Embed(ctx, texts, embed.Query)
	if err != nil {
		return err
	}
	a.foundBy = knowledge.Vectors(e)
	lists, err := a.snapshot.Search(ctx, retrieve.Queries{Texts: texts, Vectors: a.foundBy}, a.Retrieve)
	if err == nil {
		a.found, err = Passages(ctx, a.snapshot, retrieve.Merge(lists, a.Retrieve.K), a.Retrieve)
	}
	return err
}
