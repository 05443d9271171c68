package serve

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

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
	question, history, ignored, err := conversation(req.Messages)
	if err != nil {
		return err
	}
	o, err := s.askOptions(q, req, settings)
	if err != nil {
		return err
	}
	if err := s.modelTakes(r.Context(), req); err != nil {
		return err
	}
	o.History = history
	if q.Streams() {
		return s.streamFromBase(w, r, b, question, o, h, ignored, q.WantsUsage(), settings.Steps)
	}
	a, err := b.Ask(r.Context(), question, o)
	if err != nil {
		return chatError(err)
	}
	text := a.Answer
	out := h.completion(openai.Choice{Message: openai.Said{Role: "assistant", Content: &text, Reasoning: a.Thought,
		Annotations: annotations(r, b, text, a.Citations)},
		FinishReason: openai.FinishReason(a.Trace.Finish)})
	out.Usage, out.Sluice = ragUsage(a), ragAnswerOf(b, a, ignored)
	return writeJSON(w, http.StatusOK, out)
}

// modelTakes returns an error if the language model takes no more requests, or not this one: after the sources of a
// stream have been sent, it would be too late for a 429.
func (s *Server) modelTakes(ctx context.Context, req llm.Request) error {
	if err := s.loaded(); err != nil {
		return err
	}
	g, err := s.models().Models().Language(ctx)
	if err != nil {
		return err
	}
	if err := fits(g, req); err != nil {
		return err
	}
	if m, ok := g.(interface{ Ready() error }); ok {
		return m.Ready()
	}
	return nil
}

// conversation returns the question, the history, and the ignored messages: system messages are replaced by the
// knowledge base's own prompts.
func conversation(all []llm.Message) (question string, history []llm.Message, ignored []string, err error) {
	last := len(all) - 1
	param := fmt.Sprintf("messages[%d]", last)
	if all[last].Role != llm.User {
		return "", nil, nil, bad(param+".role", "the last message has to be the user's question, its role is %q",
			all[last].Role)
	}
	question = strings.TrimSpace(all[last].Content)
	if question == "" {
		return "", nil, nil, bad(param+".content", "the question is empty")
	}
	for i, m := range all[:last] {
		if m.Role == llm.User || m.Role == llm.Assistant && len(m.ToolCalls) == 0 {
			history = append(history, llm.Message{Role: m.Role, Content: m.Content})
		} else {
			ignored = append(ignored, fmt.Sprintf("messages[%d]: role %s", i, m.Role))
		}
	}
	return question, history, ignored, nil
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
		{"n", q.Choices() > 1}, {"stop", len(req.Stop) > 0}, {"response_format", len(req.Schema) > 0},
		{"tools", len(req.Tools) > 0},
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

func ragUsage(a *answer.Answer) *openai.Usage {
	return &openai.Usage{PromptTokens: a.Trace.PromptTokens, CompletionTokens: a.Trace.AnswerTokens,
		TotalTokens:       a.Trace.PromptTokens + a.Trace.AnswerTokens,
		CompletionDetails: &openai.CompletionDetails{ReasoningTokens: a.Trace.ThoughtTokens}}
}

func ragAnswerOf(b *base, a *answer.Answer, ignored []string) *ragAnswer {
	return &ragAnswer{Store: b.Name, Retrieved: a.Retrieved, Notice: a.Trace.Notice, Ignored: ignored,
		Citations: a.Citations, Nearest: a.Nearest, Trace: &a.Trace}
}

// streamFromBase streams an answer: the first chunk has the sources with the decision, then the text follows, and the
// last chunk has the cited sources and the whole trace.
func (s *Server) streamFromBase(w http.ResponseWriter, r *http.Request, b *base, question string, o answer.Options,
	h head, ignored []string, usage, steps bool) error {
	out := openai.NewStream(w)
	var failed error // error of a chunk sent in a callback that returns none
	send := func(c *openai.ChatChunk) {
		if d := &c.Choices[0].Delta; !out.Begun() { // OpenAI's clients expect the role in the first chunk
			d.Role = "assistant"
			d.Content = cmp.Or(d.Content, new(string))
		}
		if failed == nil {
			failed = out.Send(c)
		}
	}
	var begun answer.Trace
	o.Start = func(t answer.Trace) { begun = t }
	o.Sources = func(list []prompt.Citation) {
		c := h.chunk(openai.Delta{}, "")
		if list == nil {
			list = []prompt.Citation{}
		}
		c.Sluice = &ragAnswer{Store: b.Name, Retrieved: len(list) > 0, Notice: begun.Notice, Ignored: ignored,
			Citations: list, Trace: &begun}
		send(c)
	}
	o.Stream = func(piece string) error {
		send(h.chunk(openai.Delta{Content: &piece}, ""))
		return failed
	}
	o.Think = func(piece string) error {
		send(h.chunk(openai.Delta{Reasoning: piece}, ""))
		return failed
	}
	if steps {
		o.Step = func(step flow.Step) {
			c := h.chunk(openai.Delta{}, "")
			c.Sluice = map[string]any{"step": step}
			send(c)
		}
	}
	a, err := b.Ask(r.Context(), question, o)
	if err == nil {
		err = failed
	}
	if err != nil {
		return breakOff(out, chatError(err))
	}
	last := h.chunk(openai.Delta{Annotations: annotations(r, b, a.Answer, a.Citations)},
		openai.FinishReason(a.Trace.Finish))
	last.Sluice = ragAnswerOf(b, a, ignored)
	if send(last); failed != nil {
		return failed
	}
	return endStream(out, h, ragUsage(a), usage)
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
