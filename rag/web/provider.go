package web

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

// provider describes the requests and responses of a search provider.
type provider struct {
	url      string // of its public API; "" if there are only self-hosted servers
	needsKey bool
	maxQuery int // characters of a query
	maxWords int // of a query; 0: any number
	request  func(ctx context.Context, base *url.URL, key, query string, n int) (*http.Request, error)
	parse    func(body []byte) ([]Page, error)
	// message extracts the error text from the body of a failed request and adds a hint for its status.
	message func(status int, body []byte) (text, hint string)
}

func providerOf(name string) (provider, error) {
	switch name {
	case SearXNG:
		return provider{maxQuery: 2000, request: searxngRequest, parse: parseResults, message: searxngMessage}, nil
	case Brave:
		return provider{url: "https://api.search.brave.com/res/v1", needsKey: true, maxQuery: 400, maxWords: 50,
			request: braveRequest, parse: parseBrave, message: braveMessage}, nil
	case Tavily:
		return provider{url: "https://api.tavily.com", needsKey: true, maxQuery: 400,
			request: tavilyRequest, parse: parseResults, message: tavilyMessage}, nil
	}
	return provider{}, optionError("provider %q is none of %s", name, strings.Join(Providers(), ", "))
}

// shorten cuts a query to the limits of a provider, at the end of a word if possible.
func (p provider) shorten(query string) string {
	words := strings.Fields(strings.ToValidUTF8(query, " "))
	if p.maxWords > 0 {
		words = words[:min(len(words), p.maxWords)]
	}
	query = strings.Join(words, " ")
	if utf8.RuneCountInString(query) <= p.maxQuery {
		return query
	}
	runes := []rune(query)[:p.maxQuery]
	query = string(runes)
	if i := strings.LastIndexByte(query, ' '); i > 0 {
		query = query[:i]
	}
	return query
}

// found is a result with the fields that all three providers return under different names.
type found struct {
	URL, Title string
	Texts      []string
}

// pagesOf converts results into pages and drops those without an address.
func pagesOf(list []found) []Page {
	pages := []Page{}
	for _, f := range list {
		if f.URL = strings.TrimSpace(f.URL); f.URL == "" {
			continue
		}
		var texts []string
		for _, t := range f.Texts {
			if t = plainText(t); t != "" {
				texts = append(texts, t)
			}
		}
		pages = append(pages, Page{URL: f.URL, Title: plainText(f.Title), Snippet: strings.Join(texts, "\n")})
	}
	return pages
}

var tags = regexp.MustCompile(`</?[a-zA-Z][^<>]{0,200}>`)

// maxSnippet limits one text of a provider, in bytes.
const maxSnippet = 16 << 10

// plainText removes markup such as <strong> and control characters from a provider's text.
func plainText(s string) string {
	if len(s) > maxSnippet {
		s = s[:maxSnippet]
	}
	s = html.UnescapeString(tags.ReplaceAllString(strings.ToValidUTF8(s, ""), ""))
	return strings.Join(strings.Fields(strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, s)), " ")
}

func unmarshal(body []byte, into any) error {
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("%w: %w", ErrResponse, err)
	}
	return nil
}

// searxngRequest builds GET /search?q=…&format=json, which the server's settings.yml must allow.
func searxngRequest(ctx context.Context, base *url.URL, key, query string, _ int) (*http.Request, error) {
	u := *base
	if !strings.HasSuffix(u.Path, "/search") {
		u.Path += "/search"
	}
	u.RawQuery = url.Values{"q": {query}, "format": {"json"}, "pageno": {"1"}}.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err == nil && key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	return req, err
}

// parseResults parses the response of SearXNG and of Tavily.
func parseResults(body []byte) ([]Page, error) {
	var r struct {
		Results *[]struct {
			URL     string `json:"url"`
			Title   string `json:"title"`
			Content string `json:"content"`
		} `json:"results"`
	}
	if err := unmarshal(body, &r); err != nil {
		return nil, err
	}
	if r.Results == nil {
		return nil, fmt.Errorf("%w: no results in it", ErrResponse)
	}
	var list []found
	for _, x := range *r.Results {
		list = append(list, found{x.URL, x.Title, []string{x.Content}})
	}
	return pagesOf(list), nil
}

func searxngMessage(status int, _ []byte) (text, hint string) {
	switch status {
	case http.StatusForbidden:
		hint = "the server's settings.yml must list json under search.formats"
	case http.StatusTooManyRequests:
		hint = "the server's limiter takes this for a robot"
	case http.StatusNotFound:
		hint = "check web.url: it is the address of the search page"
	}
	return "", hint // a web page
}

// braveRequest builds GET /web/search with the key in the header that Brave defines.
func braveRequest(ctx context.Context, base *url.URL, key, query string, n int) (*http.Request, error) {
	u := *base
	u.Path += "/web/search"
	u.RawQuery = url.Values{"q": {query}, "count": {strconv.Itoa(n)}, "text_decorations": {"false"},
		"result_filter": {"web"}}.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err == nil {
		req.Header.Set("X-Subscription-Token", key)
	}
	return req, err
}

func parseBrave(body []byte) ([]Page, error) {
	var r struct {
		Type string `json:"type"`
		Web  struct {
			Results []struct {
				URL         string   `json:"url"`
				Title       string   `json:"title"`
				Description string   `json:"description"`
				Extra       []string `json:"extra_snippets"`
			} `json:"results"`
		} `json:"web"`
	}
	if err := unmarshal(body, &r); err != nil {
		return nil, err
	}
	if r.Type != "search" {
		return nil, fmt.Errorf("%w: its type is %q, not search", ErrResponse, clean(r.Type, ""))
	}
	var list []found
	for _, x := range r.Web.Results {
		list = append(list, found{x.URL, x.Title, append([]string{x.Description}, x.Extra...)})
	}
	return pagesOf(list), nil
}

func braveMessage(status int, body []byte) (text, hint string) {
	var r struct {
		Error struct {
			Code   string `json:"code"`
			Detail string `json:"detail"`
		} `json:"error"`
	}
	if json.Unmarshal(body, &r) == nil {
		text = strings.Trim(r.Error.Code+": "+r.Error.Detail, ": ")
	}
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusUnprocessableEntity:
		hint = "check the key (web.api_key)"
	}
	return text, hint
}

// tavilyRequest builds POST /search with a bearer token.
func tavilyRequest(ctx context.Context, base *url.URL, key, query string, n int) (*http.Request, error) {
	body, err := json.Marshal(map[string]any{"query": query, "max_results": n, "search_depth": "basic",
		"include_answer": false, "include_raw_content": false})
	if err != nil {
		return nil, err
	}
	u := *base
	u.Path += "/search"
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), bytes.NewReader(body))
	if err == nil {
		req.Header.Set("Authorization", "Bearer "+key)
		req.Header.Set("Content-Type", "application/json")
	}
	return req, err
}

func tavilyMessage(status int, body []byte) (text, hint string) {
	var r struct {
		Detail json.RawMessage `json:"detail"`
	}
	if json.Unmarshal(body, &r) == nil {
		var o struct {
			Error string `json:"error"`
		}
		if json.Unmarshal(r.Detail, &o) == nil && o.Error != "" {
			text = o.Error
		} else if json.Unmarshal(r.Detail, &text) != nil {
			text = string(r.Detail)
		}
	}
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden:
		hint = "check the key (web.api_key)"
	case 432, 433: // limit of the plan, and of pay-as-you-go
		hint = "the account's limit is reached"
	}
	return text, hint
}
