package models

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-rag/sluice/internal/fetch"
	"github.com/sluice-rag/sluice/internal/manifest"
	"github.com/sluice-rag/sluice/internal/testmodels/hub"
)

// nothing checks that neither a model nor a blob has come, and returns what all files below the cache hold.
func nothing(t *testing.T, fx *fixture, name string) {
	t.Helper()
	if _, err := fx.Locate(name); !errors.Is(err, ErrNotPulled) {
		t.Errorf("%s is there: %v", name, err)
	}
	for _, f := range files(t, fx.cache.Root()) {
		if dir, _, _ := strings.Cut(f, "/"); dir != "locks" && f != "models.lock.json" {
			t.Errorf("left behind: %s", f)
		}
	}
}

// Who may have a gated repository, and what is said to who may not. The token is in no message and in no file.
func TestGatedRepositories(t *testing.T) {
	var said strings.Builder
	fx, s := hubFixture(t, fetch.WithLog(func(f string, args ...any) { fmt.Fprintf(&said, f+"\n", args...) }))
	gated, closed := ggufs("m.gguf"), encoder()
	gated.Gated, closed.Closed = true, true
	s.Add("o/gated", gated)
	s.Add("o/closed", closed)
	home := os.Getenv("HF_HOME")
	elsewhere := filepath.Join(t.TempDir(), "key")
	put(t, elsewhere, s.Token+"\n")
	page := s.URL + "/o/gated"
	for _, c := range []struct {
		name, variable, value string // of the environment
		accepted              bool
		want                  error
		says                  []string
	}{
		{"gated", "", "", false, ErrAccess, []string{"is gated: accept its licence at " + page, "set HF_TOKEN"}},
		{"closed", "", "", false, ErrAccess, []string{"there is no hf:o/closed, or it is private", "set HF_TOKEN"}},
		{"none", "", "", false, ErrAccess, []string{"there is no hf:o/none"}},
		{"gated", "HF_TOKEN", "hf_wrong", true, ErrAccess, []string{"refuses the token in HF_TOKEN", tokenPage}},
		{"gated", "HF_TOKEN", s.Token, false, ErrAccess, []string{"token in HF_TOKEN does not open it",
			"licence at " + page}},
		{"none", "HUGGING_FACE_HUB_TOKEN", s.Token, false, ErrReference, []string{"no such repository"}},
		{"gated", "HF_TOKEN", "hf_two words", true, nil, []string{"token in HF_TOKEN: the key has a space"}},
		{"gated", "HF_TOKEN_PATH", home, true, nil, []string{"the hub's token", home}}, // a folder
		{"closed", "HF_TOKEN_PATH", elsewhere, false, nil, nil},
		{"gated", "HF_TOKEN", " " + s.Token + "\n", true, nil, nil},
	} {
		for _, name := range []string{"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HF_TOKEN_PATH"} {
			t.Setenv(name, "")
		}
		if c.variable != "" {
			t.Setenv(c.variable, c.value)
		}
		s.Accepted = c.accepted
		_, err := fx.Pull(t.Context(), "hf:o/"+c.name, nil)
		if c.says == nil {
			must(t, err)
			continue
		}
		if err == nil || c.want != nil && !errors.Is(err, c.want) {
			t.Errorf("%s with %s: %v, want %v", c.name, c.variable, err, c.want)
			continue
		}
		for _, says := range c.says {
			if !strings.Contains(err.Error(), says) {
				t.Errorf("%s with %s: %q does not say %q", c.name, c.variable, err, says)
			}
		}
		for _, key := range []string{s.Token, "hf_wrong", "two words"} {
			if strings.Contains(err.Error(), key) {
				t.Errorf("%s with %s: the token is shown: %v", c.name, c.variable, err)
			}
		}
		nothing(t, fx, "hf:o/"+c.name)
	}
	if keys := s.Keys(); len(keys) > 0 {
		t.Errorf("the storage was sent %q", keys)
	}
	if strings.Contains(said.String(), s.Token) {
		t.Error(said.String())
	}
	must(t, filepath.WalkDir(fx.cache.Root(), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		raw, err := os.ReadFile(path)
		if strings.Contains(string(raw), s.Token) {
			t.Errorf("%s holds the token", path)
		}
		return err
	}))
}

// A token is sent over https or to this machine, and the address of the hub must be one.
func TestWhereTokensGo(t *testing.T) {
	fx, _ := hubFixture(t)
	put(t, filepath.Join(os.Getenv("HF_HOME"), "token"), "hf_kept\n")
	for url, sent := range map[string]bool{"https://hub.example": true, "https://hub.example/mirror/": true,
		"http://hub.example": false, "http://127.0.0.1:8000": true, "http://localhost": true, "http://[::1]:9": true,
		"http://10.0.0.1": false} {
		fx.Registry.hub = url
		a, err := fx.access()
		if err != nil || (a.token == "hf_kept") != sent || a.withheld == sent || strings.HasSuffix(a.base, "/") {
			t.Errorf("%s: %+v %v", url, a, err)
		}
		text := fmt.Sprint(a.explain("hf:o/r", "PAGE", &fetch.StatusError{URL: url, Status: 401, Reason: "GatedRepo"}))
		if strings.Contains(text, "is not sent to "+url) == sent || strings.Contains(text, "hf_kept") {
			t.Errorf("%s: %s", url, text)
		}
	}
	for _, url := range []string{"hub.example", "ftp://hub.example", "https://me:secret@hub.example", "https://h/?a=b",
		"\x00"} {
		fx.Registry.hub = url
		if _, err := fx.Pull(t.Context(), "hf:o/r", nil); err == nil || !strings.Contains(err.Error(), EnvHub) ||
			strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", url, err)
		}
	}
}

// A hub that lies, is busy, leads in circles or says nonsense. Nothing is left as if it were a model.
func TestBadHubs(t *testing.T) {
	const m = "m-Q4_K_M.gguf"
	answer := func(files string) string { return `{"sha":"` + commit + `","siblings":[` + files + `]}` }
	for name, c := range map[string]struct {
		set      func(s *hub.Server, r *hub.Repo)
		want     error
		says     string
		requests int // at most
	}{
		"another digest": {func(_ *hub.Server, r *hub.Repo) { r.SHA256 = map[string]string{m: hub.Sum("x")} },
			fetch.ErrMismatch, hub.Sum("x"), 2},
		"a larger size": {func(_ *hub.Server, r *hub.Repo) {
			r.Size = map[string]int64{m: 20_001}
		}, fetch.ErrMismatch, "20001", 2},
		"a smaller size": {func(_ *hub.Server, r *hub.Repo) {
			r.Size = map[string]int64{m: 19_999}
		}, fetch.ErrMismatch, "19999", 2},
		"an absurd size": {func(_ *hub.Server, r *hub.Repo) {
			r.Size = map[string]int64{m: 1 << 62}
		}, fetch.ErrWrite, "has room for", 1},
		"a negative size": {func(_ *hub.Server, r *hub.Repo) {
			r.Size = map[string]int64{m: -5}
		}, ErrHub, "-5 bytes", 1},
		"two sizes": {func(s *hub.Server, _ *hub.Repo) {
			s.Answer(answer(`{"rfilename":"` + m + `","size":7,"lfs":{"sha256":"` + hub.Sum("") + `","size":8}}`))
		}, ErrHub, "7 and 8", 1},
		"a malformed digest": {func(s *hub.Server, _ *hub.Repo) {
			s.Answer(answer(`{"rfilename":"` + m + `","lfs":{"sha256":"../../x","size":8}}`))
		}, ErrHub, "../../x", 1},
		"git's digest of another file": {func(s *hub.Server, _ *hub.Repo) {
			s.Answer(answer(`{"rfilename":"` + m + `","blobId":"` + commit + `"}`))
		}, fetch.ErrMismatch, commit, 2},
		"a file twice": {func(s *hub.Server, _ *hub.Repo) {
			s.Answer(answer(`{"rfilename":"` + m + `"},{"rfilename":"` + m + `"}`))
		}, ErrHub, "twice", 1},
		"files that lead out": {func(s *hub.Server, _ *hub.Repo) {
			s.Answer(answer(`{"rfilename":"../m.gguf"},{"rfilename":"/m.gguf"},{"rfilename":"a/../m.gguf"},` +
				`{"rfilename":"a\\m.gguf"},{"rfilename":"C:m.gguf"},{"rfilename":".m.gguf"},` +
				`{"rfilename":"a//m.gguf"},` +
				`{"rfilename":"` + strings.Repeat("a", 600) + `.gguf"},{"rfilename":"m\u001b[31m.gguf"}`))
		}, ErrReference, "neither GGUF files", 1},
		"no commit": {func(s *hub.Server, _ *hub.Repo) {
			s.Answer(`{"sha":"../x","siblings":[]}`)
		}, ErrHub, "no commit", 1},
		"no object": {func(s *hub.Server, _ *hub.Repo) { s.Answer(`[]`) }, ErrHub, "says about it", 1},
		"half an object": {func(s *hub.Server, _ *hub.Repo) {
			s.Answer(`{"sha":"` + commit)
		}, ErrHub, "says about it", 1},
		"a page": {func(s *hub.Server, _ *hub.Repo) {
			s.Answer("<html>sign in</html>")
		}, ErrHub, "says about it", 1},
		"a long number": {func(s *hub.Server, _ *hub.Repo) {
			s.Answer(`{"sha":` + strings.Repeat("9", 1<<20) + `}`)
		}, ErrHub, "says about it", 1},
		"deeply nested": {func(s *hub.Server, _ *hub.Repo) {
			s.Answer(strings.Repeat("[", 1<<20))
		}, ErrHub, "says about it", 1},
		"too much": {func(s *hub.Server, _ *hub.Repo) {
			s.Answer(strings.Repeat(" ", maxAnswer+1))
		}, fetch.ErrHTTP, fmt.Sprint(maxAnswer), 1},
		"always busy":    {func(s *hub.Server, _ *hub.Repo) { s.Busy(1000, "0") }, fetch.ErrIncomplete, "429", 4},
		"busy for hours": {func(s *hub.Server, _ *hub.Repo) { s.Busy(1000, "7200") }, fetch.ErrIncomplete, "2h0m0s", 1},
		"a circle": {func(s *hub.Server, _ *hub.Repo) {
			s.Lead(func() string { return s.URL + "/o/r/resolve/" + commit + "/" + m })
		}, fetch.ErrHTTP, "redirects", 13},
		"to a file": {func(s *hub.Server, _ *hub.Repo) { s.Lead(func() string { return "file:///etc/passwd" }) },
			fetch.ErrHTTP, "redirect", 2},
		"to who refuses": {func(s *hub.Server, _ *hub.Repo) {
			s.Lead(func() string { return s.Storage + "/o/r/none?signature=secret" })
		}, fetch.ErrMismatch, "size", 2},
		"breaks off again and again": {func(s *hub.Server, _ *hub.Repo) {
			s.Break(false, slices.Repeat([]int{10}, 100)...)
		}, fetch.ErrIncomplete, "m-Q4_K_M.gguf", 5},
		"falls silent again and again": {func(s *hub.Server, _ *hub.Repo) {
			s.Break(true, slices.Repeat([]int{10}, 100)...)
		}, fetch.ErrIncomplete, "sends nothing", 5},
	} {
		t.Run(name, func(t *testing.T) {
			stall := time.Minute
			if strings.Contains(name, "silent") {
				stall = 100 * time.Millisecond
			}
			fx, s := hubFixture(t, fetch.WithStall(stall))
			repo := ggufs(m)
			s.Add("o/r", repo)
			c.set(s, repo)
			_, err := fx.Pull(t.Context(), "hf:o/r", nil)
			if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) || len(err.Error()) > 1000 ||
				strings.Contains(err.Error(), "secret") || strings.ContainsRune(err.Error(), 0x1b) {
				t.Errorf("%.1500v, want %v that says %q", err, c.want, c.says)
			}
			if n := len(s.Requests()); n > c.requests {
				t.Errorf("%d requests, want %d at most", n, c.requests)
			}
			if !errors.Is(err, fetch.ErrIncomplete) { // else what came is kept, to go on from there
				nothing(t, fx, "hf:o/r")
			}
		})
	}
}

// A hub that is busy for a moment, or whose storage breaks off or falls silent twice, is tried again.
func TestHubsThatRecover(t *testing.T) {
	fx, s := hubFixture(t, fetch.WithStall(200*time.Millisecond))
	repo := ggufs("m-Q4_K_M.gguf", "m-Q8_0.gguf", "m-F16.gguf")
	s.Add("o/r", repo)
	for name, set := range map[string]func(){"Q4_K_M": func() { s.Busy(2, "0") },
		"Q8_0": func() { s.Break(false, 5000, 6000) }, "F16": func() { s.Break(true, 5000, 6000) }} {
		set()
		path, err := fx.Pull(t.Context(), "hf:o/r:"+name, nil)
		must(t, err)
		mustBe(t, path, repo.Files["m-"+name+".gguf"])
	}
}

// What the hub once said, or what came when it said nothing, is what it must be from then on.
func TestDigestsAreRecorded(t *testing.T) {
	const m = "m-Q4_K_M.gguf"
	fx, s := hubFixture(t)
	repo := ggufs(m)
	s.Add("o/r", repo)
	forget := func() {
		for _, dir := range []string{"hub", "blobs"} {
			must(t, os.RemoveAll(fx.cache.Path(dir)))
		}
	}
	for _, silent := range []bool{false, true} {
		s.Answer("")
		if silent { // a mirror that only lists the files
			s.Answer(`{"sha":"` + commit + `","siblings":[{"rfilename":"` + m + `"}]}`)
		}
		path, err := fx.Pull(t.Context(), "hf:o/r", nil)
		must(t, err)
		mustBe(t, path, repo.Files[m])
		before := repo.Files[m]
		repo.Files[m] = text(25_000, 77)
		forget()
		if _, err := fx.Pull(t.Context(), "hf:o/r", nil); !errors.Is(err, fetch.ErrMismatch) ||
			!strings.Contains(err.Error(), "recorded on") || !strings.Contains(err.Error(), "models.lock.json") {
			t.Errorf("silent %v: %v", silent, err)
		}
		if _, err := fx.Locate("hf:o/r"); !errors.Is(err, ErrNotPulled) {
			t.Error(err)
		}
		repo.Files[m] = before
		must(t, os.Remove(fx.lockPath()))
		forget()
	}
}

// A model of the manifest gets the token as well, and only from the hub.
func TestTokenForTheManifest(t *testing.T) {
	fx, s := hubFixture(t)
	repo := ggufs("x.gguf")
	repo.Gated = true
	s.Add("o/r", repo)
	key := make(chan string, 1)
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		key <- r.Header.Get("Authorization")
	}))
	defer other.Close()
	m := &fx.manifest.Models[1]
	m.Files[0].URL = hubHost + "/o/r/resolve/" + commit + "/x.gguf"
	m.Files = append(m.Files, manifest.File{Path: "y.gguf", URL: other.URL + "/y.gguf"})
	if _, err := fx.Pull(t.Context(), "hub-model", nil); !errors.Is(err, ErrAccess) ||
		!strings.Contains(err.Error(), "licence at "+m.Source) {
		t.Errorf("without a token: %v", err)
	}
	t.Setenv("HF_TOKEN", s.Token)
	s.Accepted = true
	dir, err := fx.Pull(t.Context(), "hub-model", nil)
	must(t, err)
	mustBe(t, filepath.Join(dir, "x.gguf"), repo.Files["x.gguf"])
	if keys := append(s.Keys(), <-key); len(keys) > 1 || keys[0] != "" {
		t.Errorf("others were sent %q", keys)
	}
}
