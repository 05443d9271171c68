package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/llm"
	"github.com/sluice-rag/sluice/serve/openai"
)

// completions answers POST /v1/completions: prompts without a chat template.
func (s *Server) completions(w http.ResponseWriter, r *http.Request, q *openai.CompletionRequest) error {
	req, wrong := q.Request(s.shapeLimits())
	if wrong != nil {
		return wrong
	}
	prompts, wrong := q.Prompts(s.shapeLimits())
	if wrong != nil {
		return wrong
	}
	model, shown := s.called(q.Model)
	g, name, err := s.generator(r.Context(), model)
	if err != nil {
		return err
	}
	n := q.Choices()
	var all []llm.Request
	for i, p := range prompts {
		if req.Prompt, err = promptOf(g, p, inputName("prompt", i, len(prompts))); err != nil {
			return err
		}
		if err := fits(g, req); err != nil {
			return err
		}
		all = append(all, requestsFor(req, n)...)
	}
	h := newHead("cmpl", cmp.Or(shown, name))
	if q.Streams() {
		return s.streamCompletions(r.Context(), w, g, all, h, n, q.WantsUsage())
	}
	results, err := s.generateAll(r.Context(), g, all, nil)
	if err != nil {
		return chatError(err)
	}
	out := h.texts()
	for i, one := range results {
		out.Choices = append(out.Choices, lastText(i, one, req.LogProbs, one.Text))
	}
	out.Usage = openai.UsageOf(n, results...)
	return writeJSON(w, http.StatusOK, out)
}

// promptOf returns the text that the language model is to continue.
func promptOf(g llm.Generator, p openai.Input, param string) (string, error) {
	if p.Tokens == nil {
		return p.Text, nil
	}
	if n := len(p.Tokens); n > g.ContextSize() { // before they are joined
		return "", &llm.PromptTooLongError{Tokens: n, Limit: g.ContextSize() - 1}
	}
	reader, ok := g.(interface {
		TextOf(tokens []int32) (string, error)
	})
	if !ok {
		return "", tokenError(fmt.Errorf("%w: the language model takes texts only", llm.ErrTokens), param)
	}
	text, err := reader.TextOf(p.Tokens)
	return text, tokenError(err, param)
}

// inputName returns the name of one of a request's texts for errors.
func inputName(param string, i, of int) string {
	if of == 1 {
		return param
	}
	return fmt.Sprintf("%s[%d]", param, i)
}

// tokenError adds the parameter's name to an error about tokens; nil stays nil.
func tokenError(err error, param string) error {
	if !errors.Is(err, llm.ErrTokens) && !errors.Is(err, embed.ErrTokens) {
		return err
	}
	return &requestError{Status: http.StatusBadRequest, Code: "bad_tokens", Param: param, Message: err.Error(),
		cause: err, Hint: "tokens are those of the model that reads them: send texts (LangChain's OpenAIEmbeddings " +
			"does with check_embedding_ctx_length=False)"}
}

// texts returns a response with raw completions, or with pieces of them.
func (h head) texts(choices ...openai.TextChoice) *openai.Completion {
	return &openai.Completion{ID: h.id, Object: "text_completion", Created: h.created, Model: h.model, Choices: choices}
}

// lastText returns a completion, or its last piece.
func lastText(i int, r llm.Result, logProbs bool, text string) openai.TextChoice {
	finish := openai.FinishReason(r.Finish)
	return openai.TextChoice{Index: i, Text: text, FinishReason: &finish,
		LogProbs: openai.TextLogProbsOf(logProbs, r.LogProbs)}
}

func (s *Server) streamCompletions(ctx context.Context, w http.ResponseWriter, g llm.Generator, all []llm.Request,
	h head, n int, usage bool) error {
	out := openai.NewStream(w)
	results, err := s.generateAll(ctx, g, all, &watcher{
		piece: func(i int, piece string) error {
			return out.Send(h.texts(openai.TextChoice{Index: i, Text: piece}))
		},
		end: func(i int, r llm.Result) error {
			return out.Send(h.texts(lastText(i, r, all[i].LogProbs, "")))
		},
	})
	if err != nil {
		return breakOff(out, chatError(err))
	}
	if usage {
		end := h.texts()
		end.Choices, end.Usage = []openai.TextChoice{}, openai.UsageOf(n, results...)
		if err := out.Send(end); err != nil {
			return err
		}
	}
	return out.Done()
}
