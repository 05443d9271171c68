package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

const webKey = "web-key-0123456789"

// searx starts a SearXNG server for a bench that finds two pages, one of which exists.
func searx(t *testing.T, b *bench) {
	t.Helper()
	var s *httptest.Server
	s = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/search":
			fmt.Fprintf(w, `{"results":[{"url":"%[1]s/whales","title":"Whales","content":"Whales sing."},
				{"url":"%[1]s/gone","title":"Gone","content":"It was there."}]}`, s.URL)
		case "/whales":
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprint(w, "<title>All whales</title><h1>Song</h1><p>The blue whale sings under water.</p>")
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(s.Close)
	b.env = append(b.env, "SLUICE_WEB_PROVIDER=searxng", "SLUICE_WEB_URL="+s.URL, "SLUICE_WEB_API_KEY="+webKey,
		"SLUICE_WEB_ALLOW_PRIVATE=true")
}

func TestWeb(t *testing.T) {
	b := calibrated(t)
	b.fails(exitFailure, "no provider of web search is configured", "web", "search", "whales")
	before := b.run("gate", "--json", "why do whales sing?").stdout
	searx(t, b)
	pages := objects(t, b.ok("web", "search", "whales", "--json", "--keep"))[0]["pages"].([]any)
	first, second := pages[0].(map[string]any), pages[1].(map[string]any)
	if len(pages) != 2 || first["title"] != "All whales" || first["text"] != "The blue whale sings under water." ||
		!strings.Contains(fmt.Sprint(second["error"]), "404") || second["snippet"] != "It was there." {
		t.Errorf("%v", pages)
	}
	if out := b.ok("web", "list"); strings.Count(out, "\n") != 2 || !strings.Contains(out, "All whales") {
		t.Errorf("%q", out)
	}
	if after := b.run("gate", "--json", "why do whales sing?").stdout; after != before {
		t.Errorf("the gate says %s, before %s", after, before)
	}
	url := objects(t, b.ok("web", "list", "--json"))[0]["pages"].([]any)[0].(map[string]any)["url"].(string)
	if out := b.ok("web", "rm", url); out != "removed 1 page\n" {
		t.Errorf("%q", out)
	}
	b.fails(exitFailure, "not found", "web", "rm", url)
	b.fails(exitUsage, "addresses, or --expired", "web", "rm")
	if out := b.ok("web", "rm", "--expired"); out != "removed 0 pages\n" {
		t.Errorf("%q", out)
	}
}

func TestWebKeyIsNotShown(t *testing.T) {
	b := newBench(t)
	searx(t, b)
	out := b.ok("config", "show") + b.ok("config", "show", "--json")
	if strings.Contains(out, webKey) || !strings.Contains(out, "web.api_key") {
		t.Errorf("%s", out)
	}
	b.env = append(b.env, "SLUICE_WEB_URL=http://127.0.0.1:1", "SLUICE_WEB_RETRIES=0")
	if o := b.run("web", "search", "q"); o.code != exitFailure || strings.Contains(o.stderr, webKey) {
		t.Errorf("%+v", o)
	}
}
