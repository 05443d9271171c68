package remote

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-rag/sluice/internal/upstream"
	"github.com/sluice-rag/sluice/llm"
)

// Generator implements llm.Generator over a server. Close it after use.
type Generator struct {
	o        Options // without the key; Model and ContextSize also where the server has said them
	base     *url.URL
	key      string
	client   *http.Client
	life     context.Context // ends with Close; requests end with it
	end      context.CancelFunc
	newLimit atomic.Bool // the server wants max_completion_tokens in the place of max_tokens
	refused  sync.Map    // each llm.Effort that the server has refused
	thinks   atomic.Bool // an answer had thinking
}

var _ llm.Generator = (*Generator)(nil)

// Open checks the options and asks the server for the model's name and context size, unless both are given: then
// nothing is sent. Errors: llm.ErrOptions; *APIError, such as a wrong key; llm.ErrModel when the server lists no model;
// network errors.
func Open(ctx context.Context, o Options) (*Generator, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	base, err := upstream.Base("the base URL", o.BaseURL)
	if err != nil {
		return nil, optionError("%v", err)
	}
	base.Path = cmp.Or(base.Path, "/v1")
	key, err := upstream.Key(string(o.APIKey), o.APIKeyEnv)
	if err != nil {
		return nil, optionError("%v", err)
	}
	o.APIKey = ""
	g := &Generator{o: o, base: base, key: key, client: &http.Client{
		CheckRedirect: sameServer,
		Transport: &http.Transport{
			Proxy:                  http.ProxyFromEnvironment,
			DialContext:            (&net.Dialer{Timeout: min(30*time.Second, o.Timeout)}).DialContext,
			TLSHandshakeTimeout:    min(30*time.Second, o.Timeout),
			ForceAttemptHTTP2:      true,
			DisableCompression:     true, // it would delay the pieces of a stream
			MaxIdleConnsPerHost:    8,
			MaxResponseHeaderBytes: 1 << 20,
			IdleConnTimeout:        90 * time.Second,
			ExpectContinueTimeout:  time.Second,
		},
	}}
	g.life, g.end = context.WithCancel(context.Background())
	if key != "" && base.Scheme == "http" && !g.Local() {
		o.Logger.Warn("the key for " + base.Host + " goes over the network in the clear; use https")
	}
	if err := g.discover(ctx); err != nil {
		_ = g.Close() // never fails
		return nil, err
	}
	return g, nil
}

// Close ends the requests under way, which return llm.ErrClosed, and closes the connections. It may be called again.
func (g *Generator) Close() error {
	g.end()
	g.client.CloseIdleConnections()
	return nil
}

// ContextSize returns the most tokens of one request, as the options or the server say it.
func (g *Generator) ContextSize() int { return g.o.ContextSize }

// Thinks reports whether an answer of the model had thinking so far.
func (g *Generator) Thinks() bool { return g.thinks.Load() }

// Info has the model's name and, as Path, the base URL; a server does not tell the rest.
func (g *Generator) Info() llm.Info {
	return llm.Info{Name: g.o.Model, Path: g.Endpoint(), Description: "remote model", ContextTrained: g.o.ContextSize}
}

// Endpoint returns the base URL that text is sent to.
func (g *Generator) Endpoint() string { return g.base.String() }

// Local reports whether the server is on this machine, by its name: localhost or a loopback address.
func (g *Generator) Local() bool {
	host := g.base.Hostname()
	ip := net.ParseIP(host)
	return host == "localhost" || strings.HasSuffix(host, ".localhost") || ip != nil && ip.IsLoopback()
}

// Notice says in one line where text goes and how prompts are measured, for the program's user.
func (g *Generator) Notice() string {
	to := "text leaves this machine: questions and passages go to"
	if g.Local() {
		to = "questions and passages go to another process:"
	}
	s := fmt.Sprintf("%s %s, model %s", to, g.Endpoint(), g.o.Model)
	if g.o.Extensions == NoExtensions && g.o.TokenEstimate > 0 {
		s += fmt.Sprintf("; tokens are estimated, at %g bytes each", g.o.TokenEstimate)
	}
	return s
}

// Format prints the endpoint and the model, whatever the verb, and no key.
func (g *Generator) Format(f fmt.State, _ rune) {
	_, _ = fmt.Fprintf(f, "%s#%s", g.Endpoint(), g.o.Model)
}

func (g *Generator) url(path string) string { return g.base.JoinPath(path).String() }

// rootURL returns the address of what llama-server and vLLM serve beside the API, not below its /v1.
func (g *Generator) rootURL(path string) string {
	u := *g.base
	u.Path = strings.TrimSuffix(u.Path, "/v1")
	return u.JoinPath(path).String()
}
