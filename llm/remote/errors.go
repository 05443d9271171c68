package remote

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-rag/sluice/internal/upstream"
	"github.com/sluice-rag/sluice/llm"
)

var (
	// ErrNoTokenizer: tokens cannot be counted, since OpenAI's API does not. Options.Extensions names a server that
	// can, Options.TokenEstimate allows an estimate.
	ErrNoTokenizer = errors.New("the server does not count tokens")
	// ErrResponse: the answer is not what an OpenAI-compatible server sends.
	ErrResponse = errors.New("not an OpenAI-compatible answer")
	// ErrIncomplete: the stream ended before it said so; the text so far is in the result.
	ErrIncomplete = errors.New("the answer breaks off")
	// ErrTooLarge: a line or the whole of an answer exceeds its limit.
	ErrTooLarge = errors.New("the answer is too large")
	// ErrTimeout: nothing came from the server for Options.Timeout.
	ErrTimeout = errors.New("the server is silent")
	// ErrRedirect: the server redirects to another one, to which text and key are not sent.
	ErrRedirect = errors.New("redirected to another server")
)

// APIError is a failure that the server reports. It unwraps to llm.ErrPromptTooLong (to *llm.PromptTooLongError when
// the server gives numbers) or llm.ErrBusy where the server says so.
type APIError struct {
	Status              int // of HTTP; what the error object says when it came in a stream, else 0
	Type, Code, Message string
	RetryAfter          time.Duration // when to try again; 0: the server does not say
	kind                error
}

const (
	maxErrorBody    = 64 << 10
	maxErrorMessage = 1 << 10
)

func (e *APIError) Error() string {
	var b strings.Builder
	b.WriteString("remote: the server reports ")
	if e.Status > 0 {
		fmt.Fprintf(&b, "HTTP %d", e.Status)
	} else {
		b.WriteString("an error")
	}
	if what := strings.Trim(e.Type+", "+e.Code, ", "); what != "" {
		fmt.Fprintf(&b, " (%s)", what)
	}
	if e.Message != "" {
		b.WriteString(": " + e.Message)
	}
	switch {
	case e.Status == http.StatusUnauthorized || e.Status == http.StatusForbidden:
		b.WriteString("; the key is missing, wrong, or not allowed to do this")
	case e.Status == http.StatusNotFound:
		b.WriteString("; check the model's name and the URL, which usually ends in /v1")
	case errors.Is(e.kind, llm.ErrPromptTooLong):
		b.WriteString("; shorten the prompt or state the model's context size")
	}
	return b.String()
}

func (e *APIError) Unwrap() error { return e.kind }

// errorObject is the object that servers send under "error", or instead of the whole answer.
type errorObject struct {
	Message      string          `json:"message"`
	Type         string          `json:"type"`
	Code         json.RawMessage `json:"code"`   // a word, a number or null
	Detail       json.RawMessage `json:"detail"` // FastAPI
	PromptTokens int             `json:"n_prompt_tokens"`
	Context      int             `json:"n_ctx"`
}

// readError reads the answer to a failed request, which a proxy may have written.
func (g *Generator) readError(status int, header http.Header, body []byte) *APIError {
	e := g.errorOf(status, body)
	e.RetryAfter = upstream.RetryAfter(header.Get("Retry-After"), time.Now())
	return e
}

func (g *Generator) errorOf(status int, body []byte) *APIError {
	var outer struct {
		Error json.RawMessage `json:"error"`
	}
	var o errorObject
	body = bytes.TrimSpace(body)
	inner := body
	if json.Unmarshal(body, &outer) == nil && len(outer.Error) > 0 {
		inner = outer.Error
	}
	if err := json.Unmarshal(inner, &o); err != nil {
		o = errorObject{Message: plain(inner)}
	}
	if o.Message == "" && len(o.Detail) > 0 {
		o.Message = plain(o.Detail)
	}
	code := strings.Trim(string(o.Code), `"`)
	if code == "null" {
		code = ""
	}
	if n, err := strconv.Atoi(code); err == nil { // llama-server and others repeat the status here
		code = ""
		status = cmp.Or(status, n)
	}
	e := &APIError{Status: status, Type: g.clean(o.Type), Code: g.clean(code), Message: g.clean(o.Message)}
	e.kind = kindOf(e, o)
	return e
}

// plain returns a JSON string's text, a placeholder for a web page, and any other text unchanged.
func plain(b []byte) string {
	var s string
	if json.Unmarshal(b, &s) == nil {
		return s
	}
	if bytes.HasPrefix(b, []byte("<")) {
		return "a web page"
	}
	return string(b)
}

// kindOf recognises errors that callers act upon: OpenAI and llama-server send a code, vLLM only a text.
func kindOf(e *APIError, o errorObject) error {
	words := strings.ToLower(e.Message)
	switch {
	case o.PromptTokens > 0 && o.Context > 0:
		return &llm.PromptTooLongError{Tokens: o.PromptTokens, Limit: o.Context - 1}
	case e.Code == "context_length_exceeded" || e.Type == "exceed_context_size_error",
		e.Status == http.StatusBadRequest && (strings.Contains(words, "maximum context length") ||
			strings.Contains(words, "context size")):
		return llm.ErrPromptTooLong
	case e.Status == http.StatusTooManyRequests || e.Status == http.StatusServiceUnavailable:
		return llm.ErrBusy
	}
	return nil
}

// clean makes a server's text safe for a terminal and removes the key from it.
func (g *Generator) clean(s string) string { return upstream.Shown(s, g.key, maxErrorMessage) }
