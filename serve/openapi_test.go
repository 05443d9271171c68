package serve

import (
	"bytes"
	"encoding/json"
	"flag"
	"maps"
	"mime"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/sluice-rag/sluice/rag/corpus"
	"github.com/sluice-rag/sluice/serve/openai"
)

var update = flag.Bool("update", false, "write the schemas of Go types into openapi.json")

// described returns the types whose schemas in openapi.json are generated.
func described() []any {
	return []any{errorBody{}, openai.ChatCompletion{}, openai.ChatChunk{}, openai.Completion{}, openai.RerankResponse{},
		openai.RerankV2Response{},
		openai.ClassifyResponse{}, openai.Models{}, openai.Tokenized{}, ragAnswer{}, gateAnswer{}, retrieveAnswer{},
		feedbackAnswer{}, rpcError{}, responseBody{}, anthropicMessage{}, anthropicEvent{}, anthropicError{},
		ollamaAnswer{}, ollamaModels{}, ollamaShown{}, ollamaEmbedded{}, ollamaError{}, difyAnswer{}, difyError{},
		info{}, documentList{}, documentAnswer{}, deletedAnswer{}, corpus.Chunk{}, jobAnswer{}, jobList{}, jobState{},
		calibrationAnswer{}, keyList{}, keyMade{}}
}

// spec is openapi.json with its schemas of responses.
type spec struct {
	paths    map[string]map[string]operation
	schemas  map[string]any
	compiler *jsonschema.Compiler
	mux      *http.ServeMux
}

type operation struct {
	Parameters []struct{ Name, In string }
	Responses  map[string]struct {
		Ref     string `json:"$ref"`
		Content map[string]struct {
			Schema json.RawMessage
		}
	}
	RequestBody *struct {
		Content map[string]struct {
			Schema struct {
				Ref string `json:"$ref"`
			}
		}
	}
}

// loadSpec reads openapi.json once.
var loadSpec = sync.OnceValues(func() (*spec, error) {
	var doc struct {
		Paths      map[string]map[string]operation
		Components struct {
			Schemas map[string]any
		}
	}
	if err := json.Unmarshal(openAPI, &doc); err != nil {
		return nil, err
	}
	whole, err := jsonschema.UnmarshalJSON(bytes.NewReader(openAPI))
	if err != nil {
		return nil, err
	}
	s := &spec{paths: doc.Paths, schemas: doc.Components.Schemas, compiler: jsonschema.NewCompiler(),
		mux: http.NewServeMux()}
	s.compiler.DefaultDraft(jsonschema.Draft2020)
	if err := s.compiler.AddResource("openapi.json", whole); err != nil {
		return nil, err
	}
	for _, at := range (&Server{metrics: &metrics{}}).table() {
		s.mux.Handle(at.pattern, http.NotFoundHandler())
	}
	return s, nil
})

var wild = regexp.MustCompile(`\{(\w+)(\.\.\.)?\}`)

// pathOf converts a route's pattern to OpenAPI's form.
func pathOf(pattern string) (method, path string) {
	method, path, _ = strings.Cut(pattern, " ")
	path = strings.TrimSuffix(path, "{$}")
	if path == "/page/" {
		path = "/page/{file}"
	}
	return strings.ToLower(method), wild.ReplaceAllString(path, "{$1}")
}

// check compares a response with openapi.json.
func (s *spec) check(t testing.TB, r *http.Request, status int, kind, body string) {
	t.Helper()
	_, pattern := s.mux.Handler(r)
	if pattern == "" || status >= 300 && status < 400 {
		return // an unknown route, or net/http's redirect of a path with dots and slashes
	}
	method, path := pathOf(pattern)
	op, ok := s.paths[path][method]
	if !ok {
		t.Errorf("openapi.json has no %s %s", method, path)
		return
	}
	code := http.StatusText(status)
	if code = "default"; status == 200 || status == 201 || status == 202 || status == 204 {
		code = map[int]string{200: "200", 201: "201", 202: "202", 204: "204"}[status]
	}
	answer, ok := op.Responses[code]
	if !ok {
		t.Errorf("%s %s: openapi.json has no answer %d", method, path, status)
		return
	}
	if code == "default" {
		s.valid(t, answer.Ref+"/content/application~1json/schema", body, r)
		return
	}
	kind, _, _ = mime.ParseMediaType(kind)
	_, named := answer.Content[kind]
	if _, anything := answer.Content["*/*"]; !named && !anything && status != http.StatusNoContent {
		t.Errorf("%s %s: openapi.json has no answer of type %q", method, path, kind)
		return
	}
	at := "#/paths/" + strings.NewReplacer("~", "~0", "/", "~1", "{", "%7B", "}", "%7D").Replace(path) + "/" + method +
		"/responses/" + code + "/content/" + strings.ReplaceAll(kind, "/", "~1") + "/schema"
	switch kind {
	case "application/json":
		s.valid(t, at, body, r)
	case "application/x-ndjson":
		for line := range strings.Lines(body) {
			s.valid(t, at, line, r)
		}
	case "text/event-stream":
		if at += "/properties/data"; strings.Contains(path, "completions") { // or [DONE]
			at += "/anyOf/0"
		}
		at += "/contentSchema"
		for event := range strings.SplitSeq(strings.TrimSpace(body), "\n\n") {
			_, data, _ := strings.Cut("\n"+event, "\ndata: ") // a name may come before
			switch {
			case data == "[DONE]":
			case strings.HasPrefix(data, `{"error"`):
				s.valid(t, "#/components/schemas/ErrorBody", data, r)
			default:
				s.valid(t, at, data, r)
			}
		}
	}
}

// valid checks a value against the schema at a place of openapi.json.
func (s *spec) valid(t testing.TB, at, value string, r *http.Request) {
	t.Helper()
	schema, err := s.compile(at)
	if err != nil {
		t.Errorf("%s: %v", at, err)
		return
	}
	v, err := jsonschema.UnmarshalJSON(strings.NewReader(value))
	if err == nil {
		err = schema.Validate(v)
	}
	if err != nil {
		t.Errorf("%s %s: %v\n%.2000s", r.Method, r.URL.Path, err, value)
	}
}

var compiling sync.Mutex

func (s *spec) compile(at string) (*jsonschema.Schema, error) {
	compiling.Lock()
	defer compiling.Unlock()
	return s.compiler.Compile("openapi.json" + at)
}

// TestOpenAPIRoutes checks that the document has exactly the server's routes.
func TestOpenAPIRoutes(t *testing.T) {
	s, err := loadSpec()
	if err != nil {
		t.Fatal(err)
	}
	routes := map[string]bool{}
	for _, at := range (&Server{metrics: &metrics{}}).table() {
		method, path := pathOf(at.pattern)
		routes[method+" "+path] = true
		if _, ok := s.paths[path][method]; !ok {
			t.Errorf("%s is not in openapi.json", at.pattern)
		}
	}
	for path, methods := range s.paths {
		for method := range methods {
			if !routes[method+" "+path] {
				t.Errorf("openapi.json has %s %s, the table of routes has not", method, path)
			}
		}
	}
	for name := range s.schemas {
		schema, err := s.compile("#/components/schemas/" + name)
		if err != nil {
			t.Errorf("schema %s: %v", name, err)
		} else if schema.Validate(map[string]any{"unheard_of": 1}) == nil {
			t.Errorf("schema %s lets anything pass", name)
		}
	}
	w := newWorld(t, nil)
	if status, body := do(t, w, get("/openapi.json")); status != 200 || body != string(openAPI) {
		t.Errorf("%d %.100s", status, body)
	}
}

// TestOpenAPITypes checks that the generated schemas match the Go types.
func TestOpenAPITypes(t *testing.T) {
	want, err := made(described()...)
	if err != nil {
		t.Fatal(err)
	}
	var doc map[string]any
	d := json.NewDecoder(bytes.NewReader(openAPI))
	d.UseNumber() // some have more digits than a float64
	if err := d.Decode(&doc); err != nil {
		t.Fatal(err)
	}
	all := doc["components"].(map[string]any)["schemas"].(map[string]any)
	got := map[string]any{}
	for name, schema := range all {
		if _, ok := schema.(map[string]any)["x-from"]; ok {
			got[name] = schema
		}
	}
	for name := range want {
		if _, ok := got[name]; !ok && all[name] != nil {
			t.Errorf("%s is written by hand in openapi.json and made of a Go type as well", name)
		}
	}
	if !*update {
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("go test ./serve -run OpenAPITypes -update brings openapi.json up to date:\n%.4000s", d)
		}
		return
	}
	maps.DeleteFunc(all, func(name string, _ any) bool { _, ok := got[name]; return ok })
	maps.Copy(all, want)
	for name, v := range requestTypes() {
		maps.Copy(all[name].(map[string]any)["properties"].(map[string]any), settingsOf(v))
	}
	if err := writeSpec(doc); err != nil {
		t.Fatal(err)
	}
}

// writeSpec writes the document with its parts in a fixed order.
func writeSpec(doc map[string]any) error {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	b.WriteString("{\n")
	order := []string{"openapi", "info", "servers", "security", "paths", "components"}
	for i, key := range order {
		raw, err := json.Marshal(doc[key])
		if err != nil {
			return err
		}
		b.WriteString(` "` + key + `": `)
		if err := json.Indent(&b, unescaped(raw), " ", " "); err != nil {
			return err
		}
		if i < len(order)-1 {
			b.WriteByte(',')
		}
		b.WriteByte('\n')
	}
	b.WriteString("}\n")
	return os.WriteFile("openapi.json", b.Bytes(), 0o644)
}

// unescaped writes the characters that encoding/json escapes for HTML.
func unescaped(raw []byte) []byte {
	for _, x := range []string{"<", ">", "&"} {
		escaped, _ := json.Marshal(x)
		raw = bytes.ReplaceAll(raw, escaped[1:len(escaped)-1], []byte(x))
	}
	return raw
}

// TestOpenAPIRequests checks that requests that succeed in this package's tests are valid by the document, and that its
// examples of bad values are refused by both.
func TestOpenAPIRequests(t *testing.T) {
	s, err := loadSpec()
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, nil)
	for _, c := range []struct{ path, body string }{
		{"/v1/chat/completions", `{"model":"default","messages":[{"role":"user","content":[{"type":"text",` +
			`"text":"x"}]}],"temperature":0,"top_p":null,"stop":["a"],"response_format":{"type":"text"},` +
			`"sluice":null}`},
		{"/v1/chat/completions", `{"messages":[{"role":"user","content":"x"}],"sluice":{"gate":"open","k":1,` +
			`"rerank":0}}`},
		{"/v1/chat/completions", `{"model":"default","messages":[{"role":"bird","content":"x"}]}`},
		{"/v1/chat/completions", `{"model":"default","messages":[]}`},
		{"/v1/chat/completions", `{"model":"default","messages":[{"role":"user","content":"x"}],"n":2}`},
		{"/v1/chat/completions", `{"model":"default","messages":[{"role":"user","content":"x"}],"n":128}`},
		{"/v1/chat/completions", `{"model":"default","messages":[{"role":"user","content":"x"}],"n":129}`},
		{"/v1/chat/completions", `{"model":"default","messages":[{"role":"user","content":"x"}],"n":0}`},
		{"/v1/chat/completions", `{"model":"default","messages":[{"role":"user","content":"x"}],"temperature":9}`},
		{"/v1/chat/completions", `{"model":"default","messages":[{"role":"user","content":"x"}],"unheard_of":1}`},
		{"/v1/completions", `{"prompt":"x","max_tokens":1,"logprobs":0}`},
		{"/v1/completions", `{"prompt":7}`},
		{"/v1/completions", `{"prompt":["x","y"],"n":2,"best_of":2}`},
		{"/v1/completions", `{"prompt":["x",""]}`},
		{"/v1/completions", `{"prompt":[]}`},
		{"/v1/completions", `{"prompt":[1,-2]}`},
		{"/v1/completions", `{"prompt":[[1],[]]}`},
		{"/v1/completions", `{"prompt":[1,1.5]}`},
		{"/v1/embeddings", `{"input":["a","b"],"encoding_format":"base64","input_type":"query"}`},
		{"/v1/embeddings", `{"input":[["a"]]}`},
		{"/v1/embeddings", `{"input":""}`},
		{"/v1/embeddings", `{"input":["a",""]}`},
		{"/v1/embeddings", `{"input":[]}`},
		{"/v1/embeddings", `{"input":"a","dimensions":0}`},
		{"/v1/embeddings", `{"input":"a","dimensions":256}`},
		{"/v1/embeddings", `{"input":"a","encoding_format":"hex"}`},
		{"/tokenize", `{"content":"a b"}`},
		{"/tokenize", `{"content":"a b","add_special":false}`},
		{"/v1/gate", `{"query":"x"}`},
		{"/v1/gate", `{"query":7}`},
		{"/v1/retrieve", `{"queries":["x","y"],"k":2,"mode":"bm25","explain":true}`},
		{"/v1/retrieve", `{"query":"x","mode":"quantum"}`},
	} {
		status, body := do(t, w, post(c.path, c.body))
		ref := s.paths[c.path]["post"].RequestBody.Content["application/json"].Schema.Ref
		schema, err := s.compile(ref)
		if err != nil {
			t.Fatal(err)
		}
		v, err := jsonschema.UnmarshalJSON(strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(v); (err == nil) != (status == 200) {
			t.Errorf("%s %s: status %d, by openapi.json %v\n%s", c.path, c.body, status, err, body)
		}
	}
}

// TestOpenAPISettings checks that requests and the document have the same settings.
func TestOpenAPISettings(t *testing.T) {
	s, err := loadSpec()
	if err != nil {
		t.Fatal(err)
	}
	for name, v := range requestTypes() {
		of := s.schemas[name].(map[string]any)["properties"].(map[string]any)
		if d := cmp.Diff(fieldsOf(v), slices.Sorted(maps.Keys(of))); d != "" {
			t.Errorf("%s: %s", name, d)
		}
		for field, want := range settingsOf(v) {
			if d := cmp.Diff(want, of[field]); d != "" {
				t.Errorf("go test ./serve -run OpenAPITypes -update brings %s.%s up to date:\n%s", name, field, d)
			}
		}
	}
}
