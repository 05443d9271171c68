package serve

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-rag/sluice"
	"github.com/sluice-rag/sluice/internal/testmodels/doubles"
	"github.com/sluice-rag/sluice/rag/calibrate"
	"github.com/sluice-rag/sluice/rag/ingest"
	"github.com/sluice-rag/sluice/rag/store"
)

// archive is a folder of documents, each of which some groups may read.
type archive struct {
	dir   string
	files map[string][]string // groups by file; nil: everybody
	words []string
}

// newArchive writes n documents with the groups g0 to g7.
func newArchive(t *testing.T, n int) archive {
	r := rand.New(rand.NewPCG(7, 7))
	a := archive{dir: filepath.Join(t.TempDir(), "docs"), files: map[string][]string{}}
	if err := os.Mkdir(a.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for i := range 300 {
		a.words = append(a.words, string([]rune{rune('a' + i%20), 'e', rune('b' + i/20), 'o', rune('a' + i%7)}))
	}
	for i := range n {
		name := fmt.Sprintf("d%03d.md", i)
		var groups []string
		if r.IntN(5) > 0 {
			for range 1 + r.IntN(3) {
				groups = append(groups, fmt.Sprint("g", r.IntN(8)))
			}
		}
		text := ""
		if a.files[name] = groups; groups != nil {
			text = "---\naccess: [" + strings.Join(groups, ", ") + "]\n---\n"
		}
		text += "# Title " + a.words[i%300] + "\n\n"
		for range 3 {
			text += "The"
			for range 6 {
				text += " " + a.words[r.IntN(300)]
			}
			text += ".\n"
		}
		if err := os.WriteFile(filepath.Join(a.dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return a
}

// readable lists the files that groups may read.
func (a archive) readable(groups []string) (paths []string) {
	for name, of := range a.files {
		if of == nil || slices.ContainsFunc(of, func(g string) bool { return slices.Contains(groups, g) }) {
			paths = append(paths, filepath.Join(a.dir, name))
		}
	}
	slices.Sort(paths)
	return paths
}

// opened makes a store of files.
func opened(t *testing.T, paths ...string) *sluice.Sluice {
	t.Helper()
	s, err := sluice.Open(t.Context(), sluice.Config{Store: filepath.Join(t.TempDir(), "store"),
		Embedder: doubles.NewEncoder(), Generator: doubles.NewModel("An answer [1].")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	o := ingest.DefaultOptions()
	o.Chunk = "32/0"
	if _, err := s.Ingest(t.Context(), paths, o); err != nil {
		t.Fatal(err)
	}
	return s
}

// calibrateBase calibrates a store by a question about the last words of each chunk.
func calibrateBase(t *testing.T, s *sluice.Sluice, o calibrate.Options) {
	t.Helper()
	var questions strings.Builder
	for c, err := range s.Documents().AllChunks(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		words := strings.Fields(c.Text)
		fmt.Fprintf(&questions, `{"context_id":%q,"text":"What is %s?"}`+"\n", c.ID,
			strings.Trim(strings.Join(words[len(words)-3:], " "), "."))
	}
	o.Queries, o.Source = strings.NewReader(questions.String()), "questions"
	if _, err := s.Calibrate(t.Context(), o); err != nil {
		t.Fatal(err)
	}
}

// TestGroupsHaveCalibrationsOfTheirOwn compares the decisions for groups that have a calibration, their promises among
// them, with those of a server that holds and was calibrated by only what they may read. Without one, that of the whole
// base decides and promises nothing.
func TestGroupsHaveCalibrationsOfTheirOwn(t *testing.T) {
	a := newArchive(t, 200)
	all, twin := opened(t, a.dir), opened(t, a.readable([]string{"g1", "g2"})...)
	o := calibrate.Options{Policy: "conformal:0.2"}
	calibrateBase(t, all, o)
	calibrateBase(t, twin, o)
	artifact := filepath.Join(all.Store().Dir(), "calibration", "default.cal.json")
	before, err := os.ReadFile(artifact)
	if err != nil {
		t.Fatal(err)
	}
	lines := "the-key-of-two-groups docs groups=g2,g1\nthe-key-of-one-group docs groups=g1\nthe-key-of-all-of-it docs\n"
	whole, other := newServer(t, all, lines), newServer(t, twin, "another-key-of-the-test docs\n")
	request := probe{"/v1/gate", fmt.Sprintf(`{"queries":["What is %s?","Who?"]}`, a.words[9])}
	want := request.to(t, other, "another-key-of-the-test")
	if got := request.to(t, whole, "the-key-of-two-groups"); got == want || !strings.Contains(got, "has lapsed") {
		t.Errorf("before a calibration of their own: %s", got)
	}
	groups := all.For("g1", "g2")
	calibrateBase(t, groups, o)
	if err := groups.Close(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, request.to(t, whole, "the-key-of-two-groups")); diff != "" {
		t.Error(diff)
	}
	if got := request.to(t, whole, "the-key-of-one-group"); !strings.Contains(got, "has lapsed") {
		t.Errorf("other groups: %s", got)
	}
	if after, err := os.ReadFile(artifact); err != nil || !bytes.Equal(before, after) {
		t.Errorf("the calibration of the whole base is another one; %v", err)
	}
	if _, err := all.Store().Check(t.Context(), func(f store.Finding) { t.Errorf("%+v", f) }); err != nil {
		t.Error(err)
	}
}

// TestGroupsReadWhatIsTheirs compares each answer for keys of groups with that of a server that holds only what the
// groups may read and has the same calibration.
func TestGroupsReadWhatIsTheirs(t *testing.T) {
	a := newArchive(t, 400)
	r := rand.New(rand.NewPCG(9, 9))
	open := func(paths ...string) *sluice.Sluice { return opened(t, paths...) }
	all := open(a.dir)
	calibrateBase(t, all, calibrate.Options{Policy: "maximum:min", Threshold: .09})
	lines, sets := "", map[string][]string{}
	for i := range 16 {
		groups := []string{}
		for range r.IntN(4) {
			groups = append(groups, fmt.Sprint("g", r.IntN(8)))
		}
		key := fmt.Sprintf("key-number-%02d-of-the-test", i)
		sets[key] = groups
		lines += key + " docs groups=" + strings.Join(groups, ",") + "\n"
	}
	whole := newServer(t, all, lines)
	twins, asked, answered := map[string]*Server{}, 0, 0
	for key, groups := range sets {
		paths := a.readable(groups)
		id := strings.Join(paths, " ")
		if twins[id] == nil {
			s := open(paths...)
			if err := os.CopyFS(filepath.Join(s.Store().Dir(), "calibration"),
				os.DirFS(filepath.Join(all.Store().Dir(), "calibration"))); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Calibrations().Use(t.Context(), "default"); err != nil {
				t.Fatal(err)
			}
			twins[id] = newServer(t, s, "another-key-of-the-test docs\n")
		}
		for _, request := range a.requests(r) {
			got, want := request.to(t, whole, key), request.to(t, twins[id], "another-key-of-the-test")
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("%s %s for %q: %s", request.path, request.body, groups, diff)
			}
			if asked++; strings.HasPrefix(got, "200 ") {
				answered++
			}
		}
		if asked%(8*21) != 0 {
			continue
		}
		got, want := overMCP(t, whole, key, a.words[5]), overMCP(t, twins[id], "another-key-of-the-test", a.words[5])
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("MCP for %q: %s", groups, diff)
		}
	}
	if answered < asked*19/21 { // two are of one document, which most may not read
		t.Errorf("%d of %d requests were answered", answered, asked)
	}
}

// overMCP returns what the tools of the Model Context Protocol answer.
func overMCP(t *testing.T, s *Server, key, word string) (all []string) {
	t.Helper()
	c, err := connect(t, overHTTP(t, s, key, ""), newest)
	if err != nil {
		t.Fatal(err)
	}
	for tool, args := range map[string]arguments{"list_documents": {}, "search": {"query": word, "gate": "open"},
		"gate": {"query": word}, "ask": {"question": word}, "get_document": {"id": "docs/d003.md"}} {
		out, failed := call[any](t, c, tool, args)
		raw, err := json.Marshal(out)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, tool+" "+failed+" "+changing.ReplaceAllString(string(raw), ""))
	}
	slices.Sort(all)
	return all
}

func newServer(t *testing.T, s *sluice.Sluice, keys string) *Server {
	t.Helper()
	k, err := ReadKeys(strings.NewReader(keys))
	if err != nil {
		t.Fatal(err)
	}
	c := DefaultConfig()
	c.Bases, c.Keys, c.Logger = []Base{{"docs", s}}, k, slog.New(slog.DiscardHandler)
	server, err := New(c)
	if err == nil {
		err = server.Warm(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.views.close)
	return server
}

// probe is a request of the matrix; a body makes it a POST.
type probe struct{ path, body string }

// requests are requests for each way of reading, with words of some documents.
func (a archive) requests(r *rand.Rand) (list []probe) {
	text := func() string {
		words := []string{"What is"}
		for range 2 {
			words = append(words, a.words[r.IntN(len(a.words))])
		}
		return strings.Join(words, " ") + "?"
	}
	document := fmt.Sprintf("d%03d.md", r.IntN(len(a.files)))
	for _, path := range []string{"/v1/documents", "/v1/documents?limit=5&offset=3", "/v1/documents?q=" + a.words[3],
		"/v1/documents/docs%2F" + document, "/v1/chunks/docs%2F" + document + "%230", "/v1/models", "/info"} {
		list = append(list, probe{path: path})
	}
	for _, x := range []struct{ path, body string }{
		{"/v1/gate", `{"query":"%s"}`}, {"/v1/gate", `{"queries":["%[1]s","%[1]s x"]}`},
		{"/v1/retrieve", `{"query":"%s","gate":"open","explain":true}`},
		{"/v1/retrieve", `{"query":"%s","mode":"bm25","k":20,"gate":"open"}`},
		{"/v1/retrieve", `{"query":"%s","mode":"dense","expand":"neighbours","gate":"open"}`},
		{"/v1/retrieve", `{"query":"%s","mode":"hybrid","where":["document~d1"],"gate":"open"}`},
		{"/v1/retrieve", `{"query":"%s","where":["meta.access=g3"],"gate":"open"}`},
		{"/v1/chat/completions", `{"model":"sluice","messages":[{"role":"user","content":"%s"}]}`},
		{"/v1/chat/completions", `{"model":"sluice","sluice":{"style":"quote","gate":"open"},"messages":[{"role":"user","content":"%s"}]}`},
		{"/v1/chat/completions", `{"model":"sluice","sluice":{"gate":"open"},"stream":true,"messages":[{"role":"user","content":"%s"}]}`},
		{"/v1/responses", `{"model":"sluice","input":"%s","include":["file_search_call.results"]}`},
		{"/v1/messages", `{"model":"sluice","max_tokens":9,"messages":[{"role":"user","content":"%s"}]}`},
		{"/api/chat", `{"model":"sluice","stream":false,"messages":[{"role":"user","content":"%s"}]}`},
		{"/retrieval", `{"knowledge_id":"docs","query":"%s","retrieval_setting":{"top_k":9,"score_threshold":0}}`},
	} {
		list = append(list, probe{x.path, fmt.Sprintf(x.body, text())})
	}
	return list
}

// What two servers cannot share: times, ids of answers, where a store lies.
var changing = regexp.MustCompile(`"(ms|milliseconds|load|embed|gate|second|transform|retrieve|prompt|generate|read|check|` +
	`sentences|total|created|created_at|added|id|log_id|seconds|uptime_seconds|calibrated|total_duration|` +
	`eval_duration|prompt_eval_duration|load_duration|duration_ms|item_id|started)":("[^"]*"|[0-9.e+-]+)`)

// to sends the request, and returns status and body without what differs between any two servers.
func (x probe) to(t *testing.T, s *Server, key string) string {
	t.Helper()
	r := get(x.path)
	if x.body != "" {
		r = post(x.path, x.body)
	}
	status, body := do(t, s, with(r, key))
	ids := changing.ReplaceAllStringFunc(body, func(field string) string {
		if name, value, _ := strings.Cut(field, ":"); name == `"id"` && strings.HasPrefix(value, `"docs/`) {
			return field // of a document or chunk
		}
		return ""
	})
	return fmt.Sprint(status, " ", ids)
}

// TestGroupsChangeNothing: a key of groups is refused by all routes that change a base or tell of the whole of it.
func TestGroupsChangeNothing(t *testing.T) {
	w := newWorld(t, nil)
	s := newServer(t, w.sluice, "a-key-of-a-group docs groups=a\nthe-key-of-all-docs docs\n")
	for _, e := range s.routes {
		if e.use != managed && e.use != scraped && e.use != upload {
			continue
		}
		method, path, _ := strings.Cut(e.pattern, " ")
		r := post(strings.ReplaceAll(path, "{id}", "defer"), `{}`)
		r.Method = method
		if status, body := do(t, s, with(r, "a-key-of-a-group")); status != http.StatusForbidden ||
			failure(t, body).Code != "restricted_key" {
			t.Errorf("%s: %d %s", e.pattern, status, body)
		}
	}
	if status, body := do(t, s, with(get("/v1/calibration"), "the-key-of-all-docs")); status != http.StatusOK {
		t.Error(body)
	}
}

// TestGroupsSeeChangesOfAccess: an ingest that changes the groups of a document counts from the next request on.
func TestGroupsSeeChangesOfAccess(t *testing.T) {
	w := newWorld(t, nil)
	s := newServer(t, w.sluice, "a-key-of-a-group docs groups=a\n")
	path := filepath.Join(t.TempDir(), "x.jsonl")
	for i, access := range []string{`"b"`, `["a","b"]`, `[]`, `"a"`} {
		line := fmt.Sprintf(`{"id":"quartz","text":"Quartz is a mineral of silicon.","access":%s}`, access)
		if err := os.WriteFile(path, []byte(line), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := w.sluice.Ingest(t.Context(), []string{path}, ingest.Options{NoChunk: true}); err != nil {
			t.Fatal(err)
		}
		_, body := do(t, s, with(post("/v1/retrieve", `{"query":"quartz mineral silicon","gate":"open"}`),
			"a-key-of-a-group"))
		if found := strings.Contains(body, "Quartz"); found != (i%2 == 1) {
			t.Errorf("access %s: %s", access, body)
		}
		status, _ := do(t, s, with(get("/v1/documents/quartz"), "a-key-of-a-group"))
		if (status == http.StatusOK) != (i%2 == 1) {
			t.Errorf("access %s: %d", access, status)
		}
	}
	if n := len(s.views.list); n != 1 {
		t.Errorf("%d views", n)
	}
}
