package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-rag/sluice/internal/testmodels/overlay"
)

// working runs a world's jobs until the test ends or stop is called.
func working(t *testing.T, w *world) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	all.Go(func() { w.jobs.run(ctx) })
	stop = func() { cancel(); all.Wait() }
	t.Cleanup(stop)
	return stop
}

// form returns a request with files, given as name and content.
func form(files ...string) *http.Request {
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	for i := 0; i+1 < len(files); i += 2 {
		h := textproto.MIMEHeader{}
		quoted := strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(files[i])
		h.Set("Content-Disposition", `form-data; name="file"; filename="`+quoted+`"`)
		part, err := w.CreatePart(h)
		if err == nil {
			_, err = part.Write([]byte(files[i+1]))
		}
		if err != nil {
			panic(err)
		}
	}
	_ = w.Close()
	r := post("/v1/documents", b.String())
	r.Header.Set("Content-Type", w.FormDataContentType())
	return r
}

// ended sends a request that begins a job, and waits for the job's end.
func ended(t *testing.T, w *world, r *http.Request) jobState {
	t.Helper()
	status, body := do(t, w, r)
	if status != http.StatusAccepted {
		t.Fatalf("%d %s", status, body)
	}
	return finished(t, w, as[jobAnswer](t, body).Job.ID)
}

func finished(t *testing.T, w *world, id string) jobState {
	t.Helper()
	status, body := do(t, w, get("/v1/jobs/"+id+"/events"))
	events := strings.Split(strings.TrimSpace(body), "\n\n")
	last := strings.TrimPrefix(events[len(events)-1], "data: ")
	if status != 200 {
		t.Fatalf("%d %s", status, body)
	}
	return as[jobState](t, last)
}

func documentsOf(t *testing.T, w *world, query string) documentList {
	t.Helper()
	status, body := do(t, w, get("/v1/documents"+query))
	if status != 200 {
		t.Fatalf("%d %s", status, body)
	}
	return as[documentList](t, body)
}

func TestDocuments(t *testing.T) {
	w := newWorld(t, nil)
	working(t, w)
	l := documentsOf(t, w, "")
	if l.Total != 4 || l.All != 4 || l.Chunks != 4 || l.Store != "sea" || len(l.Topics) != 2 ||
		l.Topics[0].Documents != 2 {
		t.Fatalf("%+v", l)
	}
	if l := documentsOf(t, w, "?topic=sea&limit=1&offset=1"); l.Total != 2 || len(l.Documents) != 1 ||
		l.Documents[0].ID != "lights" {
		t.Errorf("%+v", l)
	}
	if l := documentsOf(t, w, "?q=HERR"); l.Total != 1 {
		t.Errorf("%+v", l)
	}
	for _, bad := range []string{"?limit=0", "?limit=1000", "?offset=-1", "?offset=x"} {
		if status, body := do(t, w, get("/v1/documents"+bad)); status != 400 {
			t.Errorf("%s: %d %s", bad, status, body)
		}
	}
	j := ended(t, w, form("notes on fog.md", "# Fog\n\nThe horn sounds every ninety seconds.\n",
		"tide.txt", "Low water at noon."))
	if j.State != jobDone || j.Committed != 2 || !slices.Equal(j.Names, []string{"notes on fog.md", "tide.txt"}) {
		t.Fatalf("%+v", j)
	}
	id := "uploads/notes on fog.md"
	status, body := do(t, w, get("/v1/documents/"+url.PathEscape(id)))
	if status != 200 || !strings.Contains(body, "every ninety seconds") || strings.Contains(body, w.dir) {
		t.Errorf("%d %s", status, body)
	}
	chunks := as[struct{ Chunks []struct{ ID string } }](t, body).Chunks
	if status, body := do(t, w, get("/v1/chunks/"+url.PathEscape(chunks[0].ID))); status != 200 ||
		!strings.Contains(body, "every ninety seconds") {
		t.Errorf("%d %s", status, body)
	}
	remove := get("/v1/documents/" + url.PathEscape(id))
	remove.Method = http.MethodDelete
	if status, body := do(t, w, remove); status != 200 {
		t.Errorf("%d %s", status, body)
	}
	if status, body := do(t, w, remove); status != 404 {
		t.Errorf("deleted again: %d %s", status, body)
	}
	if l := documentsOf(t, w, ""); l.All != 5 {
		t.Errorf("%+v", l)
	}
	if left, _ := os.ReadDir(filepath.Join(w.dir, "store", "uploads")); len(left) != 0 {
		t.Errorf("%d uploads are left on the disk", len(left))
	}
}

func TestTextsAsJSON(t *testing.T) {
	w := newWorld(t, nil)
	working(t, w)
	j := ended(t, w, post("/v1/documents", `{"documents":[{"id":"a/1","text":"Buoys are red or green.","topic":"sea"},`+
		`{"text":"Anchors hold <best> in mud."}]}`))
	if j.State != jobDone || j.Committed != 2 {
		t.Fatalf("%+v", j)
	}
	if status, body := do(t, w, get("/v1/documents/a%2F1")); status != 200 || !strings.Contains(body, "Buoys are red") {
		t.Errorf("%d %s", status, body)
	}
	for _, bad := range []string{`{}`, `{"text":" "}`, `{"text":"x","documents":[{"text":"y"}]}`,
		`{"text":"x","path":"/etc"}`, `{"text":"x","id":"a\u0000b"}`, `[]`} {
		if status, body := do(t, w, post("/v1/documents", bad)); status != 400 {
			t.Errorf("%s: %d %s", bad, status, body)
		}
	}
}

// TestNamesOfUploadsAreNoPaths checks that files are kept in the upload's folder under generated names, whatever names
// the client gives.
func TestNamesOfUploadsAreNoPaths(t *testing.T) {
	w := newWorld(t, nil)
	before := tree(t, w.dir)
	long := strings.Repeat("ä", 4000) + ".md"
	names := []string{"../../escape.md", "/etc/passwd.md", `C:\Windows\win.md`, `..\..\up.md`, "a\x00b.md", "..",
		".", "",
		"CON.md", long, "new\nline.md", "a/../../b.md", "‮evil.md", ".hidden", "~root.md", "upload.json"}
	for i, name := range names {
		u, err := newUpload(w.sluice.Store().Dir())
		if err != nil {
			t.Fatal(err)
		}
		if err := u.add(name, strings.NewReader(fmt.Sprintf("Text %d about ropes.", i))); err != nil {
			t.Fatalf("%q: %v", name, err)
		}
		if err := u.keep(); err != nil {
			t.Fatal(err)
		}
		f := u.Files[0]
		if strings.ContainsAny(f.Name, "/\\\x00\n") || len(f.Name) > maxNameBytes || f.Name == "" || f.Name == ".." ||
			!strings.HasPrefix(f.File, "0-") || strings.ContainsAny(f.File, "/\\") {
			t.Errorf("%q became %q in %q", name, f.Name, f.File)
		}
	}
	for path := range tree(t, w.dir) {
		rel, _ := filepath.Rel(filepath.Join(w.dir, "store", "uploads"), path)
		if !before[path] && strings.HasPrefix(rel, "..") {
			t.Errorf("%s was written", path)
		}
	}
	if got := harmless(long); !strings.HasSuffix(got, "ä.md") {
		t.Errorf("a long name became %q", got)
	}
}

// tree lists the files below a folder.
func tree(t *testing.T, dir string) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		found[path] = true
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestBadUploads(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.Limits.Upload = 1000 })
	other := form("a.md", "x")
	other.Header.Set("Content-Type", "text/plain")
	broken := form("a.md", "x")
	broken.Header.Set("Content-Type", "multipart/form-data; boundary=other")
	field := post("/v1/documents", "--b\r\nContent-Disposition: form-data; name=\"path\"\r\n\r\n/etc\r\n--b--\r\n")
	field.Header.Set("Content-Type", "multipart/form-data; boundary=b")
	cut := post("/v1/documents", "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.md\"\r\n\r\nhalf")
	cut.Header.Set("Content-Type", "multipart/form-data; boundary=b")
	for name, c := range map[string]struct {
		r      *http.Request
		status int
	}{
		"another type": {other, 415}, "another boundary": {broken, 400}, "another field": {field, 400},
		"cut off": {cut, 400},
		"no file": {form(), 400}, "two of a name": {form("a.md", "x", "b/a.md", "y"), 400},
		"too large": {form("a.md", strings.Repeat("x", 2<<20)), 413},
	} {
		if status, body := do(t, w, c.r); status != c.status {
			t.Errorf("%s: %d %s", name, status, body)
		}
	}
	if left, _ := os.ReadDir(filepath.Join(w.dir, "store", "uploads")); len(left) != 0 {
		t.Errorf("%d uploads are left on the disk", len(left))
	}
	working(t, w)
	j := ended(t, w, form("picture.png", "\x89PNG", "empty.md", " "))
	if j.State != jobFailed || j.Error.Code != "unusable_documents" || strings.Contains(fmt.Sprint(j), w.dir) ||
		len(j.Skipped) == 0 || !strings.Contains(j.Error.Message, "picture.png") {
		t.Errorf("%+v %+v", j, j.Error)
	}
}

// TestUploadsOutliveTheProcess checks that the next process ingests acknowledged uploads that the first one had not
// begun.
func TestUploadsOutliveTheProcess(t *testing.T) {
	w := newWorld(t, nil)
	status, body := do(t, w, form("fog.md", "The horn sounds every ninety seconds."))
	if status != http.StatusAccepted {
		t.Fatalf("%d %s", status, body)
	}
	id := as[jobAnswer](t, body).Job.ID
	half, err := newUpload(w.sluice.Store().Dir()) // as left by a kill during a request
	if err == nil {
		err = half.add("half.md", strings.NewReader("half"))
	}
	if err != nil {
		t.Fatal(err)
	}
	next, err := New(overlay.On(DefaultConfig(),
		Config{Bases: []Base{{"sea", w.sluice}}, Logger: w.cfg.Logger, Ingest: w.cfg.Ingest}))
	if err != nil {
		t.Fatal(err)
	}
	w.leaveUploads()
	w.Server = next
	if err := next.takeUploads(next.first); err != nil {
		t.Fatal(err)
	}
	working(t, w)
	if j := finished(t, w, id); j.State != jobDone || j.Committed != 1 {
		t.Errorf("%+v", j)
	}
	if l := documentsOf(t, w, "?q=uploads/fog.md"); l.Total != 1 {
		t.Errorf("%+v", l)
	}
	if left, _ := os.ReadDir(filepath.Join(w.dir, "store", "uploads")); len(left) != 0 {
		t.Errorf("%d uploads are left on the disk", len(left))
	}
}

func TestJobsAreCancelledAndBounded(t *testing.T) {
	w := newWorld(t, nil)
	inside, leave := make(chan struct{}, 100), make(chan struct{})
	w.encoder.After = func([]string) { inside <- struct{}{}; <-leave }
	working(t, w)
	begin := func(i int) (int, string) {
		return do(t, w, form(fmt.Sprintf("%d.md", i), fmt.Sprintf("Text %d about ropes.", i)))
	}
	_, body := begin(0)
	running := as[jobAnswer](t, body).Job.ID
	<-inside
	var ids []string
	for i := range jobsWaiting {
		status, body := begin(i + 1)
		if status != http.StatusAccepted {
			t.Fatalf("%d: %d %s", i, status, body)
		}
		ids = append(ids, as[jobAnswer](t, body).Job.ID)
	}
	if status, body := begin(99); status != http.StatusTooManyRequests {
		t.Errorf("%d %s", status, body)
	}
	for _, id := range append(ids, running) {
		r := get("/v1/jobs/" + id)
		r.Method = http.MethodDelete
		if status, body := do(t, w, r); status != 200 {
			t.Errorf("%d %s", status, body)
		}
	}
	close(leave)
	for _, id := range append(ids, running) {
		if j := finished(t, w, id); j.State != jobCancelled {
			t.Errorf("%+v", j)
		}
	}
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		left, _ := os.ReadDir(filepath.Join(w.dir, "store", "uploads"))
		if len(left) == 0 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("%d uploads are left on the disk", len(left))
		}
	}
	if l := documentsOf(t, w, ""); l.All != 4 {
		t.Errorf("%+v", l)
	}
}

func TestReadOnlyAndForeignBases(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.ReadOnly = true })
	remove := get("/v1/documents/defer")
	remove.Method = http.MethodDelete
	for _, r := range []*http.Request{form("a.md", "x"), remove, post("/v1/calibration", `{}`),
		post("/v1/calibration/policy", `{"policy":"median"}`)} {
		if status, body := do(t, w, r); status != http.StatusForbidden {
			t.Errorf("%s %s: %d %s", r.Method, r.URL.Path, status, body)
		}
	}
	keys, err := ReadKeys(strings.NewReader("key-of-the-first-base sea\nkey-of-the-other-base b\n"))
	if err != nil {
		t.Fatal(err)
	}
	w = newWorld(t, func(c *Config) {
		c.Keys = keys
		c.Bases = append(c.Bases, Base{"b", c.Bases[0].With(t.TempDir())})
	})
	t.Cleanup(func() { _ = w.bases["b"].Close() })
	with := func(r *http.Request, key string) *http.Request {
		r.Header.Set("Authorization", "Bearer "+key)
		return r
	}
	status, body := do(t, w, with(form("a.md", "About ropes."), "key-of-the-first-base"))
	if status != http.StatusAccepted {
		t.Fatalf("%d %s", status, body)
	}
	id := as[jobAnswer](t, body).Job.ID
	for path, want := range map[string]int{"/v1/jobs/" + id: 404, "/v1/jobs/" + id + "/events": 404,
		"/v1/documents?store=sea": 404, "/v1/calibration?store=sea": 404, "/v1/chunks/defer?store=sea": 404} {
		if status, body := do(t, w, with(get(path), "key-of-the-other-base")); status != want {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
	if _, body := do(t, w, with(get("/v1/jobs"), "key-of-the-other-base")); strings.Contains(body, id) {
		t.Errorf("%s", body)
	}
	working(t, w)
	r := with(get("/v1/jobs/"+id+"/events"), "key-of-the-first-base")
	if _, body := do(t, w, r); !strings.Contains(body, `"state":"done"`) {
		t.Errorf("%s", body)
	}
}

// TestUploadMakesTheStore checks that the first upload creates a missing store.
func TestUploadMakesTheStore(t *testing.T) {
	w := newWorld(t, nil)
	fresh := w.sluice.With(filepath.Join(t.TempDir(), "new", "store"))
	t.Cleanup(func() { _ = fresh.Close() })
	next, err := New(overlay.On(DefaultConfig(),
		Config{Bases: []Base{{"new", fresh}}, Logger: w.cfg.Logger, Ingest: w.cfg.Ingest}))
	if err != nil {
		t.Fatal(err)
	}
	w.Server = next
	working(t, w)
	if l := documentsOf(t, w, ""); l.All != 0 {
		t.Errorf("%+v", l)
	}
	if j := ended(t, w, form("a.md", "About ropes.")); j.State != jobDone {
		t.Errorf("%+v %+v", j, j.Error)
	}
	if l := documentsOf(t, w, ""); l.All != 1 {
		t.Errorf("%+v", l)
	}
}

func TestCalibration(t *testing.T) {
	w := newWorld(t, nil)
	w.model.Reset("What is it about, and where?")
	working(t, w)
	status, body := do(t, w, get("/v1/calibration"))
	c := as[calibrationAnswer](t, body)
	if status != 200 || c.Name != "default" || c.InForce != "default" || len(c.Effects) == 0 || !c.Effects[0].InForce ||
		!slices.Equal(c.Names, []string{"default"}) || strings.Contains(body, w.dir) ||
		strings.Contains(body, "context_digests") {
		t.Fatalf("%d %s", status, body)
	}
	status, body = do(t, w, post("/v1/calibration/policy", `{"policy":"median"}`))
	changed := as[calibrationAnswer](t, body)
	if status != 200 || changed.Calibration.Policy != "median" ||
		changed.Calibration.Threshold != c.Calibration.Threshold {
		t.Errorf("%d %s", status, body)
	}
	decided := func() (d struct{ Decisions []struct{ Policy string } }) {
		_, body := do(t, w, post("/v1/gate", `{"query":"herring"}`))
		if err := json.Unmarshal([]byte(body), &d); err != nil || len(d.Decisions) != 1 {
			t.Fatalf("%s", body)
		}
		return d
	}
	if d := decided(); d.Decisions[0].Policy != "median" {
		t.Errorf("the gate goes by %+v", d)
	}
	for bad, want := range map[string]int{`{"policy":"guess"}`: 400, `{"threshold":9}`: 409, `{"threshold":"x"}`: 400,
		`{"score":"l2"}`: 409, `{"score":"dot"}`: 400, `{"store":"none"}`: 404, `{"p":1}`: 400, `{"name":"a/b"}`: 400} {
		if status, body := do(t, w, post("/v1/calibration/policy", bad)); status != want {
			t.Errorf("%s: %d %s, want %d", bad, status, body, want)
		}
	}
	for _, bad := range []string{`{"policy":"guess"}`, `{"negatives":"some"}`, `{"score":"dot"}`, `{"name":"a/b"}`} {
		if status, body := do(t, w, post("/v1/calibration", bad)); status != 400 {
			t.Errorf("%s: %d %s", bad, status, body)
		}
	}
	j := ended(t, w, post("/v1/calibration", `{"sample":2}`))
	if j.State != jobDone && j.Error == nil {
		t.Errorf("%+v", j)
	}
	for _, bad := range []string{`{"sample":-1}`, `{"holdout":1}`} {
		if status, body := do(t, w, post("/v1/calibration", bad)); status != 400 {
			t.Errorf("%s: %d %s", bad, status, body)
		}
	}
	if status, body := do(t, w, get("/v1/calibration?name=none")); status != 404 {
		t.Errorf("%d %s", status, body)
	}
}
