package serve

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestStoreOfRequests checks that each route with a knowledge base follows ?store= and the body, and refuses two names.
func TestStoreOfRequests(t *testing.T) {
	w := newWorld(t, func(c *Config) {
		b := c.Bases[0].With(t.TempDir())
		c.Bases = append(c.Bases, Base{"moon", b})
		t.Cleanup(func() { _ = b.Close() })
	})
	bodies := 0
	for _, at := range w.table() {
		method, path := pathOf(at.pattern)
		method = strings.ToUpper(method)
		path = strings.NewReplacer("{id}", "herring", "{model}", "default").Replace(path)
		if at.use == public || at.use == scraped {
			continue
		}
		ask := func(query, store string) (int, string) {
			body := sane[path]
			switch {
			case method != http.MethodPost:
				body = ""
			case path == "/v1/chat/completions":
				body = `{"messages":[{"role":"user","content":"x"}],"sluice":{"store":"` + store + `"}}`
			case at.foreign():
				body = strings.Replace(body, `"default"`, `"sluice"`, 1)
			case path == "/v1/responses":
				body = `{"input":"x","sluice":{"store":"` + store + `"}}`
			case store != "":
				body = strings.Replace(body, "{", `{"store":"`+store+`",`, 1)
				body = strings.Replace(body, ",}", "}", 1)
			}
			r := post(path+query, body)
			if r.Method = method; body == "" {
				r = httptest.NewRequest(method, "http://localhost"+path+query, http.NoBody)
			}
			return do(t, w, r)
		}
		if !strings.Contains(at.query, storeParameter) {
			if status, body := ask("?store=moon", ""); status != 400 {
				t.Errorf("%s has no knowledge base, and takes ?store=: %d %s", at.pattern, status, body)
			}
			continue
		}
		status, body := ask("?store=mars", "")
		if status != 404 || !strings.Contains(body, `there is no knowledge base \"mars\"`) {
			t.Errorf("%s: %d %s", at.pattern, status, body)
		}
		if status, body := ask("?store=sea&store=moon", ""); status != 400 {
			t.Errorf("%s, twice: %d %s", at.pattern, status, body)
		}
		if method != http.MethodPost || at.foreign() {
			continue
		}
		bodies++
		if status, body := ask("?store=moon", "sea"); status != 400 || failure(t, body).Param != "store" {
			t.Errorf("%s, two names: %d %s", at.pattern, status, body)
		}
		if path == "/v1/feedback" { // without a log
			continue
		}
		for _, x := range [][2]string{{"?store=moon", ""}, {"", "moon"}, {"?store=moon", "moon"}} {
			if status, body := ask(x[0], x[1]); !strings.Contains(body, `"store":"moon"`) && status != 409 {
				t.Errorf("%s %v: %d %s", at.pattern, x, status, body)
			}
		}
	}
	if bodies < 6 {
		t.Errorf("only %d routes with bodies", bodies)
	}
}

// TestPolicyOfANamedStore checks that only the policy of the base named in the URL is changed.
func TestPolicyOfANamedStore(t *testing.T) {
	w := newWorld(t, func(c *Config) {
		b := c.Bases[0].With(t.TempDir())
		c.Bases = append(c.Bases, Base{"moon", b})
		t.Cleanup(func() { _ = b.Close() })
	})
	w.fill(t, w.bases["moon"].Sluice)
	if status, body := do(t, w, post("/v1/calibration/policy?store=moon", `{"policy":"median"}`)); status != 200 ||
		!strings.Contains(body, `"store":"moon"`) {
		t.Fatalf("%d %s", status, body)
	}
	for store, want := range map[string]string{"sea": "maximum:p5", "moon": "median"} {
		_, body := do(t, w, get("/v1/calibration?store="+store))
		if c := as[calibrationAnswer](t, body); c.Calibration.Policy != want {
			t.Errorf("%s goes by %s, want %s", store, c.Calibration.Policy, want)
		}
	}
}

// TestUnknownParameters checks that a misspelt parameter is refused, and that additions of other servers' clients have
// no effect.
func TestUnknownParameters(t *testing.T) {
	w := newWorld(t, nil)
	for address, want := range map[string]int{
		"/v1/documents?stroe=sea": 400, "/v1/documents?q=x&q=y": 400, "/v1/documents?limit=": 400, "/info?x=1": 400,
		"/v1/documents?a=%zz": 400, "/v1/models?api-version=2024-10-21": 200, "/v1/documents?limit=1&store=sea": 200,
	} {
		if status, body := do(t, w, get(address)); status != want {
			t.Errorf("%s: %d %s, want %d", address, status, body, want)
		}
	}
	chat := `{"model":"default","messages":[{"role":"user","content":"x"}]}`
	for query, want := range map[string]int{"?api-version=2024-10-21": 200, "?store=sea": 400} {
		if status, body := do(t, w, post("/v1/chat/completions"+query, chat)); status != want {
			t.Errorf("%s: %d %s, want %d", query, status, body, want)
		}
	}
}

// TestParametersAreDescribed checks that openapi.json has the parameters of the table of routes.
func TestParametersAreDescribed(t *testing.T) {
	s, err := loadSpec()
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range (&Server{metrics: &metrics{}}).table() {
		method, path := pathOf(at.pattern)
		described := map[string]bool{}
		for _, p := range s.paths[path][method].Parameters {
			if p.In == "query" {
				described[p.Name] = true
			}
		}
		for name := range strings.FieldsSeq(at.query) {
			if name != anyParameter && !described[name] {
				t.Errorf("%s: openapi.json has no parameter %q", at.pattern, name)
			}
			delete(described, name)
		}
		if len(described) > 0 {
			t.Errorf("%s: openapi.json has %v as well", at.pattern, described)
		}
	}
}

// foreign reports whether a route has errors in the form of another API, and no field for the knowledge base.
func (at endpoint) foreign() bool {
	_, path := pathOf(at.pattern)
	_, own := (&requestError{}).body(path).(errorBody)
	return !own
}
