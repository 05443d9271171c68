package serve

import (
	"cmp"
	"encoding/json"
	"net/http"
	"time"

	"github.com/sluice-rag/sluice/llm"
	"github.com/sluice-rag/sluice/rag/answer"
	"github.com/sluice-rag/sluice/rag/prompt"
	"github.com/sluice-rag/sluice/serve/openai"
)

// listener receives an answer while it is written. Its functions may be nil.
type listener struct {
	begin func(model string) error // before anything else; after it, errors are part of the answer
	// sources are the passages in the prompt of an answer from a base, after begin
	sources       func(*base, []prompt.Citation) error
	text, thought func(piece string) error
	refusal       func(piece string) error // a sentence in place of JSON that was asked for; nil: it is text
}

// spoken is an answer in no API's form.
type spoken struct {
	model         string
	text, thought string
	refused       bool // text is a sentence in place of JSON that was asked for
	calls         []llm.ToolCall
	finish        string // as OpenAI names it
	usage         *openai.Usage
	base          *base             // nil: the language model alone has answered
	citations     []prompt.Citation // of the passages in the prompt
	rag           *ragAnswer
	took          time.Duration
}

// speak answers a chat request of another API, which was translated into OpenAI's: from a knowledge base for the models
// "sluice" and "sluice/NAME", else by the language model alone.
func (s *Server) speak(r *http.Request, q *openai.ChatRequest, to listener) (out spoken, err error) {
	started := time.Now()
	defer func() { out.took = time.Since(started) }()
	x, err := s.addressed(r, q, false)
	if err != nil {
		return out, err
	}
	if out.model, out.base = x.name, x.base; x.base != nil {
		return out, s.speakFromBase(r, q, x.req, x.settings, to, &out)
	}
	if to.begin != nil {
		if err := to.begin(out.model); err != nil {
			return out, err
		}
	}
	watch := &watcher{piece: func(_ int, piece string) error { return give(to.text, piece) },
		thought: func(_ int, piece string) error { return give(to.thought, piece) },
		end:     func(int, llm.Result) error { return nil }}
	results, err := s.generateAll(r.Context(), x.model, []llm.Request{x.req}, watch)
	if err != nil {
		return out, chatError(err)
	}
	one := results[0]
	out.text, out.thought, out.finish = one.Text, one.Thought, openai.FinishReason(one.Finish)
	out.calls = calls(one, q.ParallelToolCalls != nil && !*q.ParallelToolCalls)
	out.usage = openai.UsageOf(1, one)
	return out, nil
}

// give passes a piece to a function, unless that is nil or the piece empty.
func give(to func(string) error, piece string) error {
	if to == nil || piece == "" {
		return nil
	}
	return to(piece)
}

// speakFromBase is speak for an answer from a knowledge base.
func (s *Server) speakFromBase(r *http.Request, q *openai.ChatRequest, req llm.Request, settings ragSettings,
	to listener, out *spoken) error {
	asked, err := s.asked(r.Context(), q, req, settings)
	if err != nil {
		return err
	}
	o := asked.options
	var failed error
	o.Start = func(t answer.Trace) {
		if asked.refuses(t) && to.refusal != nil {
			to.text = to.refusal
		}
		if to.begin != nil {
			failed = to.begin(out.model)
		}
	}
	o.Sources = func(list []prompt.Citation) {
		if to.sources != nil && failed == nil {
			failed = to.sources(out.base, list)
		}
	}
	o.Stream = func(piece string) error { return cmp.Or(failed, give(to.text, piece)) }
	o.Think = func(piece string) error { return cmp.Or(failed, give(to.thought, piece)) }
	a, err := out.base.Ask(r.Context(), asked.question, o)
	if err = cmp.Or(err, failed); err != nil {
		return chatError(err)
	}
	out.text, out.thought, out.finish = a.Answer, a.Thought, openai.FinishReason(a.Trace.Finish)
	out.refused = asked.refuses(a.Trace)
	out.calls = calls(llm.Result{ToolCalls: a.ToolCalls}, asked.oneCall)
	out.usage, out.citations, out.rag = ragUsage(a), a.Citations, ragAnswerOf(out.base, a, asked.ignored)
	return nil
}

func quoted(text string) json.RawMessage {
	raw, _ := json.Marshal(text) // any string can be written
	return raw
}
