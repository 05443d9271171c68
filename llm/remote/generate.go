package remote

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/sluice-rag/sluice/llm"
)

// endWait is how long the connection may take to end a stream after [DONE], so that it can be used again.
const endWait = 100 * time.Millisecond

// Generate implements llm.Generator. Pieces are the server's deltas. PromptTime is the time to the first of them,
// retries and the connection included, DecodeTime the rest. Errors, beside the context's and stream's: llm.ErrOptions,
// llm.ErrClosed, *APIError, ErrTimeout, ErrRedirect, ErrResponse, ErrIncomplete, ErrTooLarge, and network errors.
func (g *Generator) Generate(ctx context.Context, req llm.Request, stream func(piece string) error) (llm.Result,
	error) {
	if err := g.Check(req); err != nil {
		return llm.Result{}, err
	}
	seed := req.Seed
	if seed < 0 {
		seed = rand.Int64N(llm.MaxSeed + 1)
	}
	a := &answer{req: req, stream: stream, started: time.Now(), result: llm.Result{Seed: seed},
		scope: llm.ScopeOf(ctx), shared: g.o.Extensions == NoExtensions}
	if req.Prompt == "" {
		a.reader = llm.NewThinkReader(g.o.ThinkingOpened)
	}
	w := g.watch(ctx)
	defer w.end()
	if g.life.Err() != nil {
		return a.end(llm.ErrClosed)
	}
	resp, err := g.ask(w, req, seed)
	if err != nil {
		return a.end(err)
	}
	defer resp.Body.Close()
	if err := g.isStream(w, resp); err != nil {
		return a.end(err)
	}
	err = g.read(w, resp.Body, a)
	if a.thought.Len() > 0 {
		g.thinks.Store(true)
	}
	return a.end(err)
}

// ask sends a request; once more with the limit's other name when a server wants that, and without the reasoning effort
// when the server refuses it.
func (g *Generator) ask(w *watch, req llm.Request, seed int64) (*http.Response, error) {
	path := "chat/completions"
	if req.Prompt != "" {
		path = "completions"
	}
	for {
		body, err := g.body(w.ctx, req, seed)
		if err != nil {
			return nil, w.why(err)
		}
		resp, err := g.send(w, http.MethodPost, g.url(path), body)
		var e *APIError
		if !errors.As(err, &e) || req.Prompt != "" ||
			e.Status != http.StatusBadRequest && e.Status != http.StatusUnprocessableEntity {
			return resp, err
		}
		sent := func(field string) bool { return strings.Contains(string(body), `"`+field+`":`) }
		said := strings.ToLower(e.Message)
		switch {
		case strings.Contains(said, "max_completion_tokens") && req.MaxTokens > 0 && !sent("max_completion_tokens"):
			g.newLimit.Store(true)
		case (strings.Contains(said, "reasoning") || strings.Contains(said, "thinking")) && sent(effortField):
			g.refused.Store(cmp.Or(req.Thinking.Effort, llm.NoEffort), true)
		default:
			return resp, err
		}
	}
}

func (g *Generator) isStream(w *watch, resp *http.Response) error {
	kind, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if err == nil && kind == "text/event-stream" {
		return nil
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody))
	if err != nil && w.ctx.Err() != nil {
		return w.why(err)
	}
	var failed struct {
		Error json.RawMessage `json:"error"`
	}
	if json.Unmarshal(text, &failed) == nil && len(failed.Error) > 0 && string(failed.Error) != "null" {
		return g.readError(resp.StatusCode, resp.Header, text)
	}
	return fmt.Errorf("remote: %w: its content is %q, not text/event-stream; is the base URL right?",
		ErrResponse, g.clean(resp.Header.Get("Content-Type")))
}

func (g *Generator) read(w *watch, body io.Reader, a *answer) error {
	events := newEvents(body, g.o.MaxResponse, w.heard)
	for {
		ev, err := events.next()
		switch {
		case errors.Is(err, io.EOF):
			return w.why(fmt.Errorf("remote: %w after %d bytes of text: the stream ended without [DONE]",
				ErrIncomplete, a.text.Len()))
		case errors.Is(err, ErrTooLarge):
			return err
		case err != nil:
			return w.why(fmt.Errorf("remote: %w after %d bytes of text: %w", ErrIncomplete, a.text.Len(), err))
		}
		if string(ev.data) == "[DONE]" {
			a.last = time.Now()
			w.dog.Reset(endWait)
			_, _ = io.CopyN(io.Discard, events.r, maxErrorBody) // an error costs the connection only
			return a.done(g)
		}
		w.pause() // the stream function may take its time
		if err := g.take(ev, a); err != nil {
			return err
		}
		if w.ctx.Err() != nil { // the stream function may have ended the request
			return w.why(w.ctx.Err())
		}
		w.heard()
	}
}

// chunk is one event of a stream, of chat and raw completions.
type chunk struct {
	Choices []struct {
		Index int `json:"index"`
		Delta struct {
			Content string `json:"content"`
			Refusal string `json:"refusal"`
			// Servers give thinking under one of these names, or the same text under both.
			ReasoningContent string     `json:"reasoning_content"`
			Reasoning        string     `json:"reasoning"`
			ToolCalls        []toolCall `json:"tool_calls"`
		} `json:"delta"`
		Text         string    `json:"text"`
		FinishReason string    `json:"finish_reason"`
		LogProbs     *logProbs `json:"logprobs"`
	} `json:"choices"`
	Usage *usage          `json:"usage"`
	Error json.RawMessage `json:"error"`
}

type usage struct {
	PromptTokens     int `json:"prompt_tokens"`
	CompletionTokens int `json:"completion_tokens"`
	PromptDetails    struct {
		CachedTokens int `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
	CompletionDetails struct {
		ReasoningTokens int `json:"reasoning_tokens"`
	} `json:"completion_tokens_details"`
}

func (g *Generator) take(ev event, a *answer) error {
	var c chunk
	if err := json.Unmarshal(ev.data, &c); err != nil {
		if ev.name == "error" {
			return g.errorOf(0, ev.data)
		}
		if ev.cut {
			return fmt.Errorf("remote: %w after %d bytes of text: in the middle of an event",
				ErrIncomplete, a.text.Len())
		}
		return fmt.Errorf("remote: %w: an event is no JSON of a completion: %w", ErrResponse, err)
	}
	if len(c.Error) > 0 && string(c.Error) != "null" || ev.name == "error" {
		return g.errorOf(0, ev.data)
	}
	if c.Usage != nil {
		a.usage = c.Usage
	}
	for _, choice := range c.Choices {
		if choice.Index != 0 { // only one was asked for
			continue
		}
		if choice.FinishReason != "" {
			a.reason = choice.FinishReason
		}
		if choice.LogProbs != nil && a.req.LogProbs {
			a.result.LogProbs = choice.LogProbs.appendTo(a.result.LogProbs, a.req.Alternatives)
		}
		a.refusal.WriteString(choice.Delta.Refusal)
		if err := a.addCalls(choice.Delta.ToolCalls); err != nil {
			return err
		}
		thought := cmp.Or(choice.Delta.ReasoningContent, choice.Delta.Reasoning)
		if err := a.add(thought, choice.Delta.Content+choice.Text); err != nil {
			return err
		}
	}
	return nil
}

// answer is one completion as it comes in.
type answer struct {
	req           llm.Request
	scope         *llm.Scope
	shared        bool // scopes share the server's cache
	stream        func(string) error
	started       time.Time
	first, last   time.Time // of the first piece and of the end, zero before
	text, refusal strings.Builder
	thought       strings.Builder
	reader        *llm.ThinkReader // finds thinking within the content; nil for a raw prompt
	usage         *usage
	reason        string
	stopped       bool // by the stream function
	result        llm.Result
}

// add adds thinking that came in a field of its own, and content.
func (a *answer) add(thought, content string) error {
	if (thought != "" || content != "") && a.first.IsZero() {
		a.first = time.Now()
	}
	more, text := a.reader.Push(content)
	return a.give(thought+more, text)
}

func (a *answer) give(thought, text string) (err error) {
	a.thought.WriteString(thought)
	a.text.WriteString(text)
	if thought != "" && a.req.Thinking.Stream != nil {
		err = a.req.Thinking.Stream(thought)
	}
	if err == nil && text != "" && a.stream != nil {
		err = a.stream(text)
	}
	a.stopped = err != nil
	return err
}

// done checks an answer that the server has declared finished.
func (a *answer) done(g *Generator) error {
	r := &a.result
	if err := a.give(a.reader.Finish()); err != nil {
		return err
	}
	switch a.reason {
	case "stop", "eos", "eos_token", "stop_sequence", "end_turn", "tool_calls", "function_call":
		r.Finish = llm.FinishStop
	case "length", "max_tokens":
		r.Finish = llm.FinishLength
		if a.req.MaxTokens == 0 || a.usage != nil && a.usage.CompletionTokens > 0 &&
			a.usage.CompletionTokens < a.req.MaxTokens {
			r.Finish = llm.FinishContext
		}
	case "":
		return fmt.Errorf("remote: %w: the stream does not say why it ended", ErrResponse)
	default:
		return &APIError{Type: "finish_reason", Code: g.clean(a.reason),
			Message: "the server ended the completion for a reason of its own"}
	}
	if err := a.checkCalls(); err != nil {
		return err
	}
	if a.text.Len() == 0 && a.refusal.Len() > 0 {
		return &APIError{Type: "refusal", Message: g.clean(a.refusal.String())}
	}
	if a.thought.Len() > 0 {
		r.LogProbs = ofAnswer(r.LogProbs, a.text.Len())
	}
	if a.req.LogProbs && len(r.LogProbs) == 0 && a.text.Len() > 0 {
		return fmt.Errorf("remote: %w: it has no log probabilities, which were asked for", ErrResponse)
	}
	return nil
}

func (a *answer) end(err error) (llm.Result, error) {
	r := a.result
	if a.last.IsZero() {
		a.last = time.Now()
	}
	r.Text, r.Thought = a.text.String(), a.thought.String()
	if a.usage != nil {
		r.PromptTokens, r.CompletionTokens = max(a.usage.PromptTokens, 0), max(a.usage.CompletionTokens, 0)
		r.CachedTokens = min(max(a.usage.PromptDetails.CachedTokens, 0), r.PromptTokens)
		r.ThoughtTokens = min(max(a.usage.CompletionDetails.ReasoningTokens, 0), r.CompletionTokens)
	}
	if a.scope != nil && a.shared { // the count would tell what another scope's text begins with
		r.CachedTokens = 0
	}
	a.scope.Count(r)
	if a.first.IsZero() {
		a.first = a.last
	}
	r.PromptTime, r.DecodeTime = a.first.Sub(a.started), a.last.Sub(a.first)
	if err != nil {
		r.Finish, r.ToolCalls = "", nil
		if a.stopped || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) ||
			errors.Is(err, llm.ErrClosed) {
			r.Finish = llm.FinishCancelled
		}
	}
	return r, err
}
