package web

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/sluice-rag/sluice/internal/upstream"
	"github.com/sluice-rag/sluice/rag/corpus"
)

// Page is something that was found in the web.
type Page struct {
	URL     string    `json:"url"`
	Title   string    `json:"title,omitempty"`
	Snippet string    `json:"snippet,omitempty"` // what the provider says of it
	Text    string    `json:"text,omitempty"`    // of the page; "" when it was not read
	Fetched time.Time `json:"fetched,omitzero"`  // when it was read, or found
	Cut     bool      `json:"cut,omitempty"`     // there is more in the page than was read
	Err     error     `json:"-"`                 // why it was not read

	document *corpus.Document // with headings; nil: of Text alone
}

// Content returns the page's text, or what the provider says of it where it was not read.
func (p Page) Content() string {
	return cmp.Or(p.Text, p.Snippet)
}

// Client searches with one provider. Its methods may be called from any goroutine.
type Client struct {
	o        Options
	key      string
	base     *url.URL
	provider provider
	api      *http.Client // to the provider
	rules    *http.Client // to the robots.txt of anyone
	pages    *http.Client // as rules, and each redirect is allowed by a robots.txt
	refused  []netip.Prefix

	mu    sync.Mutex
	sites map[string]siteRules // by the addresses of their robots.txt
}

// Open checks the options; nothing is sent. ErrNoProvider when none is named, else ErrOptions.
func Open(o Options) (*Client, error) {
	if o.Provider == "" || o.Provider == "none" {
		return nil, ErrNoProvider
	}
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	c := newClient(o)
	if c.provider, err = providerOf(o.Provider); err != nil {
		return nil, err
	}
	if c.key, err = upstream.Key(string(o.APIKey), o.APIKeyEnv); err != nil { // it is not shown
		return nil, optionError("%v", err)
	}
	o.URL = cmp.Or(o.URL, c.provider.url)
	switch {
	case o.URL == "":
		return nil, optionError("%s needs the URL of its server (web.url)", o.Provider)
	case c.key == "" && c.provider.needsKey:
		return nil, optionError("%s needs a key (SLUICE_WEB_API_KEY, or the variable that web.api_key_env names)",
			o.Provider)
	}
	if c.base, err = upstream.Base("the provider's URL", o.URL); err != nil {
		return nil, optionError("%v", err)
	}
	c.api = &http.Client{CheckRedirect: c.sameServer, Transport: &http.Transport{
		Proxy: http.ProxyFromEnvironment, MaxResponseHeaderBytes: maxHeader, IdleConnTimeout: 30 * time.Second,
		TLSHandshakeTimeout: o.Timeout, ForceAttemptHTTP2: true, MaxIdleConnsPerHost: 4}}
	return c, nil
}

// OpenPages is Open without a provider: such a client reads pages and does not search.
func OpenPages(o Options) (*Client, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	return newClient(o), nil
}

func newClient(o Options) *Client {
	c := &Client{o: o, refused: refused()}
	dialer := &net.Dialer{Timeout: o.Timeout, Control: c.control}
	c.rules = &http.Client{CheckRedirect: c.followPage, Transport: &http.Transport{
		DialContext: dialer.DialContext, MaxResponseHeaderBytes: maxHeader, DisableKeepAlives: true,
		TLSHandshakeTimeout: o.Timeout, ForceAttemptHTTP2: true}} // no proxy: it would make the check idle
	c.pages = &http.Client{Transport: c.rules.Transport}
	c.pages.CheckRedirect = func(r *http.Request, via []*http.Request) error {
		if err := c.followPage(r, via); err != nil {
			return err
		}
		return c.allowed(r.Context(), r.URL)
	}
	return c
}

const (
	maxHeader    = 64 << 10
	maxRedirects = 5
)

// Close closes idle connections to the provider.
func (c *Client) Close() error {
	if c.api != nil {
		c.api.CloseIdleConnections()
	}
	return nil
}

// Provider names the provider and its server: queries are sent there.
func (c *Client) Provider() string { return c.o.Provider + " (" + site(c.base) + ")" }

// Notice says what leaves the machine.
func (c *Client) Notice() string {
	return "questions may be sent to " + c.Provider() + " for a search of the web, and pages that it finds be fetched"
}

// sameServer lets a search follow a redirect that changes neither the server nor the method: the key must not go
// elsewhere.
func (c *Client) sameServer(req *http.Request, via []*http.Request) error {
	first := via[0]
	switch {
	case req.URL.Scheme != first.URL.Scheme || req.URL.Host != first.URL.Host:
		return fmt.Errorf("%w: to %s; if that is right, make it web.url", ErrRedirect, site(req.URL))
	case req.Method != first.Method || len(via) > maxRedirects:
		return fmt.Errorf("%w: as %s, after %d others", ErrRedirect, req.Method, len(via)-1)
	}
	return nil
}

// followPage checks where a page sends its readers; the address that this resolves to is checked by control.
func (c *Client) followPage(req *http.Request, via []*http.Request) error {
	if len(via) > maxRedirects {
		return fmt.Errorf("%w: more than %d", ErrRedirect, maxRedirects)
	}
	req.Header.Del("Referer") // the address before may hold what is nobody's business
	_, err := c.checkURL(req.URL.String())
	return err
}

// why returns the reason behind an error of a request: the caller's context, the time limit, or the network, in words
// that are fit to be shown.
func (c *Client) why(parent context.Context, u *url.URL, err error) error {
	if parent.Err() != nil {
		return parent.Err()
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%w: %s took longer than %v", ErrTimeout, site(u), c.o.Timeout)
	}
	for _, own := range []error{ErrAddress, ErrURL, ErrRedirect, ErrResponse, ErrTooLarge, ErrContent, ErrRobots} {
		if errors.Is(err, own) {
			if wrapped, ok := errors.AsType[*url.Error](err); ok {
				err = wrapped.Err
			}
			return &shownError{clean(site(u)+": "+strings.TrimPrefix(err.Error(), "dial tcp "), c.key), err}
		}
	}
	if _, ok := errors.AsType[*StatusError](err); ok {
		return err
	}
	if wrapped, ok := errors.AsType[*url.Error](err); ok { // its own text has the whole address
		err = wrapped.Err
	}
	return &shownError{clean("web: "+site(u)+": "+err.Error(), c.key), err}
}

// shownError is an error in words that are fit to be shown.
type shownError struct {
	text string
	err  error
}

func (e *shownError) Error() string { return e.text }
func (e *shownError) Unwrap() error { return e.err }
