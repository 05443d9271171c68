package web

import (
	"cmp"
	"fmt"
	"log/slog"
	"net/netip"
	"time"

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
	DefaultPageBytes = 4 << 20
	DefaultTextBytes = 32 << 10
	DefaultLifetime  = 24 * time.Hour
	MaxResults       = 20 // pages of one search at most
)

// Options of Open. Start with DefaultOptions.
type Options struct {
	// Provider is SearXNG, Brave or Tavily; "" and "none" are ErrNoProvider.
	Provider string `key:"provider" flag:"web-provider" oneof:"none searxng brave tavily" doc:"who is asked where an answer needs the web: none, a SearXNG server, or the API of Brave or Tavily; questions are then sent there, and the pages found are fetched"`
	URL      string `key:"url" flag:"web-url" doc:"address of the SearXNG server (https://HOST), whose settings.yml has to list json under search.formats; of another provider when it is not its public one"`
	// APIKey is sent to the provider only. Brave and Tavily need one; SearXNG gets it as a bearer token, for a server
	// in front of it.
	APIKey    remote.Secret `key:"api_key" secret:"true" doc:"key of the provider; the variable SLUICE_WEB_API_KEY is a better place for it than this file"`
	APIKeyEnv string        `key:"api_key_env" doc:"another environment variable that holds that key, such as TAVILY_API_KEY; no variable is read unless it is named here"`

	Fetch        bool          `key:"fetch" doc:"fetch the pages that are found; without, their text is what the provider says of them"`
	Timeout      time.Duration `key:"timeout_s" unit:"s" bounds:"1,600" doc:"longest time of a search, and of a page with its redirects, seconds"`
	Retries      int           `key:"retries" bounds:"0,100" doc:"further tries when the provider is busy or failing"`
	MaxPageBytes int64         `key:"max_page_bytes" bounds:"1024,1073741824" doc:"bytes read of a page, after decompression; the rest is left out"`
	MaxTextBytes int           // kept of a page's text
	AllowPrivate bool          `key:"allow_private" doc:"fetch pages from private, local and reserved addresses as well; the provider may have such a one anyway"`

	Logger *slog.Logger // pages that were not read, retries; never a key. nil: slog.Default()

	backoff time.Duration    // before the first retry; tests shorten it
	exempt  []netip.AddrPort // that may be fetched from though they are private, for tests
}

// DefaultOptions returns the default options, which name no provider.
func DefaultOptions() Options {
	return Options{Provider: "none", Fetch: true, Timeout: DefaultTimeout, Retries: 2, MaxPageBytes: DefaultPageBytes,
		MaxTextBytes: DefaultTextBytes}
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
	o.Timeout = cmp.Or(o.Timeout, DefaultTimeout)
	o.MaxPageBytes = cmp.Or(o.MaxPageBytes, DefaultPageBytes)
	o.MaxTextBytes = cmp.Or(o.MaxTextBytes, DefaultTextBytes)
	o.backoff = cmp.Or(o.backoff, 500*time.Millisecond)
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return o, nil
}
