package serve

import (
	"net/http"
	"path/filepath"
	"testing"

	"github.com/sluice-rag/sluice/serve/keys"
)

// TestManagedKeys makes, uses, rotates and removes keys over HTTP.
func TestManagedKeys(t *testing.T) {
	w := newWorld(t, nil)
	path := filepath.Join(t.TempDir(), "keys")
	root, err := keys.Add(path, keys.Key{Name: "root"})
	if err != nil {
		t.Fatal(err)
	}
	c := w.cfg
	if c.Keys, err = OpenKeys(path); err != nil {
		t.Fatal(err)
	}
	s, err := New(c)
	if err == nil {
		err = s.Warm(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.views.close)
	ask := func(r *http.Request, key string, want int) string {
		t.Helper()
		status, body := do(t, s, with(r, key))
		if status != want {
			t.Fatalf("%s %s: %d %s", r.Method, r.URL.Path, status, body)
		}
		return body
	}
	made := as[keyMade](t, ask(post("/v1/keys", `{"name":"ann","bases":["sea"],"groups":["a"],"days":1}`), root, 201))
	ask(post("/v1/gate", `{"query":"x"}`), made.Key, 200)
	list := as[keyList](t, ask(get("/v1/keys"), root, 200)).Keys
	if len(list) != 2 || list[1].Name != "ann" || list[1].Groups[0] != "a" || list[1].Expires == nil ||
		list[0].Groups != nil {
		t.Errorf("%+v", list)
	}
	for _, body := range []string{`{"name":"ann"}`, `{"name":""}`, `{"name":"b","bases":["moon"]}`,
		`{"name":"b","days":-1}`, `{"name":"b","groups":["a b"]}`} {
		ask(post("/v1/keys", body), root, 400)
	}
	ask(get("/v1/keys"), made.Key, 403)
	other := as[keyMade](t, ask(post("/v1/keys", `{"name":"bob","bases":["sea"]}`), root, 201))
	ask(get("/v1/documents"), other.Key, 200)
	ask(post("/v1/keys", `{"name":"eve"}`), other.Key, 403)
	next := as[keyMade](t, ask(post("/v1/keys/ann/rotate", `{}`), root, 201))
	ask(get("/v1/documents"), made.Key, 401)
	ask(get("/v1/documents"), next.Key, 200)
	remove := get("/v1/keys/ann")
	remove.Method = http.MethodDelete
	ask(remove, root, 204)
	ask(get("/v1/documents"), next.Key, 401)
	remove = get("/v1/keys/nobody")
	remove.Method = http.MethodDelete
	ask(remove, root, 400)

	plain := newServer(t, w.sluice, "a-key-that-is-not-of-a-file\n")
	if status, body := do(t, plain, with(get("/v1/keys"), "a-key-that-is-not-of-a-file")); status != 404 {
		t.Errorf("%d %s", status, body)
	}
}
