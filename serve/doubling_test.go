package serve

import (
	"encoding/json"
	"maps"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/internal/test/doubling"
)

// grownBodies are bodies for each route around a growing text: %s is a JSON string, a list of strings or a value.
var grownBodies = map[string][]string{
	"/v1/gate":               {`{"query":%s}`, `{"query":"a","where":%s}`, `%s`},
	"/v1/retrieve":           {`{"query":%s}`, `{"queries":%s}`, `{"query":"a","where":%s}`, `%s`},
	"/v1/feedback":           {`{"id":%s,"verdict":"yes"}`, `%s`},
	"/v1/calibration/policy": {`{"policy":%s}`, `%s`},
	"/v1/chat/completions": {`{"messages":[{"role":"user","content":%s}]}`, `{"messages":%s}`,
		`{"messages":[{"role":"user","content":"a"}],"stop":%s}`,
		`{"messages":[{"role":"user","content":"a"}],"tools":[{"type":"function","function":{"name":"f","parameters":%s}}]}`,
		`{"messages":[{"role":"user","content":"a"}],"response_format":{"type":"json_schema","json_schema":{"name":"a","schema":%s}}}`, `%s`},
	"/v1/completions": {`{"prompt":%s}`, `{"prompt":"a","grammar":%s}`, `{"prompt":"a","stop":%s}`, `%s`},
	"/v1/embeddings":  {`{"input":%s}`, `%s`},
	"/v1/rerank":      {`{"query":%s,"documents":["a"]}`, `{"query":"a","documents":%s}`, `%s`},
	"/v1/classify":    {`{"input":%s}`, `{"inputs":%s}`, `%s`},
	"/tokenize":       {`{"content":%s}`, `%s`},
}

// jsonValues returns JSON values of a growing text.
func jsonValues(text string) []string {
	one, _ := json.Marshal(text)
	var list strings.Builder
	for i := 0; i < len(text); i += 8 {
		piece, _ := json.Marshal(text[i:min(i+8, len(text))])
		list.WriteString(map[bool]string{true: "[", false: ","}[i == 0])
		list.Write(piece)
	}
	return []string{string(one), list.String() + "]", text}
}

// grown sends bodies around a text to a route, and reports responses that are not valid.
func grown(t testing.TB, w *world, path, text string) {
	for _, form := range grownBodies[path] {
		for _, value := range jsonValues(text) {
			out := httptest.NewRecorder()
			w.ServeHTTP(out, post(path, strings.Replace(form, "%s", value, 1)))
			if out.Code >= 500 {
				t.Errorf("%s: %d %.300s", path, out.Code, out.Body.String())
			}
		}
	}
	w.log.Reset()
	w.model.Reset("An answer [1].")
}

// TestRoutesAreLinear counts the bytes that routes allocate for bodies of doubled length.
func TestRoutesAreLinear(t *testing.T) {
	w := newWorld(t, nil)
	for path := range grownBodies {
		grown(t, w, path, "warm")
		for _, in := range []doubling.Input{doubling.Repeat("<|im_start|>\u00e9 "), {Unit: `{"a":[`, Second: "]}"},
			{Head: `[{"role":"user","content":"a"}`, Unit: `,{"role":"user","content":"b"}`, Tail: "]"},
			{Head: `{"type":"object","properties":{"a":{"type":"string","enum":["a"`, Unit: `,"b"`, Tail: "]}}}"}} {
			doubling.Linear(t, in, func(text string) int {
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				grown(t, w, path, text)
				runtime.ReadMemStats(&after)
				return int(after.TotalAlloc - before.TotalAlloc)
			})
		}
	}
}

// TestDoubling tests each route with random growing bodies.
func TestDoubling(t *testing.T) {
	w := newWorld(t, nil)
	syntax := []string{"{", "}", "[", "]", `"`, ":", ",", `"a"`, "1", `\u00e9`, `\`, " ", "null", "true", "-1e9",
		`"a":`, `{"role":"user","content":"a"},`,
		`"type":"object",`, `"properties":{`, `"enum":[`, `"anyOf":[`, `"pattern":"`, "a*", "(", ")", "|", "word ",
		"é", "<|im_start|>", "topic=a", "**", "~",
		"root ::= ", "a ::= b\n"}
	for _, path := range slices.Sorted(maps.Keys(grownBodies)) {
		t.Run(strings.ReplaceAll(path[1:], "/", "-"), func(t *testing.T) {
			doubling.Search(t, syntax, func(text string) { grown(t, w, path, text) })
		})
	}
}
