// Package prompt builds what the language model reads: context prompts with numbered citations,
// few-shot and chain-of-thought prompts for the model's own knowledge, and query transformations.
// Templates are files; the token budget is kept, and what had to be cut is said.
package prompt

import (
	"errors"
	"time"

	"github.com/sluice-rag/sluice/llm"
	"github.com/sluice-rag/sluice/rag/corpus"
	"github.com/sluice-rag/sluice/rag/excerpt"
)

// Citation is a passage that an answer could use, shown to the model or searched for sentences to quote: [Number] in
// the answer refers to it.
type Citation struct {
	Number   int     `json:"number"`
	ID       string  `json:"id"`
	Document string  `json:"document"`
	Source   string  `json:"source"`
	Heading  string  `json:"heading,omitempty"`
	Anchor   string  `json:"anchor,omitempty"`
	Start    int     `json:"start"` // bytes of the source
	End      int     `json:"end"`
	Score    float64 `json:"score"` // of the search, which is not on the scale of the gate's
	Cited    bool    `json:"cited"` // the answer mentions [Number]

	// Sentence is the one of the context's text that is nearest to the question, if that was asked for.
	Sentence *excerpt.Sentence `json:"sentence,omitempty"`

	Web *Web `json:"web,omitempty"` // of a page of the web, whose address is Source

	Copies []Copy `json:"copies,omitempty"` // further places of the same text

	Text string `json:"text,omitempty"` // the context's, where it is shown in place of an answer
}

// Web says where in the web a passage comes from.
type Web struct {
	URL     string    `json:"url"`
	Title   string    `json:"title,omitempty"`
	Fetched time.Time `json:"fetched"`
}

// Passage is a retrieved chunk with its score.
type Passage struct {
	Chunk    corpus.Chunk
	Score    float64
	Sentence *excerpt.Sentence // nearest to the question, if that was asked for
	Joined   []string          // ids of the chunks that Chunk was joined from; nil: it is one as it was stored
	Text     string            // what of the chunk's text is shown; "" is all of it
	Web      *Web              // nil: it is not of the web
	Copies   []Copy            // further places of the chunk's text
}

// Copy is a chunk of the same text as another one.
type Copy struct {
	ID       string `json:"id"`
	Document string `json:"document"`
	Source   string `json:"source"`
	Start    int    `json:"start"` // bytes of the source
	End      int    `json:"end"`
}

// Copies are the places of chunks.
func Copies(chunks []corpus.Chunk) (all []Copy) {
	for _, c := range chunks {
		all = append(all, Copy{c.ID, c.Document, c.Source, c.Start, c.End})
	}
	return all
}

// Prompt is ready for the generator.
type Prompt struct {
	Messages []llm.Message
	// Text stands for Messages in a template that is one text; Stop are its marks, which an answer must not go on with.
	Text string
	Stop []string

	Citations []Citation
	Tokens    int // of the whole formatted prompt, as far as the counter can tell
	Dropped   int // passages that did not fit the budget
	Truncated int // passages that were shortened to fit
	Template  string
}

// The errors of this package.
var (
	ErrBudget   = errors.New("prompt: the question does not fit the model's context")
	ErrTemplate = errors.New("prompt: bad template")
)
