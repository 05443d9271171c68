package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/sluice-rag/sluice/llm/remote"
)

// The answers are as the providers document them, shortened.
const (
	searxngAnswer = `{"query":"rust","number_of_results":0,"results":[
		{"url":"https://a.example/1","title":"A &amp; B","content":"first\nline","engine":"bing","engines":["bing"],
		 "positions":[1],"score":1.0,"category":"general","parsed_url":["https","a.example","/1","","",""]},
		{"url":"https://a.example/1#part","title":"again","content":"same page"},
		{"url":"ftp://a.example/file","title":"no web address","content":"x"},
		{"url":"https://a.example/2","title":"second","content":null}],
		"answers":[],"corrections":[],"infoboxes":[],"suggestions":[],"unresponsive_engines":[["x","timeout"]]}`
	braveAnswer = `{"type":"search","query":{"original":"rust","more_results_available":true},
		"web":{"type":"search","results":[
		{"title":"A &amp; B","url":"https://a.example/1","description":"<strong>first</strong> line",
		 "extra_snippets":["more","of it"],"language":"en","family_friendly":true},
		{"title":"second","url":"https://a.example/2"}]}}`
	tavilyAnswer = `{"query":"rust","follow_up_questions":null,"answer":null,"images":[],"results":[
		{"url":"https://a.example/1","title":"A & B","content":"first line","score":0.98,"raw_content":null},
		{"url":"https://a.example/2","title":"second","content":"","score":0.1}],
		"response_time":1.2,"request_id":"123"}`
)

func TestProviders(t *testing.T) {
	for _, c := range []struct {
		provider, answer, snippet string
		check                     func(r *http.Request, body string) string
	}{
		{SearXNG, searxngAnswer, "first line", func(r *http.Request, _ string) string {
			q := r.URL.Query()
			if r.Method != "GET" || r.URL.Path != "/sx/search" || q.Get("q") != "what is rust" ||
				q.Get("format") != "json" || r.Header.Get("Authorization") != "Bearer "+testKey {
				return fmt.Sprint(r.Method, " ", r.URL, " ", r.Header)
			}
			return ""
		}},
		{Brave, braveAnswer, "first line\nmore\nof it", func(r *http.Request, _ string) string {
			q := r.URL.Query()
			if r.Method != "GET" || r.URL.Path != "/sx/web/search" || q.Get("q") != "what is rust" ||
				q.Get("count") != "4" || r.Header.Get("X-Subscription-Token") != testKey {
				return fmt.Sprint(r.Method, " ", r.URL, " ", r.Header)
			}
			return ""
		}},
		{Tavily, tavilyAnswer, "first line", func(r *http.Request, body string) string {
			var b struct {
				Query string `json:"query"`
				Max   int    `json:"max_results"`
			}
			if err := json.Unmarshal([]byte(body), &b); err != nil || r.Method != "POST" ||
				r.URL.Path != "/sx/search" ||
				b.Query != "what is rust" || b.Max != 4 || r.Header.Get("Authorization") != "Bearer "+testKey {
				return fmt.Sprint(r.Method, " ", r.URL, " ", r.Header, body)
			}
			return ""
		}},
	} {
		t.Run(c.provider, func(t *testing.T) {
			wrong := make(chan string, 1)
			s := serve(t, func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				wrong <- c.check(r, string(body))
				w.Header().Set("Content-Type", "application/json")
				_, _ = io.WriteString(w, c.answer)
			})
			client, _ := open(t,
				Options{Provider: c.provider, URL: s.URL + "/sx/", APIKey: testKey})
			pages, err := client.Search(t.Context(), "  what is\nrust ", 4)
			if err != nil {
				t.Fatal(err)
			}
			if w := <-wrong; w != "" {
				t.Errorf("the request is not as documented: %s", w)
			}
			want := []Page{{URL: "https://a.example/1", Title: "A & B", Snippet: c.snippet},
				{URL: "https://a.example/2", Title: "second"}}
			if d := cmp.Diff(want, pages, cmpopts.IgnoreFields(Page{}, "Fetched"),
				cmpopts.IgnoreUnexported(Page{})); d != "" {
				t.Error(d)
			}
			if pages[0].Fetched.IsZero() || pages[0].Content() != c.snippet {
				t.Errorf("page %+v", pages[0])
			}
		})
	}
}

func TestOpen(t *testing.T) {
	t.Setenv("WEB_TEST_KEY", testKey)
	for _, c := range []struct {
		o    Options
		want error
		text string
	}{
		{Options{}, ErrNoProvider, "web.provider"},
		{Options{Provider: "none"}, ErrNoProvider, "web.provider"},
		{Options{Provider: "google"}, ErrOptions, "searxng, brave, tavily"},
		{Options{Provider: SearXNG}, ErrOptions, "web.url"},
		{Options{Provider: SearXNG, URL: "http://u:secret@h/"}, ErrOptions, "user or password"},
		{Options{Provider: SearXNG, URL: "file:///etc"}, ErrOptions, "http"},
		{Options{Provider: SearXNG, URL: "http://h/?q=1"}, ErrOptions, "query"},
		{Options{Provider: SearXNG, URL: "http://h/%zz"}, ErrOptions, "not a URL"},
		{Options{Provider: Brave}, ErrOptions, "SLUICE_WEB_API_KEY"},
		{Options{Provider: Tavily, APIKeyEnv: "WEB_TEST_NONE"}, ErrOptions, "WEB_TEST_NONE"},
		{Options{Provider: Tavily, APIKey: "a", APIKeyEnv: "WEB_TEST_KEY"}, ErrOptions, "not both"},
		{Options{Provider: Tavily, APIKey: "a\nb"}, ErrOptions, "no key has"},
		{Options{Provider: Tavily, APIKey: testKey, Timeout: -1}, ErrOptions, "negative"},
		{Options{Provider: Tavily, APIKeyEnv: "WEB_TEST_KEY"}, nil, ""},
		{Options{Provider: SearXNG, URL: "http://localhost:8888"}, nil, ""},
	} {
		_, err := Open(c.o)
		if !errors.Is(err, c.want) || err != nil && (!strings.Contains(err.Error(), c.text) ||
			strings.Contains(err.Error(), "secret")) {
			t.Errorf("%+v: %v, want %v with %q", c.o, err, c.want, c.text)
		}
		if strings.Contains(fmt.Sprintf("%v %+v %#v", c.o, c.o, c.o.APIKey), testKey) {
			t.Error("the options show the key")
		}
	}
}

// A provider's failures end as errors that say what to do, without the key, also where the provider repeats it.
func TestProviderFails(t *testing.T) {
	for _, c := range []struct {
		name, provider string
		answer         func(w http.ResponseWriter)
		want           error
		text           string
		requests       int32
	}{
		{"bad key", Tavily, func(w http.ResponseWriter) {
			w.WriteHeader(401)
			fmt.Fprintf(w, `{"detail":{"error":"Unauthorized: %s is invalid"}}`, testKey)
		}, nil, "Unauthorized: [key] is invalid; check the key", 1},
		{"plan", Tavily, func(w http.ResponseWriter) { w.WriteHeader(432) }, nil, "the account's limit", 1},
		{"detail as text", Tavily, func(w http.ResponseWriter) {
			w.WriteHeader(400)
			fmt.Fprint(w, `{"detail":"Query is too long"}`)
		}, nil, "Query is too long", 1},
		{"brave", Brave, func(w http.ResponseWriter) {
			w.WriteHeader(422)
			fmt.Fprint(w,
				`{"type":"ErrorResponse","error":{"code":"SUBSCRIPTION_TOKEN_INVALID","detail":"no \u001b[31m"}}`)
		}, nil, "SUBSCRIPTION_TOKEN_INVALID: no [31m; check the key", 1},
		{"brave wants a pause", Brave, func(w http.ResponseWriter) {
			w.Header().Set("X-RateLimit-Reset", "0, 1419704")
			w.WriteHeader(429)
		}, nil, "HTTP 429", 3},
		{"a month's pause", Brave, func(w http.ResponseWriter) {
			w.Header().Set("Retry-After", "86400")
			w.WriteHeader(429)
		}, nil, "HTTP 429", 1},
		{"no JSON allowed", SearXNG, func(w http.ResponseWriter) { w.WriteHeader(403) }, nil, "search.formats", 1},
		{"gateway", SearXNG, func(w http.ResponseWriter) { w.WriteHeader(502) }, nil, "HTTP 502", 3},
		{"web page", SearXNG, func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			fmt.Fprint(w, "<html>")
		}, ErrResponse, "check web.url", 1},
		{"not JSON", SearXNG, func(w http.ResponseWriter) { fmt.Fprint(w, `{"results":[{"url"`) }, ErrResponse, "", 1},
		{"wrong types", SearXNG, func(w http.ResponseWriter) { fmt.Fprint(w, `{"results":{"url":1}}`) }, ErrResponse,
			"", 1},
		{"no results", SearXNG, func(w http.ResponseWriter) { fmt.Fprint(w, `{}`) }, ErrResponse, "", 1},
		{"another type", Brave, func(w http.ResponseWriter) { fmt.Fprint(w, `{"type":"news"}`) }, ErrResponse, "", 1},
		{"endless", SearXNG, func(w http.ResponseWriter) {
			part := strings.Repeat(" ", 1<<16)
			for {
				if _, err := io.WriteString(w, part); err != nil {
					return
				}
			}
		}, ErrTooLarge, "8388608", 1},
		{"redirect", SearXNG, func(w http.ResponseWriter) {
			w.Header().Set("Location", "http://elsewhere.example/search?key="+testKey)
			w.WriteHeader(302)
		}, ErrRedirect, "elsewhere.example", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			var requests atomic.Int32
			s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				requests.Add(1)
				c.answer(w)
			})
			client, _ := open(t, Options{Provider: c.provider, URL: s.URL, APIKey: testKey, Retries: 2})
			_, err := client.Search(t.Context(), "q", 4)
			if err == nil || !strings.Contains(err.Error(), c.text) || c.want != nil && !errors.Is(err, c.want) {
				t.Fatalf("%v, want %v with %q", err, c.want, c.text)
			}
			var status *StatusError
			if c.want == nil && !errors.As(err, &status) {
				t.Errorf("%T is no StatusError", err)
			}
			if strings.Contains(err.Error(), testKey) {
				t.Errorf("the key is in %v", err)
			}
			if n := requests.Load(); n != c.requests {
				t.Errorf("%d requests, want %d", n, c.requests)
			}
		})
	}
}

func TestSearchRetriesAfterWhatTheProviderAsksFor(t *testing.T) {
	var first time.Time
	var waited time.Duration
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		if first.IsZero() {
			first = time.Now()
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		waited = time.Since(first)
		_, _ = io.WriteString(w, searxngAnswer)
	})
	client, log := open(t, Options{Provider: SearXNG, URL: s.URL, Retries: 2})
	pages, err := client.Search(t.Context(), "q", 1)
	if err != nil || len(pages) != 1 || waited < time.Second {
		t.Fatalf("%d pages after %v: %v", len(pages), waited, err)
	}
	if !strings.Contains(log.String(), "trying again in 1s") {
		t.Errorf("the wait was not said: %s", log)
	}
}

func TestSearchEnds(t *testing.T) {
	s := serve(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	client, _ := open(t, Options{Provider: SearXNG, URL: s.URL, Timeout: 50 * time.Millisecond})
	if _, err := client.Search(t.Context(), "q", 1); !errors.Is(err, ErrTimeout) {
		t.Errorf("a silent provider: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := client.Search(ctx, "q", 1); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled search: %v", err)
	}
	for _, n := range []int{0, -1, MaxResults + 1} {
		if _, err := client.Search(t.Context(), "q", n); !errors.Is(err, ErrOptions) {
			t.Errorf("%d pages: %v", n, err)
		}
	}
	if _, err := client.Search(t.Context(), " \n", 1); !errors.Is(err, ErrOptions) {
		t.Errorf("an empty query: %v", err)
	}
}

// A search with its pages: one is read, one is not there and one is forbidden by the site's robots.txt; these keep the
// provider's words.
func TestSearchFetches(t *testing.T) {
	var s *httptest.Server
	s = serveAll(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/robots.txt":
			fmt.Fprint(w, "User-agent: *\nDisallow: /private")
		case "/search":
			fmt.Fprintf(w, `{"results":[{"url":"%[1]s/gone","title":"gone","content":"what it was"},
				{"url":"%[1]s/page?x=1","title":"from the search","content":"snippet"},
				{"url":"http://169.254.169.254/latest/meta-data/","title":"keys","content":"none"},
				{"url":"%[1]s/private/page","title":"private","content":"what may be shown"}]}`, s.URL)
		case "/private/page":
			t.Error("a page was read that the site's robots.txt forbids")
		case "/page":
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprint(w,
				`<title>Rivers</title><nav>menu</nav><script>x()</script><h1>Danube</h1><p>It flows east.</p>`)
		default:
			http.NotFound(w, r)
		}
	})
	client, log := open(t, Options{Provider: SearXNG, URL: s.URL, Fetch: true,
		exempt: fetcher(t, s, Options{}).o.exempt})
	pages, err := client.Search(t.Context(), "danube", 4)
	if err != nil || len(pages) != 4 {
		t.Fatalf("%d pages: %v", len(pages), err)
	}
	var status *StatusError
	if !errors.As(pages[0].Err, &status) || status.Status != 404 || pages[0].Content() != "what it was" {
		t.Errorf("a page that is gone: %+v", pages[0])
	}
	if p := pages[1]; p.Err != nil || p.Title != "Rivers" || p.Text != "It flows east." || p.Snippet != "snippet" ||
		!strings.HasSuffix(p.URL, "/page?x=1") {
		t.Errorf("a page: %+v", p)
	}
	if !errors.Is(pages[2].Err, ErrAddress) {
		t.Errorf("a machine's keys: %+v", pages[2])
	}
	if p := pages[3]; !errors.Is(p.Err, ErrRobots) || p.Content() != "what may be shown" {
		t.Errorf("a page that robots.txt forbids: %+v", p)
	}
	if n := strings.Count(log.String(), "a page was not read"); n != 3 {
		t.Errorf("%d pages were said to be unread: %s", n, log)
	}
}

func TestQueriesAreShortened(t *testing.T) {
	p, _ := providerOf(Brave)
	if got := p.shorten(strings.Repeat("word ", 60)); len(strings.Fields(got)) != 50 {
		t.Errorf("%d words", len(strings.Fields(got)))
	}
	if got := p.shorten(strings.Repeat("abcdefghijk ", 45)); len(got) > 400 || !strings.HasSuffix(got, "k") {
		t.Errorf("%d bytes, ends %q", len(got), got[len(got)-5:])
	}
	if got := p.shorten(strings.Repeat("ä", 500)); len([]rune(got)) != 400 {
		t.Errorf("%d characters", len([]rune(got)))
	}
}

func FuzzAnswers(f *testing.F) {
	for _, s := range []string{searxngAnswer, braveAnswer, tavilyAnswer, `{}`, `[]`, `{"results":[null]}`,
		`{"results":null}`,
		`{"type":"search","web":null}`, "{\"results\":[{\"url\":\"\\u0000\",\"title\":\"\xff\"}]}"} {
		f.Add([]byte(s))
	}
	client, err := Open(Options{Provider: SearXNG, URL: "http://h", APIKey: remote.Secret("")})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, name := range Providers() {
			p, err := providerOf(name)
			if err != nil {
				t.Fatal(err)
			}
			pages, err := p.parse(body)
			if err != nil {
				if !errors.Is(err, ErrResponse) {
					t.Fatalf("%s: %v is no ErrResponse", name, err)
				}
				continue
			}
			for _, page := range pages {
				if strings.ContainsFunc(page.Title+page.Snippet, func(r rune) bool { return r < ' ' && r != '\n' }) {
					t.Fatalf("%s: control characters in %+q", name, page.Title+page.Snippet)
				}
				if u, err := client.checkURL(page.URL); err == nil && u.Scheme != "http" && u.Scheme != "https" {
					t.Fatalf("%s: %q passes as an address", name, page.URL)
				}
			}
			p.message(401, body)
		}
	})
}
