package serve

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"

	"github.com/sluice-rag/sluice/llm"
	"github.com/sluice-rag/sluice/llm/grammar"
	"github.com/sluice-rag/sluice/rag/answer"
	"github.com/sluice-rag/sluice/rag/flow"
	"github.com/sluice-rag/sluice/rag/prompt"
	"github.com/sluice-rag/sluice/rag/retrieve"
	"github.com/sluice-rag/sluice/serve/openai"
)

// ragSettings is the "sluice" object of a request, with settings of answers from a knowledge base. Missing fields have
// the server's defaults.
type ragSettings struct {
	Store string `json:"store"`
	Steps bool   `json:"steps"` // a stream reports each finished node of the flow
	askSettings
	searchSettings
}

// Both types are called Options, and a struct can embed them only under different names.
type (
	askSettings    = answer.Options
	searchSettings = retrieve.Options
)

func (s *Server) ragSettingsOf(raw json.RawMessage) (x ragSettings, err error) {
	x.askSettings = s.cfg.Ask
	err = s.decodeSearch(&x.searchSettings, func() error { return decodeInto("", raw, &x) })
	return x, within("sluice", err)
}

// ragAnswer is the "sluice" object of an answer.
type ragAnswer struct {
	Store     string            `json:"store"`
	Retrieved bool              `json:"retrieved"`         // passages were in the prompt
	Notice    string            `json:"notice,omitempty"`  // a remark for the reader on how the answer was made
	Ignored   []string          `json:"ignored,omitempty"` // messages that were not used
	Citations []prompt.Citation `json:"citations"`
	Nearest   []prompt.Citation `json:"nearest,omitempty"` // for a question without an answer
	Trace     *answer.Trace     `json:"trace,omitempty"`
}

// chatFromBase answers the last message from a knowledge base; the earlier ones are its history.
func (s *Server) chatFromBase(w http.ResponseWriter, r *http.Request, b *base, q *openai.ChatRequest, req llm.Request,
	settings ragSettings, h head) error {
	asked, err := s.asked(r.Context(), q, req, settings)
	if err != nil {
		return err
	}
	if q.Streams() {
		return s.streamFromBase(w, r, b, asked, h, q.WantsUsage(), settings.Steps)
	}
	answers := make([]*answer.Answer, asked.choices)
	if err := s.several(r.Context(), len(answers), asked.parallel, func(ctx context.Context, i int) (err error) {
		answers[i], err = b.Ask(ctx, asked.question, asked.choice(i))
		return err
	}); err != nil {
		return chatError(err)
	}
	out := h.completion()
	for i, a := range answers {
		out.Choices = append(out.Choices, openai.Choice{Index: i, Message: asked.said(r, b, a),
			FinishReason: openai.FinishReason(a.Trace.Finish)})
	}
	out.Usage, out.Sluice = ragUsage(answers...), ragAnswerOf(b, answers[0], asked.ignored)
	return writeJSON(w, http.StatusOK, out)
}

// ragAsked is a question for a knowledge base, with all that a request says of its answer.
type ragAsked struct {
	question string
	options  answer.Options
	ignored  []string // messages that were not used
	choices  int
	oneCall  bool // of a tool at a time
	parallel int  // answers that the language model writes at a time
}

// asked returns what a request asks of a knowledge base.
func (s *Server) asked(ctx context.Context, q *openai.ChatRequest, req llm.Request, settings ragSettings) (x ragAsked,
	err error) {
	talk, err := conversation(req.Messages)
	if err != nil {
		return x, err
	}
	if x.options, err = s.askOptions(q, req, settings); err != nil {
		return x, err
	}
	if x.parallel, err = s.modelTakes(ctx, req); err != nil {
		return x, err
	}
	x.question, x.ignored = talk.question, talk.ignored
	x.options.History, x.options.Form.Called = talk.history, talk.called
	x.choices, x.oneCall = q.Choices(), q.ParallelToolCalls != nil && !*q.ParallelToolCalls
	return x, nil
}

// choice returns the options of answer i: the seeds of further answers follow the one of the first.
func (x ragAsked) choice(i int) answer.Options {
	o := x.options
	o.Seed = openai.Each(llm.Request{Seed: o.Seed}, i).Seed
	return o
}

// refuses reports whether an answer is a sentence in place of JSON, which a program could not read.
func (x ragAsked) refuses(t answer.Trace) bool {
	return len(x.options.Form.Schema) > 0 && t.Outcome == flow.Unknown
}

// said returns an answer as a message.
func (x ragAsked) said(r *http.Request, b *base, a *answer.Answer) openai.Said {
	if x.refuses(a.Trace) {
		return openai.Said{Role: "assistant", Refusal: &a.Answer}
	}
	out := said(llm.Result{Text: a.Answer, Thought: a.Thought, ToolCalls: a.ToolCalls}, x.oneCall)
	out.Annotations = annotations(r, b, a.Answer, a.Citations)
	return out
}

// modelTakes returns how many requests the language model answers at a time, or an error if it takes no more requests,
// or not this one: after the sources of a stream have been sent, it would be too late for a status of its own.
func (s *Server) modelTakes(ctx context.Context, req llm.Request) (parallel int, err error) {
	if err := s.loaded(); err != nil {
		return 0, err
	}
	if len(req.Schema) > 0 {
		if _, err := grammar.FromSchema(req.Schema); err != nil {
			return 0, chatError(err)
		}
	}
	g, err := s.models().Models().Language(ctx)
	if err != nil {
		return 0, err
	}
	if err := fits(g, req); err != nil {
		return 0, err
	}
	if m, ok := g.(interface{ HasTools() error }); ok && req.HasTools() {
		if err := m.HasTools(); err != nil {
			return 0, chatError(err)
		}
	}
	if m, ok := g.(interface{ Ready() error }); ok {
		err = m.Ready()
	}
	return llm.ParallelOf(g), err
}

// talk is a conversation as a knowledge base takes it.
type talk struct {
	question        string        // of the last message of the user
	history, called []llm.Message // before the question; calls of tools after it, with their results
	ignored         []string      // system messages, which are replaced by the base's own prompts
}

func conversation(all []llm.Message) (t talk, err error) {
	last := len(all) - 1
	for last > 0 && (all[last].Role == llm.ToolRole || len(all[last].ToolCalls) > 0) {
		last--
	}
	param := fmt.Sprintf("messages[%d]", last)
	if all[last].Role != llm.User {
		return t, bad(param+".role", "the last message has to be the user's question, its role is %q", all[last].Role)
	}
	if t.question = strings.TrimSpace(all[last].Content); t.question == "" {
		return t, bad(param+".content", "the question is empty")
	}
	t.called = all[last+1:]
	for i, m := range all[:last] {
		if m.Role == llm.User || m.Role == llm.Assistant && len(m.ToolCalls) == 0 {
			t.history = append(t.history, llm.Message{Role: m.Role, Content: m.Content})
		} else {
			t.ignored = append(t.ignored, fmt.Sprintf("messages[%d]: role %s", i, m.Role))
		}
	}
	return t, nil
}

// askOptions returns the options of an answer from a base: the server's, overridden by the request.
func (s *Server) askOptions(q *openai.ChatRequest, req llm.Request, x ragSettings) (answer.Options, error) {
	o := x.askSettings
	if err := refuseForRAG(q, req); err != nil {
		return o, err
	}
	if q.MaxTokens != nil || q.MaxCompletionTokens != nil {
		o.MaxTokens = req.MaxTokens
	}
	if q.Temperature != nil {
		o.Temperature = req.Temperature
	}
	if q.TopP != nil {
		o.TopP = req.TopP
	}
	if q.TopK != nil {
		o.TopK = max(req.TopK, 0)
	}
	if q.RepeatPenalty != nil || q.RepetitionPenalty != nil {
		o.RepeatPenalty = req.RepeatPenalty
	}
	if q.Seed != nil {
		o.Seed = req.Seed
	}
	o.Form = answer.Form{Stop: req.Stop, Schema: req.Schema, Tools: req.Tools, ToolChoice: req.ToolChoice}
	o.ReasoningEffort, o.ThinkingBudget = req.Thinking.Effort, req.Thinking.Tokens
	if strings.ContainsAny(o.Template, `/\`) {
		return o, bad("sluice.template", "a template is named without a folder, given %q", shortened(o.Template))
	}
	o.Retrieve = x.searchSettings
	return o, nil
}

// refuseForRAG returns an error for parameters that answers from a knowledge base do not support.
func refuseForRAG(q *openai.ChatRequest, req llm.Request) error {
	for _, x := range []struct {
		param string
		given bool
	}{
		{"logprobs", req.LogProbs}, {"presence_penalty", req.PresencePenalty != 0},
		{"frequency_penalty", req.FrequencyPenalty != 0}, {"min_p", q.MinP != nil && *q.MinP != 0},
	} {
		if x.given {
			return &openai.Error{Code: openai.CodeUnsupported, Param: x.param,
				Message: x.param + ": answers from a knowledge base do not have it",
				Hint:    `leave it out, or ask the language model alone: model "default"`}
		}
	}
	return nil
}

func ragUsage(answers ...*answer.Answer) *openai.Usage {
	u := &openai.Usage{PromptTokens: answers[0].Trace.PromptTokens, CompletionDetails: &openai.CompletionDetails{}}
	for _, a := range answers {
		u.CompletionTokens += a.Trace.AnswerTokens
		u.CompletionDetails.ReasoningTokens += a.Trace.ThoughtTokens
	}
	u.TotalTokens = u.PromptTokens + u.CompletionTokens
	return u
}

func ragAnswerOf(b *base, a *answer.Answer, ignored []string) *ragAnswer {
	return &ragAnswer{Store: b.Name, Retrieved: a.Retrieved, Notice: a.Trace.Notice, Ignored: ignored,
		Citations: a.Citations, Nearest: a.Nearest, Trace: &a.Trace}
}

// streamFromBase streams the choices of an answer: the first chunk of each has the sources with the decision, then the
// text follows, and the last chunk has the cited sources and the whole trace.
func (s *Server) streamFromBase(w http.ResponseWriter, r *http.Request, b *base, asked ragAsked, h head,
	usage, steps bool) error {
	out := openai.NewStream(w)
	answers := make([]*answer.Answer, asked.choices)
	var mu sync.Mutex // guards out
	err := s.several(r.Context(), len(answers), asked.parallel, func(ctx context.Context, i int) error {
		c := ragChoice{ragAsked: asked, base: b, head: h.at(i), send: func(c *openai.ChatChunk) error {
			mu.Lock()
			defer mu.Unlock()
			return out.Send(c)
		}}
		a, err := b.Ask(ctx, asked.question, c.watched(asked.choice(i), steps))
		if err = cmp.Or(err, c.failed); err != nil {
			return err
		}
		answers[i] = a
		return c.end(r, a)
	})
	if err != nil {
		return breakOff(out, chatError(err))
	}
	return endStream(out, h, ragUsage(answers...), usage)
}

// ragChoice streams one choice.
type ragChoice struct {
	ragAsked
	base   *base
	head   head
	send   func(*openai.ChatChunk) error
	begun  answer.Trace
	spoken bool
	failed error // of a chunk sent in a callback that returns none
}

// chunk sends a chunk. OpenAI's clients expect the role in the first one.
func (c *ragChoice) chunk(x *openai.ChatChunk) error {
	if d := &x.Choices[0].Delta; !c.spoken {
		c.spoken, d.Role = true, "assistant"
		if d.Refusal == nil {
			d.Content = cmp.Or(d.Content, new(string))
		}
	}
	if c.failed == nil {
		c.failed = c.send(x)
	}
	return c.failed
}

// watched returns options whose callbacks send what they are called with.
func (c *ragChoice) watched(o answer.Options, steps bool) answer.Options {
	o.Start = func(t answer.Trace) { c.begun = t }
	o.Sources = func(list []prompt.Citation) {
		x := c.head.chunk(openai.Delta{}, "")
		if list == nil {
			list = []prompt.Citation{}
		}
		x.Sluice = &ragAnswer{Store: c.base.Name, Retrieved: len(list) > 0, Notice: c.begun.Notice, Ignored: c.ignored,
			Citations: list, Trace: &c.begun}
		_ = c.chunk(x) // it is kept in c.failed
	}
	o.Stream = func(piece string) error {
		if c.refuses(c.begun) {
			return c.chunk(c.head.chunk(openai.Delta{Refusal: &piece}, ""))
		}
		return c.chunk(c.head.chunk(openai.Delta{Content: &piece}, ""))
	}
	o.Think = func(piece string) error { return c.chunk(c.head.chunk(openai.Delta{Reasoning: piece}, "")) }
	if steps {
		o.Step = func(step flow.Step) {
			x := c.head.chunk(openai.Delta{}, "")
			x.Sluice = map[string]any{"step": step}
			_ = c.chunk(x) // it is kept in c.failed
		}
	}
	return o
}

// end sends the tool calls and the last chunk of an answer.
func (c *ragChoice) end(r *http.Request, a *answer.Answer) error {
	for _, call := range openai.Calls(calls(llm.Result{ToolCalls: a.ToolCalls}, c.oneCall), true) {
		for _, x := range callChunks(c.head, call) {
			if err := c.chunk(x); err != nil {
				return err
			}
		}
	}
	last := c.head.chunk(openai.Delta{Annotations: annotations(r, c.base, a.Answer, a.Citations)},
		openai.FinishReason(a.Trace.Finish))
	last.Sluice = ragAnswerOf(c.base, a, c.ignored)
	return c.chunk(last)
}

// chatError adds the parameter's name to an error of the language model.
func chatError(err error) error {
	for _, x := range []struct {
		kind  error
		param string
		code  string
		hint  string
	}{
		{grammar.ErrSchema, "response_format.json_schema.schema", "invalid_schema",
			"docs/api.md says what a schema may hold"},
		{grammar.ErrGrammar, "response_format", "invalid_schema", ""},
		{llm.ErrGrammar, "response_format", "invalid_schema", ""},
		{llm.ErrTools, "tools", "tools_unsupported", "serve a model whose chat template has tools"},
	} {
		if errors.Is(err, x.kind) {
			return &requestError{Status: http.StatusBadRequest, Code: x.code, Param: x.param,
				Message: withoutFolders(err.Error()), Hint: x.hint, cause: err}
		}
	}
	return err
}
