package mcp

import (
	"cmp"
	"context"
	"errors"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sluice-rag/sluice"
	"github.com/sluice-rag/sluice/rag/answer"
	"github.com/sluice-rag/sluice/rag/corpus"
	"github.com/sluice-rag/sluice/rag/flow"
	"github.com/sluice-rag/sluice/rag/gate"
	"github.com/sluice-rag/sluice/rag/prompt"
	"github.com/sluice-rag/sluice/rag/retrieve"
	"github.com/sluice-rag/sluice/rag/store"
)

// tools are the tools over the options.
type tools struct{ Options }

func (t *tools) add(s *sdk.Server) {
	closed := false
	reads := &sdk.ToolAnnotations{ReadOnlyHint: true, IdempotentHint: true, OpenWorldHint: &closed}
	tool(t, s, sdk.Tool{Name: "gate", Title: "Can the knowledge base help?", Annotations: reads,
		Description: "Decide whether the knowledge base can help with a question at all, from calibrated similarities " +
			"and without a language model. retrieve true: search or ask. retrieve false: the documents have nothing " +
			"about it."}, t.gate)
	tool(t, s, sdk.Tool{Name: "search", Title: "Search the knowledge base", Annotations: reads,
		Description: "Find the passages of the documents that fit a question best, with their scores and places. " +
			"Where the gate is closed the list is empty, unless gate is \"open\"."}, t.search, retrieve.Options{})
	tool(t, s, sdk.Tool{Name: "ask", Title: "Ask the knowledge base", Annotations: reads,
		Description: "Answer a question from the documents, with citations [1], [2] whose sources are listed. " +
			"retrieved false: the answer is not from the documents."}, t.ask, answer.Options{}, retrieve.Options{})
	tool(t, s, sdk.Tool{Name: "get_document", Title: "Read a document", Annotations: reads,
		Description: "Read a document by its id in passages, in the order of its text."}, t.getDocument)
	tool(t, s, sdk.Tool{Name: "list_documents", Title: "List the documents", Annotations: reads,
		Description: "List the documents of the knowledge base in the order in which they were stored."}, t.listDocuments)
	if t.Ingest != nil {
		tool(t, s, sdk.Tool{Name: "ingest", Title: "Put texts into the knowledge base",
			Annotations: &sdk.ToolAnnotations{IdempotentHint: true, OpenWorldHint: &closed},
			Description: "Store texts as documents, so that they are found from then on. A text with the id of a " +
				"stored document replaces it."}, t.ingest)
	}
}

// query is a question, whose length is bounded by the size of a message.
type query struct {
	Query string `json:"query" doc:"the question, in a sentence"`
}

// Decided is the result of the tool gate.
type Decided struct {
	Store    string        `json:"store"`
	Decision gate.Decision `json:"decision"`
}

// empty returns an error for a text without a word.
func empty(name, text string) error {
	if strings.TrimSpace(text) == "" {
		return argument("%s: a text is needed, given %d characters of white space", name, len(text))
	}
	return nil
}

func (t *tools) gate(ctx context.Context, c *call, in query) (out Decided, err error) {
	if err := empty("query", in.Query); err != nil {
		return out, err
	}
	decisions, err := c.base.Gate(ctx, []string{in.Query})
	if err != nil {
		return out, err
	}
	return Decided{c.base.Name, decisions[0]}, nil
}

// searching is the arguments of a search; a missing one has the server's default.
type searching struct {
	Query string   `json:"query" doc:"the question, in a sentence"`
	K     int      `json:"k,omitempty" bounds:"1,100" doc:"passages at most"`
	Mode  string   `json:"mode,omitempty"`
	Where []string `json:"where,omitempty" doc:"conditions on the documents of passages, such as topic=physics or meta.year>=2020"`
	Gate  string   `json:"gate,omitempty" oneof:"auto open" doc:"auto, the default: no passages where the gate is closed; open: the gate is not asked"`
}

// Searched is the result of the tool search.
type Searched struct {
	Store    string                `json:"store"`
	Decision *gate.Decision        `json:"decision,omitempty"` // if the gate was asked
	Taken    *retrieve.Taken       `json:"taken,omitempty"`    // how the list was made; absent where the gate is closed
	Results  []sluice.FoundPassage `json:"results"`
}

// retrieving returns the options of a search.
func (t *tools) retrieving(k int, mode string, where []string) (o retrieve.Options, err error) {
	o = t.Retrieve
	o.K, o.Mode = cmp.Or(k, o.K), cmp.Or(retrieve.Mode(mode), o.Mode)
	if where != nil {
		o.Where, err = retrieve.ParseFilter(where)
	}
	return o, err
}

func (t *tools) search(ctx context.Context, c *call, in searching) (out Searched, err error) {
	if err := empty("query", in.Query); err != nil {
		return out, err
	}
	o, err := t.retrieving(in.K, in.Mode, in.Where)
	if err != nil {
		return out, err
	}
	c.step("searching")
	all, _, err := c.base.Lookup(ctx, []string{in.Query}, sluice.LookupOptions{Gate: answer.GateMode(in.Gate),
		Retrieve: &o})
	if err != nil {
		return out, err
	}
	titles, err := c.base.Documents().TitlesOf(ctx, all[0].Found)
	if err != nil {
		return out, err
	}
	out = Searched{Store: c.base.Name, Decision: all[0].Decision, Results: all[0].Lines(titles)}
	if d := all[0].Decision; d == nil || d.Retrieve {
		out.Taken = &all[0].Taken
	}
	return out, nil
}

// asking is the arguments of the tool ask; a missing one has the server's default.
type asking struct {
	Question  string   `json:"question" doc:"the question, in a sentence"`
	Gate      string   `json:"gate,omitempty"`
	Style     string   `json:"style,omitempty"`
	Language  string   `json:"language,omitempty"`
	MaxTokens int      `json:"max_tokens,omitempty" bounds:"1,131072" doc:"longest answer, tokens"`
	K         int      `json:"k,omitempty" bounds:"1,100" doc:"passages at most"`
	Where     []string `json:"where,omitempty" doc:"conditions on the documents of passages, such as topic=physics or meta.year>=2020"`
}

// Asked is the result of the tool ask.
type Asked struct {
	Store     string            `json:"store"`
	Answer    string            `json:"answer"`
	Retrieved bool              `json:"retrieved"`           // passages were in the prompt
	Truncated bool              `json:"truncated,omitempty"` // the model was stopped at max_tokens or its window
	Outcome   flow.Outcome      `json:"outcome"`
	Notice    string            `json:"notice,omitempty"`   // a remark for the reader on how the answer was made
	Decision  *gate.Decision    `json:"decision,omitempty"` // if the gate was asked
	Sources   []prompt.Citation `json:"sources"`
	Nearest   []prompt.Citation `json:"nearest,omitempty"` // for a question without an answer
}

func (t *tools) ask(ctx context.Context, c *call, in asking) (out Asked, err error) {
	if err := empty("question", in.Question); err != nil {
		return out, err
	}
	o := t.Ask
	o.Gate, o.Style = cmp.Or(answer.GateMode(in.Gate), o.Gate), cmp.Or(answer.Style(in.Style), o.Style)
	o.Language, o.MaxTokens = cmp.Or(in.Language, o.Language), cmp.Or(in.MaxTokens, o.MaxTokens)
	if o.Retrieve, err = t.retrieving(in.K, "", in.Where); err != nil {
		return out, err
	}
	if t.Answering != nil {
		leave, err := t.Answering(ctx)
		if err != nil {
			return out, err
		}
		defer leave()
	}
	c.step("reading the question")
	o.Step = func(s flow.Step) { c.step(s.Node) }
	o.Think = func(string) error { c.goes("thinking"); return nil }
	o.Stream = func(string) error { c.goes("writing"); return nil }
	a, err := c.base.Ask(ctx, in.Question, o)
	if err != nil {
		return out, err
	}
	return Asked{Store: c.base.Name, Answer: a.Answer, Retrieved: a.Retrieved, Truncated: a.Truncated,
		Outcome: a.Trace.Outcome, Notice: a.Trace.Notice, Decision: a.Trace.Gate, Sources: a.Citations,
		Nearest: a.Nearest}, nil
}

// reading is the arguments of the tool get_document.
type reading struct {
	ID     string `json:"id" doc:"id of the document, as search and list_documents give it"`
	Offset int    `json:"offset,omitempty" bounds:"0,1099511627776" doc:"passages that are left out before the first one"`
	Limit  int    `json:"limit,omitempty" bounds:"1,200" doc:"passages at most; 50 unless given"`
}

// Read is the result of the tool get_document.
type Read struct {
	Store    string              `json:"store"`
	Document sluice.DocumentLine `json:"document"`
	Offset   int                 `json:"offset"`
	Chunks   []corpus.Chunk      `json:"chunks"`
}

const pageLength = 50 // of a list, unless its request says otherwise

func (t *tools) getDocument(ctx context.Context, c *call, in reading) (out Read, err error) {
	d, err := c.base.Documents().Get(ctx, in.ID)
	if err != nil {
		return out, err
	}
	out = Read{Store: c.base.Name, Document: sluice.LineOf(d), Offset: in.Offset, Chunks: []corpus.Chunk{}}
	at, limit := 0, cmp.Or(in.Limit, pageLength)
	for chunk, err := range c.base.Documents().ChunksOf(ctx, d.ID) {
		if err != nil {
			return out, err
		}
		if at++; at > in.Offset {
			out.Chunks = append(out.Chunks, chunk)
		}
		if len(out.Chunks) == limit {
			break
		}
	}
	return out, nil
}

// listing is the arguments of the tool list_documents.
type listing struct {
	Words  string `json:"words,omitempty" doc:"only documents with all these words in their id, title or topic"`
	Topic  string `json:"topic,omitempty" doc:"only documents of this topic"`
	Offset int    `json:"offset,omitempty" bounds:"0,1099511627776" doc:"documents that are left out before the first one"`
	Limit  int    `json:"limit,omitempty" bounds:"1,500" doc:"documents at most; 50 unless given"`
}

// Listed is the result of the tool list_documents.
type Listed struct {
	Store     string                `json:"store"`
	Documents []sluice.DocumentLine `json:"documents"`
	Total     int                   `json:"total"` // that match
	Offset    int                   `json:"offset"`
}

func (t *tools) listDocuments(ctx context.Context, c *call, in listing) (out Listed, err error) {
	all, err := documents(ctx, c.base)
	if err != nil {
		return out, err
	}
	out = Listed{Store: c.base.Name, Documents: []sluice.DocumentLine{}, Offset: in.Offset}
	words, limit := strings.Fields(strings.ToLower(in.Words)), cmp.Or(in.Limit, pageLength)
	for _, d := range all {
		line := sluice.LineOf(d)
		if in.Topic != "" && d.Topic != in.Topic || !line.Has(words) {
			continue
		}
		if out.Total++; out.Total > in.Offset && len(out.Documents) < limit {
			out.Documents = append(out.Documents, line)
		}
	}
	return out, nil
}

// documents returns the records of all documents; a base without a store has none.
func documents(ctx context.Context, b Base) ([]store.DocumentInfo, error) {
	all, err := b.Documents().List(ctx)
	if errors.Is(err, store.ErrNoStore) {
		return nil, nil
	}
	return all, err
}
