package serve

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sluice-rag/sluice"
	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/internal/testmodels/overlay"
	"github.com/sluice-rag/sluice/rag/answer"
	"github.com/sluice-rag/sluice/rag/retrieve"
)

const inScope = "When does a deferred function run, in which order?"

func TestGateAndRetrieve(t *testing.T) {
	w := newWorld(t, nil)
	status, body := do(t, w, post("/v1/gate", `{"queries":["`+inScope+`","Who won the match on Sunday evening?"]}`))
	answer := as[gateAnswer](t, body)
	if status != 200 || answer.Store != "sea" || len(answer.Decisions) != 2 || !answer.Decisions[0].Retrieve ||
		answer.Decisions[1].Retrieve || answer.Decisions[0].ContextID != "defer" {
		t.Errorf("%d %s", status, body)
	}
	status, body = do(t, w, post("/v1/retrieve", `{"query":"`+inScope+`","k":2,"mode":"dense"}`))
	list := as[retrieveAnswer](t, body).Lists
	if status != 200 || len(list) != 1 || len(list[0].Results) != 2 || list[0].Results[0].ID != "defer" ||
		!strings.HasPrefix(list[0].Results[0].Text, "A deferred function") || list[0].Decision != nil {
		t.Errorf("%d %s", status, body)
	}
	status, body = do(t, w, post("/v1/retrieve", `{"queries":["Who won the match on Sunday evening?","`+inScope+
		`"],"gate":"auto","k":1}`))
	list = as[retrieveAnswer](t, body).Lists
	if status != 200 || len(list) != 2 || len(list[0].Results) != 0 || list[0].Taken != nil ||
		list[0].Decision.Retrieve ||
		len(list[1].Results) != 1 || list[1].Results[0].ID != "defer" {
		t.Errorf("%d %s", status, body)
	}
}

// TestVectorsStandForTheirTexts checks that vectors of texts give the same results as the texts.
func TestVectorsStandForTheirTexts(t *testing.T) {
	w := newWorld(t, nil)
	e, err := w.sluice.Embed(t.Context(), []string{inScope}, embed.Query)
	if err != nil {
		t.Fatal(err)
	}
	q := queries{Vectors: []vector{e.Row(0)}}
	o := overlay.On(retrieve.DefaultOptions(), retrieve.Options{Mode: "dense", K: 4})
	v, err := q.matrix()
	if err != nil {
		t.Fatal(err)
	}
	by, _, err := w.sluice.Lookup(t.Context(), nil,
		sluice.LookupOptions{Gate: answer.GateOpen, Retrieve: &o, Vectors: v})
	if err != nil {
		t.Fatal(err)
	}
	of, _, err := w.sluice.Lookup(t.Context(), []string{inScope}, sluice.LookupOptions{Retrieve: &o})
	if err != nil || of[0].Decision == nil || by[0].Decision != nil {
		t.Fatal(err, of, by)
	}
	for i, r := range of[0].Results {
		if by[0].Results[i].ID != r.ID || by[0].Results[i].Score != r.Score {
			t.Errorf("result %d: %v by vectors, %v by texts", i, by[0].Results[i], r)
		}
	}
}

func TestBadRequests(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.Limits.Body, c.Limits.Batch = 2000, 3 })
	for name, c := range map[string]struct {
		path, body, says, param string
		status                  int
	}{
		"not JSON":       {"/v1/gate", `{"query":`, "breaks off", "", 400},
		"empty":          {"/v1/gate", ` `, "empty", "", 400},
		"a list":         {"/v1/gate", `[]`, "an object", "", 400},
		"a number":       {"/v1/gate", `{"query":3}`, "query must be a string, given number", "query", 400},
		"unknown field":  {"/v1/gate", `{"quary":"x"}`, `no field "quary"`, "quary", 400},
		"twice":          {"/v1/gate", `{"query":"a","query":"b"}`, "twice", "query", 400},
		"twice in case":  {"/v1/gate", `{"query":"a","QUERY":"b"}`, "twice", "QUERY", 400},
		"twice, escaped": {"/v1/gate", `{"query":"a","\u0071uery":"b"}`, "twice", "query", 400},
		"trailing":       {"/v1/gate", `{"query":"a"}{}`, "follows the JSON value, from byte 13", "", 400},
		"not UTF-8":      {"/v1/gate", "{\"query\":\"a\xff\"}", "not UTF-8", "", 400},
		"deep":           {"/v1/gate", strings.Repeat("[", 900) + strings.Repeat("]", 900), "64 deep", "", 400},
		"no query":       {"/v1/gate", `{}`, "a query is needed", "query", 400},
		"empty query":    {"/v1/gate", `{"queries":["a",""]}`, "query 1 is empty", "queries", 400},
		"both":           {"/v1/gate", `{"query":"a","queries":["b"]}`, "either", "query", 400},
		"too many":       {"/v1/gate", `{"queries":["a","b","c","d"]}`, "4 queries, the limit is 3", "queries", 400},
		"too large": {"/v1/gate", `{"query":"` + strings.Repeat("x", 2000) + `"}`,
			"has 2012 bytes, the limit is 2000", "", 413},
		"other store":     {"/v1/gate", `{"query":"a","store":"moon"}`, `no knowledge base "moon"`, "store", 404},
		"k":               {"/v1/retrieve", `{"query":"a","k":2000}`, "k: 2000 is not between 1 and 1000", "k", 400},
		"mode":            {"/v1/retrieve", `{"query":"a","mode":"best"}`, "best", "mode", 400},
		"filter":          {"/v1/retrieve", `{"query":"a","where":["x"]}`, "x", "", 400},
		"gate":            {"/v1/retrieve", `{"query":"a","gate":"shut"}`, `given "shut"`, "gate", 400},
		"vector's length": {"/v1/retrieve", `{"vectors":[[1,2]],"mode":"dense"}`, "2 dimensions", "", 400},
		"ragged vectors":  {"/v1/retrieve", `{"vectors":[[1,2],[1]]}`, "vector 1 has 1 numbers", "vectors", 400},
		"number too large": {"/v1/retrieve", `{"vectors":[[1e99]]}`, "1e99 is not between -3.4028234663852886e38",
			"vectors", 400},
		"no reranker":   {"/v1/retrieve", `{"query":"a","rerank":10}`, "no reranker", "", 400},
		"unknown route": {"/v2/gate", `{}`, "nothing at /v2/gate", "", 404},
	} {
		t.Run(name, func(t *testing.T) {
			status, body := do(t, w, post(c.path, c.body))
			e := failure(t, body)
			if status != c.status || !strings.Contains(e.Message, c.says) || e.Param != c.param {
				t.Errorf("%d %s, want %d with %q about %q", status, body, c.status, c.says, c.param)
			}
		})
	}
	r := post("/v1/gate", `{"query":"a"}`)
	r.Header.Set("Content-Type", "text/plain")
	if status, body := do(t, w, r); status != 415 {
		t.Errorf("%d %s", status, body)
	}
	r = get("/v1/gate")
	if status, body := do(t, w, r); status != 405 || failure(t, body).Code != "method" {
		t.Errorf("%d %s", status, body)
	}
}

func TestKeys(t *testing.T) {
	const all, one = "0123456789abcdef-all", "0123456789abcdef-one"
	keys, err := ReadKeys(strings.NewReader("# keys\n" + all + "\n\n" + one + " moon\n"))
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, func(c *Config) {
		c.Keys = keys
		moon := c.Bases[0].With(t.TempDir())
		c.Bases = append(c.Bases, Base{"moon", moon})
		t.Cleanup(func() { _ = moon.Close() })
	})
	ask := func(key, store string) (int, string) {
		r := post("/v1/gate", `{"query":"a","store":"`+store+`"}`)
		if key != "" {
			r.Header.Set("Authorization", "Bearer "+key)
		}
		return do(t, w, r)
	}
	for _, c := range []struct {
		key, store, code string
		status           int
	}{
		{"", "sea", "invalid_api_key", 401}, {"0123456789abcdef-al", "sea", "invalid_api_key", 401},
		{all, "sea", "", 200}, {all, "", "", 200}, {all, "moon", "no_store", 409},
		{one, "sea", "unknown_store", 404}, {one, "moon", "no_store", 409}, {one, "", "no_store", 409},
	} {
		status, body := ask(c.key, c.store)
		if status != c.status || status != 200 && failure(t, body).Code != c.code {
			t.Errorf("key %q, store %q: %d %s, want %d %s", c.key, c.store, status, body, c.status, c.code)
		}
	}
	for header, want := range map[string]int{"bearer " + all: 200, "BEARER  " + all: 200, "Bearer\t" + all: 401,
		"Basic " + all: 401, all: 401, "Bearer" + all: 401} {
		r := post("/v1/gate", `{"query":"a"}`)
		r.Header.Set("Authorization", header)
		if status, body := do(t, w, r); status != want {
			t.Errorf("%q: %d %s", header, status, body)
		}
	}
	if status, _ := do(t, w, get("/healthz")); status != 200 {
		t.Errorf("healthz needs a key: %d", status)
	}
	r := get("/info")
	r.Header.Set("X-Api-Key", one)
	status, body := do(t, w, r)
	if stores := as[info](t, body).Stores; status != 200 || len(stores) != 1 || stores[0].Name != "moon" {
		t.Errorf("%d %s", status, body)
	}
	if strings.Contains(w.log.String(), all) || strings.Contains(w.log.String(), one) {
		t.Error("the log has a key")
	}
	for _, text := range []string{"", "# none\n", "short\n", all + "\n" + all + "\n"} {
		if _, err := ReadKeys(strings.NewReader(text)); err == nil || strings.Contains(err.Error(), all) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestPagesOfOthers checks that requests that another site's page can make a browser send are refused.
func TestPagesOfOthers(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.Origins, c.Hosts = []string{"https://friend.example"}, []string{"sea.local"} })
	for name, c := range map[string]struct {
		host, origin string
		status       int
		allowed      string
	}{
		"its own page":     {"localhost:7420", "http://localhost:7420", 200, ""},
		"no page":          {"127.0.0.1:7420", "", 200, ""},
		"a name it has":    {"sea.local", "", 200, ""},
		"IPv6":             {"[::1]:7420", "", 200, ""},
		"a friend":         {"localhost", "https://friend.example", 200, "https://friend.example"},
		"a stranger":       {"localhost", "https://evil.example", 403, ""},
		"a stranger's DNS": {"evil.example", "http://evil.example", 403, ""},
		"null":             {"localhost", "null", 403, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := post("/v1/gate", `{"query":"a"}`)
			r.Host = c.host
			if c.origin != "" {
				r.Header.Set("Origin", c.origin)
			}
			if status, body := do(t, w, r); status != c.status {
				t.Errorf("%d %s", status, body)
			}
		})
	}
}

// TestRoom checks that requests above the limit are refused at once, with Retry-After.
func TestRoom(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.Limits.Requests = 1 })
	inside, leave := make(chan struct{}), make(chan struct{})
	w.encoder.After = func([]string) { inside <- struct{}{}; <-leave }
	first := make(chan int, 1)
	go func() {
		status, _ := do(t, w, post("/v1/gate", `{"query":"a"}`))
		first <- status
	}()
	<-inside
	status, body := do(t, w, post("/v1/gate", `{"query":"b"}`))
	if status != 429 || failure(t, body).Code != "too_many_requests" {
		t.Errorf("%d %s", status, body)
	}
	if status, _ := do(t, w, get("/healthz")); status != 200 {
		t.Errorf("healthz has to wait: %d", status)
	}
	w.encoder.After = nil
	close(leave)
	if status := <-first; status != 200 {
		t.Errorf("the first one got %d", status)
	}
}

func TestTimeIsUp(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.Limits.Timeout = time.Millisecond })
	w.encoder.Stuck = true
	status, body := do(t, w, post("/v1/gate", `{"queries":["a","b"]}`))
	if status != http.StatusGatewayTimeout || failure(t, body).Code != "timeout" {
		t.Errorf("%d %s", status, body)
	}
}

// TestPanic checks that a handler's panic is answered and logged, and that the server goes on.
func TestPanic(t *testing.T) {
	w := newWorld(t, nil)
	w.encoder.After = func([]string) { panic("out of luck") }
	status, body := do(t, w, post("/v1/gate", `{"query":"a"}`))
	if status != 500 || strings.Contains(body, "luck") || !strings.Contains(w.log.String(), "out of luck") {
		t.Errorf("%d %s", status, body)
	}
	w.encoder.After = nil
	if status, body := do(t, w, post("/v1/gate", `{"query":"a"}`)); status != 200 {
		t.Errorf("%d %s", status, body)
	}
}
