package serve

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestErrorsRepeatLittle checks that an error quotes no more of a request than a reader needs to find the place.
func TestErrorsRepeatLittle(t *testing.T) {
	w := newWorld(t, nil)
	digits, word := strings.Repeat("9", 1_000_000), strings.Repeat("a", 60_000)
	words := strings.Repeat("many words ", 6_000)
	for name, r := range map[string]*http.Request{
		"number": post("/v1/retrieve", `{"query":"ships","k":`+digits+`}`),
		"type":   post("/v1/retrieve", `{"query":`+digits+`}`),
		"field":  post("/v1/retrieve", `{"query":"ships","`+word+`":1}`),
		"store":  post("/v1/retrieve", `{"query":"ships","store":"`+words+`"}`),
		"mode":   post("/v1/retrieve", `{"query":"ships","mode":"`+words+`"}`),
		"filter": post("/v1/retrieve", `{"query":"ships","where":["`+words+`"]}`),
		"model":  post("/v1/chat/completions", `{"model":"`+word+`","messages":[{"role":"user","content":"x"}]}`),
		"role":   post("/v1/chat/completions", `{"messages":[{"role":"`+words+`","content":"x"}]}`),
		"sluice": post("/v1/chat/completions", `{"messages":[{"role":"user","content":"x"}],
			"sluice":{"`+word+`":1}}`),
		"policy":       post("/v1/calibration/policy", `{"policy":"`+words+`"}`),
		"path":         httptest.NewRequest(http.MethodGet, "/"+word, nil),
		"path of ours": httptest.NewRequest(http.MethodGet, "/v1/jobs/"+word, nil),
		"query":        httptest.NewRequest(http.MethodGet, "/v1/documents?store="+word, nil),
		"limit":        httptest.NewRequest(http.MethodGet, "/v1/documents?limit="+digits, nil),
	} {
		rec := httptest.NewRecorder()
		w.ServeHTTP(rec, r)
		if rec.Code < 400 || rec.Code >= 500 || rec.Body.Len() > 5_000 {
			t.Errorf("%s: status %d, %d bytes: %.300s", name, rec.Code, rec.Body.Len(), rec.Body)
		}
	}
	for line := range strings.Lines(w.log.String()) {
		if len(line) > 10_000 {
			t.Errorf("a line of the log has %d bytes: %.300s", len(line), line)
		}
	}
}
