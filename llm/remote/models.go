package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"

	"github.com/sluice-rag/sluice/llm"
)

// listed is a model in the answer to GET /models. Servers name the context size in many ways.
type listed struct {
	ID            string `json:"id"`
	MaxModelLen   int    `json:"max_model_len"`      // vLLM
	ContextLength int    `json:"context_length"`     // OpenRouter, Together
	ContextWindow int    `json:"context_window"`     // Groq
	MaxContext    int    `json:"max_context_length"` // Mistral, LM Studio
	Meta          struct {
		Context int `json:"n_ctx"`
		Trained int `json:"n_ctx_train"`
	} `json:"meta"` // llama-server
}

func (l listed) context() int {
	for _, n := range []int{l.MaxModelLen, l.ContextLength, l.ContextWindow, l.MaxContext, l.Meta.Context,
		l.Meta.Trained} {
		if n >= minContext && n <= maxContext {
			return n
		}
	}
	return 0
}

// discover fills in the model and its context size where the options do not state them.
func (g *Generator) discover(ctx context.Context) error {
	if g.o.Model != "" && g.o.ContextSize != 0 {
		return nil
	}
	var list struct {
		Data []listed `json:"data"`
	}
	err := g.exchange(ctx, g.url("models"), nil, &list)
	if err != nil && (g.o.Model == "" || !absent(err)) {
		return err
	}
	if g.o.Model == "" {
		if len(list.Data) == 0 || list.Data[0].ID == "" {
			return fmt.Errorf("remote: %w: %s lists no model; name one", llm.ErrModel, g.url("models"))
		}
		g.o.Model = list.Data[0].ID
	}
	if g.o.ContextSize == 0 && g.o.Extensions == LlamaServer {
		if g.o.ContextSize, err = g.slotContext(ctx); err != nil {
			return err
		}
	}
	for _, l := range list.Data {
		if g.o.ContextSize == 0 && l.ID == g.o.Model {
			g.o.ContextSize = l.context()
		}
	}
	if g.o.ContextSize == 0 {
		g.o.ContextSize = defaultContext
		g.o.Logger.Info(fmt.Sprintf("%s does not say how large the context of %s is; assuming %d tokens",
			g.Endpoint(), g.o.Model, g.o.ContextSize))
	}
	return nil
}

// slotContext asks llama-server how many tokens a request may have, which is less than its context when it serves
// several at once; 0 when it does not say.
func (g *Generator) slotContext(ctx context.Context) (int, error) {
	var props struct {
		Defaults struct {
			Context int `json:"n_ctx"`
		} `json:"default_generation_settings"`
	}
	err := g.exchange(ctx, g.rootURL("props"), nil, &props)
	if err != nil && !absent(err) {
		return 0, err
	}
	if n := props.Defaults.Context; n >= minContext && n <= maxContext {
		return n, nil
	}
	return 0, nil
}

// absent reports whether a server does not have what was asked for.
func absent(err error) bool {
	var e *APIError
	return errors.As(err, &e) && (e.Status == http.StatusNotFound || e.Status == http.StatusMethodNotAllowed ||
		e.Status == http.StatusNotImplemented)
}

// CountTokens asks llama-server or vLLM, if Options.Extensions names one, how many tokens a text is; else it estimates,
// if Options.TokenEstimate allows it, and fails with ErrNoTokenizer if not. Asking takes a round trip, ended by Close
// and Options.Timeout.
func (g *Generator) CountTokens(text string) (int, error) {
	return g.countTokens(context.Background(), text) // the interface has no context
}

func (g *Generator) countTokens(ctx context.Context, text string) (int, error) {
	question := map[string]any{"model": g.o.Model}
	switch {
	case g.o.Extensions == LlamaServer:
		question["content"], question["add_special"] = text, true
	case g.o.Extensions == VLLM:
		question["prompt"], question["add_special_tokens"] = text, true
	case g.o.TokenEstimate == 0:
		return 0, fmt.Errorf("remote: %w: say what the server is (extensions %q or %q), or allow an estimate",
			ErrNoTokenizer, LlamaServer, VLLM)
	default:
		return int(math.Ceil(float64(len(text)) / g.o.TokenEstimate)), nil
	}
	var got struct {
		Tokens []json.RawMessage `json:"tokens"` // llama-server's
		Count  *int              `json:"count"`  // vLLM's
	}
	err := g.exchange(ctx, g.rootURL("tokenize"), question, &got)
	switch {
	case err != nil:
		return 0, err
	case g.o.Extensions == LlamaServer && got.Tokens != nil:
		return len(got.Tokens), nil
	case g.o.Extensions == VLLM && got.Count != nil && *got.Count >= 0:
		return *got.Count, nil
	}
	return 0, fmt.Errorf("remote: %w: /tokenize gives no tokens", ErrResponse)
}
