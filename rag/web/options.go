package web

import (
	"fmt"
	"log/slog"
	"net/netip"
	"net/url"
	"time"

	"github.com/sluice-rag/sluice/internal/upstream"
	"github.com/sluice-rag/sluice/llm/remote"
)

// The providers.
const (
	SearXNG = "searxng"
	Brave   = "brave"
	Tavily  = "tavily"
)

// Providers lists them.
func Providers() []string { return []string{SearXNG, Brave, Tavily} }

// The defaults of Options.
const (
	DefaultTimeout   = 10 * time.Second
	DefaultRetries   = 2
	DefaultPageBytes = 4 << 20
	DefaultTextBytes = 32 << 10
	DefaultLifetime  = 24 * time.Hour
	MaxResults       = 20 // pages of one search at most
)

// Options of Open. Zero values are defaults.
type Options struct {
	Provider string // SearXNG, Brave or Tavily; "" and "none" are ErrNoProvider
	// URL of the provider: needed for SearXNG ("https://searx.example.org"), the public API for the others.
	URL string
	// APIKey is sent to the provider only; or APIKeyEnv names the environment variable that holds it. Brave and Tavily
	// need one; SearXNG gets it as a bearer token, for a server in front of it.
	APIKey    remote.Secret
	APIKeyEnv string

	Timeout      time.Duration // of one request: of a search, and of a page with its redirects
	Retries      int           // of a search when the provider is busy or failing; 0: 2; negative: none
	MaxPageBytes int64         // read of a page, after decompression; the rest is left out
	MaxTextBytes int           // kept of a page's text
	AllowPrivate bool          // fetch pages from private addresses as well
	SnippetsOnly bool          // do not fetch pages: their text is what the provider says of them

	Logger *slog.Logger // pages that were not read, retries; never a key. nil: slog.Default()

	backoff time.Duration    // before the first retry; tests shorten it
	exempt  []netip.AddrPort // that may be fetched from though they are private, for tests
}

func optionError(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrOptions, fmt.Sprintf(format, args...))
}

func (o Options) withDefaults() (Options, error) {
	switch {
	case o.Timeout < 0 || o.MaxPageBytes < 0 || o.MaxTextBytes < 0:
		return o, optionError("timeout %v, page of at most %d bytes, text of at most %d: none may be negative",
			o.Timeout, o.MaxPageBytes, o.MaxTextBytes)
	case o.APIKey != "" && o.APIKeyEnv != "":
		return o, optionError("either the key or the variable that holds it (%s), not both", o.APIKeyEnv)
	}
	if o.Timeout == 0 {
		o.Timeout = DefaultTimeout
	}
	if o.Retries == 0 {
		o.Retries = DefaultRetries
	}
	if o.MaxPageBytes == 0 {
		o.MaxPageBytes = DefaultPageBytes
	}
	if o.MaxTextBytes == 0 {
		o.MaxTextBytes = DefaultTextBytes
	}
	if o.backoff == 0 {
		o.backoff = 500 * time.Millisecond
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return o, nil
}

// readKey returns the key in a form that a header can hold. Errors do not show it.
func (o Options) readKey() (string, error) {
	key, err := upstream.Key(string(o.APIKey), o.APIKeyEnv)
	if err != nil {
		return "", optionError("%v", err)
	}
	return key, nil
}

// parseBase checks the URL of a provider.
func parseBase(s string) (*url.URL, error) {
	u, err := upstream.Base("the provider's URL", s)
	if err != nil {
		return nil, optionError("%v", err)
	}
	return u, nil
}
