package serve

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"github.com/sluice-rag/sluice/internal/spans"
	"github.com/sluice-rag/sluice/llm"
	"github.com/sluice-rag/sluice/serve/openai"
)

const (
	maxMessages = 1024
	maxTools    = 128
	maxChoices  = 128 // completions per request, as in OpenAI's API
	// chatTokens is the default limit of a completion: without a limit, a request would reserve the whole context
	// window, and leave no room for others.
	chatTokens = 1024
)

func (s *Server) shapeLimits() openai.Limits {
	ask := s.cfg.Ask
	return openai.Limits{Messages: maxMessages, Texts: s.cfg.Limits.Batch, Tools: maxTools, MaxTokens: chatTokens,
		Choices: maxChoices, Thinking: llm.Thinking{Effort: ask.ReasoningEffort, Tokens: ask.ThinkingBudget}}
}

// head has the fields that all chunks of an answer share.
type head struct {
	id      string
	created int64
	model   string
	index   int // of the choice
}

// at returns the head for the choice with an index.
func (h head) at(index int) head {
	h.index = index
	return h
}

func newHead(prefix, model string) head {
	return head{id: prefix + "-" + strings.ToLower(rand.Text()), created: time.Now().Unix(), model: model}
}

func (h head) completion(choices ...openai.Choice) *openai.ChatCompletion {
	return &openai.ChatCompletion{ID: h.id, Object: "chat.completion", Created: h.created, Model: h.model,
		Choices: choices}
}

func (h head) chunk(d openai.Delta, finish string) *openai.ChatChunk {
	c := openai.ChunkChoice{Index: h.index, Delta: d}
	if finish != "" {
		c.FinishReason = &finish
	}
	return &openai.ChatChunk{ID: h.id, Object: "chat.completion.chunk", Created: h.created, Model: h.model,
		Choices: []openai.ChunkChoice{c}}
}

// usage returns the chunk after the last one, if usage was requested, else nil.
func (h head) usage(u *openai.Usage) *openai.ChatChunk {
	return &openai.ChatChunk{ID: h.id, Object: "chat.completion.chunk", Created: h.created, Model: h.model,
		Choices: []openai.ChunkChoice{}, Usage: u}
}

// chat answers POST /v1/chat/completions: from a knowledge base for the models "sluice" and "sluice/NAME", else by the
// language model alone.
func (s *Server) chat(w http.ResponseWriter, r *http.Request, q *openai.ChatRequest) error {
	to, err := s.addressed(r, q, true)
	if err != nil {
		return err
	}
	h := newHead("chatcmpl", to.name)
	if to.base != nil {
		return s.chatFromBase(w, r, to.base, q, to.req, to.settings, h)
	}
	oneCall := q.ParallelToolCalls != nil && !*q.ParallelToolCalls
	all := requestsFor(to.req, q.Choices())
	if q.Streams() {
		return s.streamChat(w, r, to.model, all, h, oneCall, q.WantsUsage())
	}
	results, err := s.generateAll(r.Context(), to.model, all, nil)
	if err != nil {
		return chatError(err)
	}
	out := h.completion()
	for i, one := range results {
		out.Choices = append(out.Choices, openai.Choice{Index: i, Message: said(one, oneCall),
			FinishReason: openai.FinishReason(one.Finish), LogProbs: openai.LogProbsOf(to.req.LogProbs, one.LogProbs)})
	}
	out.Usage = openai.UsageOf(len(results), results...)
	return writeJSON(w, http.StatusOK, out)
}

// addressee is what answers a chat request.
type addressee struct {
	name     string // for the answer
	base     *base  // nil: the language model alone
	model    llm.Generator
	settings ragSettings
	req      llm.Request
}

// addressed finds out what a chat request is to be answered by. strictly refuses settings of a knowledge base for the
// language model alone.
func (s *Server) addressed(r *http.Request, q *openai.ChatRequest, strictly bool) (x addressee, err error) {
	if x.settings, err = s.ragSettingsOf(q.Sluice); err != nil {
		return x, err
	}
	model, shown := s.called(q.Model)
	if x.base, err = s.ragBase(r, model, x.settings.Store); err != nil {
		return x, err
	}
	var wrong *openai.Error
	if x.req, wrong = q.Request(s.shapeLimits()); wrong != nil {
		return x, wrong
	}
	if x.base != nil {
		x.name = cmp.Or(shown, model, ragModel)
		return x, nil
	}
	if strictly && given(q.Sluice) {
		return x, bad("sluice", "these settings are of answers from a knowledge base, not of the model %q",
			shortened(q.Model))
	}
	if x.model, x.name, err = s.generator(r.Context(), model); err != nil {
		return x, err
	}
	if x.name = cmp.Or(shown, x.name); r.URL.Query().Get(storeParameter) != "" {
		return x, bad(storeParameter, "the model %q answers from no knowledge base", shortened(q.Model))
	}
	return x, fits(x.model, x.req)
}

// generate runs the language model in a span of its own.
func generate(ctx context.Context, g llm.Generator, req llm.Request, stream func(string) error) (_ llm.Result,
	err error) {
	ctx, end := spans.Start(ctx, "generate")
	defer end(&err)
	result, err := g.Generate(ctx, req, stream)
	spans.Say(ctx, attribute.Int("sluice.prompt_tokens", result.PromptTokens),
		attribute.Int("sluice.completion_tokens", result.CompletionTokens))
	return result, err
}

// tokenBytes is an upper bound on the bytes of a token: the longest tokens of vocabularies are runs of spaces.
const tokenBytes = 128

// fits refuses a prompt that exceeds the context window by its bytes alone: tokenizing megabytes takes seconds, during
// which no other text is tokenized.
func fits(g llm.Generator, req llm.Request) error {
	bytes, limit := len(req.Prompt), tokenBytes*g.ContextSize()
	for _, m := range req.Messages {
		bytes += len(m.Content)
	}
	if bytes <= limit {
		return nil
	}
	return &requestError{Status: http.StatusBadRequest, Code: "context_length_exceeded",
		Message: fmt.Sprintf("the texts have %d bytes, more than fit the window of %d tokens; at most %d bytes are read",
			bytes, g.ContextSize(), limit)}
}

func said(r llm.Result, oneCall bool) openai.Said {
	out := openai.Said{Role: "assistant", Reasoning: r.Thought}
	if len(r.ToolCalls) > 0 {
		out.ToolCalls = openai.Calls(calls(r, oneCall), false)
		if r.Text == "" {
			return out
		}
	}
	out.Content = &r.Text
	return out
}

// calls returns the tool calls of a result, only the first if the client wants one at a time.
func calls(r llm.Result, one bool) []llm.ToolCall {
	if one && len(r.ToolCalls) > 1 {
		return r.ToolCalls[:1]
	}
	return r.ToolCalls
}

// streamChat streams the choices: for each the role, the texts, the tool calls, and the finish reason, with
// probabilities if requested.
func (s *Server) streamChat(w http.ResponseWriter, r *http.Request, g llm.Generator, all []llm.Request, h head,
	oneCall, usage bool) error {
	out := openai.NewStream(w)
	begun := make([]bool, len(all))
	send := func(i int, chunks ...*openai.ChatChunk) error {
		if !begun[i] {
			begun[i] = true
			first := h.at(i).chunk(openai.Delta{Role: "assistant", Content: new("")}, "")
			chunks = append([]*openai.ChatChunk{first}, chunks...)
		}
		for _, x := range chunks {
			if err := out.Send(x); err != nil {
				return err
			}
		}
		return nil
	}
	results, err := s.generateAll(r.Context(), g, all, &watcher{
		piece: func(i int, piece string) error {
			return send(i, h.at(i).chunk(openai.Delta{Content: &piece}, ""))
		},
		thought: func(i int, piece string) error {
			return send(i, h.at(i).chunk(openai.Delta{Reasoning: piece}, ""))
		},
		end: func(i int, result llm.Result) error {
			var rest []*openai.ChatChunk
			for _, c := range openai.Calls(calls(result, oneCall), true) {
				rest = append(rest, callChunks(h.at(i), c)...)
			}
			last := h.at(i).chunk(openai.Delta{}, openai.FinishReason(result.Finish))
			last.Choices[0].LogProbs = openai.LogProbsOf(all[i].LogProbs, result.LogProbs)
			return send(i, append(rest, last)...)
		},
	})
	if err != nil {
		return breakOff(out, chatError(err))
	}
	return endStream(out, h, openai.UsageOf(len(results), results...), usage)
}

// callChunks returns a tool call as OpenAI streams it: first the tool, then the arguments.
func callChunks(h head, c openai.ToolCall) []*openai.ChatChunk {
	rest := openai.ToolCall{Index: c.Index}
	rest.Function.Arguments, c.Function.Arguments = c.Function.Arguments, ""
	return []*openai.ChatChunk{h.chunk(openai.Delta{ToolCalls: []openai.ToolCall{c}}, ""),
		h.chunk(openai.Delta{ToolCalls: []openai.ToolCall{rest}}, "")}
}

// endStream sends what follows the last chunk of the answer.
func endStream(out *openai.Stream, h head, u *openai.Usage, wanted bool) error {
	if wanted {
		if err := out.Send(h.usage(u)); err != nil {
			return err
		}
	}
	return out.Done()
}

// breakOff ends a stream with an error: as a response of its own if nothing was sent yet, else as the event that
// OpenAI's clients raise as an exception, without [DONE].
func breakOff(out *openai.Stream, err error) error {
	if out.Begun() && !errors.Is(err, context.Canceled) { // otherwise the client has left, or run reports the shutdown
		_ = out.Send(errorBody{asRequestError(err).finish()}) // the client has left
	}
	return err
}

// decodeInto decodes a part of a request that has a format of its own.
func decodeInto(param string, raw json.RawMessage, into any) error {
	if !given(raw) {
		return nil
	}
	return within(param, decodeJSON(raw, into))
}

// within adds the name of a request's part to an error about the part.
func within(param string, err error) error {
	if err == nil {
		return nil
	}
	e := *asRequestError(err)
	e.Param = strings.Trim(param+"."+e.Param, ".")
	return &e
}

// given reports whether a part of a request is present.
func given(raw json.RawMessage) bool {
	text := strings.TrimSpace(string(raw))
	return text != "" && text != "null"
}

// tokenize answers POST /tokenize with the tokens of a text in a prompt of the language model.
func (s *Server) tokenize(w http.ResponseWriter, r *http.Request, q *openai.TokenizeRequest) error {
	text, wrong := q.Text()
	if wrong != nil {
		return wrong
	}
	model, shown := s.called(q.Model)
	g, name, err := s.generator(r.Context(), model)
	if err != nil {
		return err
	}
	if err := fits(g, llm.Request{Prompt: text}); err != nil {
		return err
	}
	out := openai.Tokenized{Model: cmp.Or(shown, name), MaxModelLen: g.ContextSize()}
	if c, ok := g.(interface {
		Tokenize(text string) ([]int32, error)
	}); ok {
		out.Tokens, err = c.Tokenize(text)
		out.Count = len(out.Tokens)
	} else {
		out.Count, err = g.CountTokens(text)
	}
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, out)
}
