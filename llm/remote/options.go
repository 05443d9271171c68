package remote

import (
	"cmp"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/sluice-rag/sluice/llm"
)

// Secret is a text that is printed, logged and marshalled as "(set)" or "(not set)".
type Secret string

func (s Secret) String() string {
	if s == "" {
		return "(not set)"
	}
	return "(set)"
}

// Format implements fmt.Formatter for every verb, %x and %#v included.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, s.String()) }

// LogValue implements slog.LogValuer.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalText implements encoding.TextMarshaler.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Extensions names a server whose settings go beyond OpenAI's.
type Extensions string

// The servers. LlamaServer supports top_k, min_p, repeat_penalty and grammar, and counts tokens; VLLM supports top_k,
// min_p, repetition_penalty (over the whole prompt and completion, not the last 64 tokens) and grammars, and counts
// tokens.
const (
	NoExtensions Extensions = "none"
	LlamaServer  Extensions = "llama-server"
	VLLM         Extensions = "vllm"
)

// Options say which server and model to ask. Start with DefaultOptions.
type Options struct {
	// BaseURL, "https://api.openai.com/v1" or "http://localhost:8080": http or https, without query and user. Without a
	// path it gets "/v1".
	BaseURL string
	Model   string // ""; the first that GET {base}/models lists
	// APIKey is sent as a bearer token, to this server only.
	APIKey    Secret `key:"api_key" secret:"true" doc:"key of the server; the variable SLUICE_REMOTE_API_KEY is a better place for it than this file"`
	APIKeyEnv string `key:"api_key_env" doc:"another environment variable that holds the key, such as OPENAI_API_KEY; no variable is read unless it is named here"`
	// ContextSize is the most tokens of one request, at least 16. 0: what GET {base}/models says of the model, or
	// llama-server's GET /props; where they do not say it, 8192.
	ContextSize int
	Extensions  Extensions `key:"extensions" oneof:"none llama-server vllm" doc:"settings beyond OpenAI's that the server knows (top_k, repeat_penalty, counting tokens)"` // "": none
	// TokenEstimate lets CountTokens estimate, as this many bytes of text per token, when the server cannot be asked: 4
	// is about the mean of English prose, 3 rarely too high for European languages, 2 for others and for code. 0: no
	// estimate, CountTokens fails with ErrNoTokenizer. It is at least .5 and at most 16.
	TokenEstimate float64 `key:"bytes_per_token" bounds:"0,16" doc:"estimate of a token's length where the server does not count tokens, to fit prompts into the window; from 0.5, and 0 refuses to estimate"`
	// ThinkingOpened says that answers begin within the thinking: the server's chat template opens it, and the server
	// leaves the marks in the text (vLLM without a reasoning parser, for instance).
	ThinkingOpened bool `key:"thinking_opened" doc:"answers begin within the thinking, without an opening mark: for a server that passes the text of such a model on as it is"`
	// Timeout is how long the server may be silent: until the header of its answer and between any two lines of it.
	// 0: 5 minutes, since a long prompt takes a small machine as much.
	Timeout time.Duration `key:"timeout_s" unit:"s" bounds:"1,86400" doc:"longest silence of the server, seconds"`
	// Retries of a request when the server is not there yet, busy (429) or fails (5xx), before the first byte of an
	// answer, after .5 s, 1 s, 2 s, … of which a random part is taken off, or after what Retry-After asks for, at most
	// a minute.
	Retries     int          `key:"retries" bounds:"0,100" doc:"further tries when the server is busy, failing or not there yet"`
	MaxResponse int64        // bytes of one answer; 0: 64 MiB
	Logger      *slog.Logger // retries and what is assumed; never text or key. nil: slog.Default()

	backoff time.Duration // before the first retry; tests shorten it
}

// DefaultOptions returns the default options, which need a BaseURL.
func DefaultOptions() Options {
	return Options{Extensions: NoExtensions, TokenEstimate: 3, Timeout: defaultTimeout, Retries: 3}
}

const (
	defaultTimeout  = 5 * time.Minute
	defaultResponse = 64 << 20
	defaultBackoff  = 500 * time.Millisecond
	defaultContext  = 8192
	minContext      = 16
	maxContext      = 1 << 30
)

func optionError(format string, args ...any) error {
	return fmt.Errorf("remote: %w: %s", llm.ErrOptions, fmt.Sprintf(format, args...))
}

func (o Options) withDefaults() (Options, error) {
	o.Extensions = cmp.Or(o.Extensions, NoExtensions)
	switch {
	case o.ContextSize != 0 && (o.ContextSize < minContext || o.ContextSize > maxContext):
		return o, optionError("context size %d is not between %d and %d", o.ContextSize, minContext, maxContext)
	case o.Extensions != NoExtensions && o.Extensions != LlamaServer && o.Extensions != VLLM:
		return o, optionError("extensions %q are not %q, %q or %q", o.Extensions, NoExtensions, LlamaServer, VLLM)
	case o.TokenEstimate != 0 && !(o.TokenEstimate >= .5 && o.TokenEstimate <= 16):
		return o, optionError("a token estimate of %v bytes is not between 0.5 and 16", o.TokenEstimate)
	case o.Timeout < 0:
		return o, optionError("timeout %v is negative", o.Timeout)
	case o.MaxResponse < 0:
		return o, optionError("an answer of at most %d bytes is negative", o.MaxResponse)
	case o.APIKey != "" && o.APIKeyEnv != "":
		return o, optionError("either the key or the variable that holds it (%s), not both", o.APIKeyEnv)
	}
	o.Timeout = cmp.Or(o.Timeout, defaultTimeout)
	o.MaxResponse = cmp.Or(o.MaxResponse, defaultResponse)
	o.backoff = cmp.Or(o.backoff, defaultBackoff)
	o.Logger = cmp.Or(o.Logger, slog.Default())
	return o, nil
}

// SplitName splits a remote model's name as users write it, "https://host/v1#model". ok is false for a name that is not
// a URL. Without "#model" the model is "".
func SplitName(name string) (base, model string, ok bool) {
	low := strings.ToLower(name)
	if !strings.HasPrefix(low, "http://") && !strings.HasPrefix(low, "https://") {
		return "", "", false
	}
	base, model, _ = strings.Cut(name, "#")
	return base, model, true
}
