package serve

import (
	"fmt"
	"math/big"
	"net/http"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-rag/sluice/internal/settings"
	"github.com/sluice-rag/sluice/internal/testmodels/numbers"
	"github.com/sluice-rag/sluice/rag/pseudo"
	"github.com/sluice-rag/sluice/rag/retrieve"
	"github.com/sluice-rag/sluice/serve/openai"
)

// requestTypes returns the types of bodies, by the names of their schemas.
func requestTypes() map[string]any {
	return map[string]any{
		"ChatRequest": openai.ChatRequest{}, "CompletionRequest": openai.CompletionRequest{},
		"EmbeddingRequest": openai.EmbeddingRequest{}, "RerankRequest": openai.RerankRequest{},
		"RerankV2Request": openai.RerankV2Request{},
		"ClassifyRequest": openai.ClassifyRequest{}, "TokenizeRequest": openai.TokenizeRequest{},
		"Message": openai.Message{}, "KnowledgeSettings": ragSettings{}, "GateRequest": queries{},
		"RetrieveRequest": retrieveRequest{}, "FeedbackRequest": feedbackRequest{},
		"OllamaChatRequest": ollamaChatRequest{}, "OllamaGenerateRequest": ollamaGenerateRequest{},
		"OllamaEmbedRequest": ollamaEmbedRequest{}, "OllamaOptions": ollamaOptions{}, "DifyRequest": difyRequest{},
		"MessagesRequest": messagesRequest{}, "ResponsesRequest": responsesRequest{},
		"AnthropicThought": anthropicThought{},
		"CalibrateRequest": calibrateRequest{}, "PolicyRequest": policyRequest{}, "NewKey": newKey{},
		"KeyRotation": keyRotation{},
	}
}

// bounds collects the tags of a type's numbers, by the paths to them.
func bounds(t reflect.Type, path, tag string, into map[string]string) {
	switch t.Kind() {
	case reflect.Pointer:
		bounds(t.Elem(), path, tag, into)
	case reflect.Slice:
		if t.Elem().Kind() != reflect.Uint8 {
			bounds(t.Elem(), path+".[]", tag, into)
		}
	case reflect.Struct:
		for f := range t.Fields() {
			name, embedded := settings.NameOf(f)
			at := path
			if name == "-" {
				continue
			}
			if !embedded {
				at = strings.TrimPrefix(path+"."+name, ".")
			}
			bounds(f.Type, at, settings.RequestBounds(f.Tag), into)
		}
	case reflect.Int, reflect.Int64, reflect.Uint64, reflect.Float32, reflect.Float64:
		into[path] = tag
	}
}

// TestBoundsOfNumbers checks that each number of a request has bounds, the same in Go and in openapi.json.
func TestBoundsOfNumbers(t *testing.T) {
	doc, err := numbers.Parse(openAPI)
	if err != nil {
		t.Fatal(err)
	}
	total := 0
	for name, v := range requestTypes() {
		want, got := map[string]string{}, map[string]string{}
		bounds(reflect.TypeOf(v), "", "", want)
		for _, n := range doc.Numbers(map[string]any{"$ref": "#/components/schemas/" + name}) {
			path := strings.Join(n.Path, ".")
			if n.Minimum == nil || n.Maximum == nil {
				t.Errorf("%s %s has no minimum or no maximum", name, path)
				continue
			}
			if _, ok := want[path]; !ok { // decoded separately: tokens, and KnowledgeSettings
				continue
			}
			got[path] = n.Minimum.Text('g', 20) + "," + n.Maximum.Text('g', 20)
		}
		for path, tag := range want {
			low, high, _ := strings.Cut(tag, ",")
			want[path] = plainNumber(low) + "," + plainNumber(high)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s: in Go and in openapi.json: %s", name, d)
		}
		total += len(got)
	}
	if total < 50 {
		t.Errorf("only %d numbers are found", total)
	}
}

func plainNumber(text string) string {
	f, _, err := big.ParseFloat(text, 10, 200, big.ToNearestEven)
	if err != nil {
		return fmt.Sprintf("no number: %q", text)
	}
	return f.Text('g', 20)
}

// sane are valid bodies to put a number into.
var sane = map[string]string{
	"/api/chat":              `{"model":"default","stream":false,"messages":[{"role":"user","content":"x"}]}`,
	"/api/embed":             `{"model":"words","input":"x"}`,
	"/api/generate":          `{"model":"default","stream":false,"prompt":"x"}`,
	"/retrieval":             `{"query":"x"}`,
	"/v1/messages":           `{"model":"default","max_tokens":4,"messages":[{"role":"user","content":"x"}]}`,
	"/v1/responses":          `{"model":"default","input":"x"}`,
	"/tokenize":              `{"content":"x"}`,
	"/v1/calibration":        `{"per_context":1}`,
	"/v1/calibration/policy": `{}`,
	"/v1/chat/completions":   `{"model":"default","messages":[{"role":"user","content":"x"}],"max_tokens":4}`,
	"/v1/classify":           `{"input":"x"}`,
	"/v1/completions":        `{"prompt":"x","max_tokens":4}`,
	"/v1/documents":          `{"text":"x"}`,
	"/v1/embeddings":         `{"input":"x"}`,
	"/v1/feedback":           `{"id":"x","thumb":"up"}`,
	"/v1/gate":               `{"query":"x"}`,
	"/v1/keys":               `{"name":"x"}`,
	"/v1/keys/{name}/rotate": `{}`,
	"/v1/rerank":             `{"query":"x","documents":["y"]}`,
	"/v1/retrieve":           `{"query":"x"}`,
	"/v2/rerank":             `{"query":"x","documents":["y"]}`,
}

// outOfBounds matches the error of a number out of its bounds.
var outOfBounds = regexp.MustCompile(` is not (a whole number )?between |tokens are whole numbers from`)

// TestEveryNumber sends each number of openapi.json at, below and above its bounds: a value out of bounds must be
// refused with the bounds, and others accepted, or refused for another reason. A panic would end the test.
func TestEveryNumber(t *testing.T) {
	w := newWorld(t, nil)
	working(t, w)
	doc, err := numbers.Parse(openAPI)
	if err != nil {
		t.Fatal(err)
	}
	cases, err := doc.Cases(sane)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		if strings.Contains(c.Param, " sluice.") {
			c.Body = strings.Replace(c.Body, `"default"`, `"sluice"`, 1)
		}
		r := post(c.URL, c.Body)
		if r.Method = c.Method; c.Body == "" {
			r.Body = http.NoBody
		}
		status, body := do(t, w, r)
		refused := outOfBounds.MatchString(body)
		if status >= 500 || refused == c.Legal || !c.Legal && status != http.StatusBadRequest {
			t.Errorf("%s = %s: %d %s\n%s", c.Param, c.Value, status, body, c.Body)
		}
		if status == http.StatusAccepted {
			finished(t, w, as[jobAnswer](t, body).Job.ID)
		}
		w.log.Reset()
		w.model.Reset("An answer [1].")
	}
	t.Logf("%d requests", len(cases))
	if status, body := do(t, w, post("/v1/gate", `{"query":"x"}`)); status != 200 {
		t.Errorf("the gate then: %d %s", status, body)
	}
}

// TestBoundsOfTheLibrary checks that a request's bounds are within what the library, the settings and memory can hold.
func TestBoundsOfTheLibrary(t *testing.T) {
	calibration := map[string]string{}
	bounds(reflect.TypeFor[calibrateRequest](), "", "", calibration)
	if want := fmt.Sprintf("0,%d", pseudo.MaxPerContext); calibration["per_context"] != want {
		t.Errorf("per_context: %s, want %s", calibration["per_context"], want)
	}
	w := newWorld(t, nil)
	many := `{"queries":["a"` + strings.Repeat(`,"a"`, 200) + `],"k":1000}`
	if status, body := do(t, w, post("/v1/retrieve", many)); status != 400 ||
		!strings.Contains(body, "are 201000, at most 131072") {
		t.Errorf("%d %.300s", status, body)
	}
}

// TestWholeNumbers checks that 4.0 is read as 4.
func TestWholeNumbers(t *testing.T) {
	for body, want := range map[string]string{
		`{"query":"2.0","k":4.0}`:                   "",
		`{"query":"x","k":4.00 ,"weight":1.0}`:      "",
		`{"query":"x","k":4.5}`:                     "k: 4.5 is not a whole number between 1 and 1000",
		`{"query":"x","k":4.}`:                      "the body is not JSON",
		`{"query":"x","vectors":[[1.0,-2.50,3e0]]}`: "",
	} {
		r := post("/v1/retrieve", body)
		q := retrieveRequest{Options: retrieve.DefaultOptions()}
		err := decode(r, &q)
		if said := fmt.Sprint(err); (want == "") != (err == nil) || !strings.HasPrefix(said, want) && err != nil {
			t.Errorf("%s: %v, want %q", body, err, want)
		}
		if want == "" && q.Query != "x" && q.Query != "2.0" || q.K != 4 && strings.Contains(body, "4.0") {
			t.Errorf("%s: %+v", body, q)
		}
		if v := q.queries.Vectors; len(v) > 0 && !reflect.DeepEqual(v, []vector{{1, -2.5, 3}}) {
			t.Errorf("%v", v)
		}
	}
}

// TestNames checks that names are case-sensitive, and that null is not accepted as an object.
func TestNames(t *testing.T) {
	w := newWorld(t, nil)
	for body, want := range map[string]string{
		`{"Query":"x"}`:            `there is no field "Query"`,
		`{"query":"x","ſtore":""}`: "there is no field",
		`null`:                     "the body is null",
		` null `:                   "the body is null",
		`{"queries":[{"a":1}]}`:    "must be",
	} {
		for _, path := range []string{"/v1/gate", "/v1/retrieve"} {
			status, answer := do(t, w, post(path, body))
			if status != 400 || !strings.Contains(failure(t, answer).Message, want) {
				t.Errorf("%s %s: %d %s", path, body, status, answer)
			}
		}
	}
	for path := range sane {
		if status, answer := do(t, w, post(path, "null")); status != 400 {
			t.Errorf("%s null: %d %s", path, status, answer)
		}
	}
	status, answer := do(t, w, post("/v1/chat/completions",
		`{"messages":[{"role":"user","content":"x"}],"sluice":{"K":1}}`))
	if e := failure(t, answer); status != 400 || e.Param != "sluice.K" {
		t.Errorf("%d %s", status, answer)
	}
}
