// Package hub is a server for tests that speaks as much of the API of Hugging Face's hub as a download needs: what a
// repository has at a revision, files that are answered from the hub or from a storage on another host, ranges, gated
// repositories, and the ways in which all of this goes wrong.
package hub

import (
	"bytes"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Large is the size from which a file is in the storage, as with the hub's LFS.
const Large = 1000

// Repo is a repository.
type Repo struct {
	Commit string            // 40 hexadecimal digits
	Refs   []string          // beside main that lead to the commit
	Files  map[string]string // contents by name
	Gated  bool              // needs the token and an accepted licence
	Closed bool              // without a token it does not exist

	SHA256 map[string]string // stated for files, instead of the true one
	Size   map[string]int64  // likewise
}

// Server is a hub. Its fields may be changed between requests.
type Server struct {
	URL, Storage string // of the two hosts
	Token        string // that is valid
	Accepted     bool   // the token's account has accepted the licences

	mu       sync.Mutex
	repos    map[string]*Repo
	busy     int           // requests that are refused because there were too many
	after    string        // Retry-After of these
	breaks   []int         // bytes after which the next answers of the storage break off
	silent   bool          // the storage falls silent there, instead of breaking off
	answer   string        // instead of what is true of a repository
	lead     func() string // instead of the storage
	requests []string      // method and path
	keys     []string      // keys that the storage was sent
	sent     int64         // bytes of the storage
}

// Start starts a hub, which the end of the test closes.
func Start(t testing.TB) *Server {
	s := &Server{repos: map[string]*Repo{}, Token: "hf_aTokenForTests"}
	storage := httptest.NewServer(http.HandlerFunc(s.store))
	front := httptest.NewServer(http.HandlerFunc(s.front))
	t.Cleanup(func() {
		front.CloseClientConnections()
		front.Close()
		storage.CloseClientConnections()
		storage.Close()
	})
	s.URL, s.Storage = front.URL, storage.URL
	return s
}

func (s *Server) change(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

// Add adds a repository.
func (s *Server) Add(name string, r *Repo) { s.change(func() { s.repos[name] = r }) }

// Busy makes the hub refuse the next requests, with a Retry-After.
func (s *Server) Busy(requests int, after string) {
	s.change(func() { s.busy, s.after = requests, after })
}

// Break makes the next answers of the storage break off after so many bytes each, or fall silent.
func (s *Server) Break(silent bool, after ...int) {
	s.change(func() { s.breaks, s.silent = after, silent })
}

// Answer is what the hub says about every repository; "": what is true.
func (s *Server) Answer(text string) { s.change(func() { s.answer = text }) }

// Lead makes files be redirected to a URL.
func (s *Server) Lead(to func() string) { s.change(func() { s.lead = to }) }

// Requests returns the method and path of all requests to the hub, and forgets them.
func (s *Server) Requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.requests
	s.requests = nil
	return r
}

// Keys returns the keys that the storage was sent.
func (s *Server) Keys() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.keys
}

// Sent returns how many bytes the storage has sent.
func (s *Server) Sent() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sent
}

func (s *Server) front(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, r.Method+" "+r.URL.Path)
	if s.busy > 0 {
		s.busy--
		w.Header().Set("Retry-After", s.after)
		w.WriteHeader(http.StatusTooManyRequests)
		return
	}
	refuse := func(status int, code string) {
		w.Header().Set("X-Error-Code", code)
		w.Header().Set("X-Error-Message", "with "+r.Header.Get("Authorization")+" this is not for you")
		w.WriteHeader(status)
	}
	key := r.Header.Get("Authorization")
	known := key == "Bearer "+s.Token
	if key != "" && !known {
		refuse(http.StatusUnauthorized, "")
		return
	}
	path := strings.TrimPrefix(r.URL.Path, "/api/models")
	part := strings.SplitN(strings.TrimPrefix(path, "/"), "/", 5)
	if len(part) < 4 {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	repo := s.repos[part[0]+"/"+part[1]]
	revision := part[3]
	if path != r.URL.Path && len(part) > 4 {
		revision += "/" + part[4]
	}
	switch {
	case repo == nil && known:
		refuse(http.StatusNotFound, "RepoNotFound")
	case repo == nil || repo.Closed && !known:
		refuse(http.StatusUnauthorized, "RepoNotFound")
	case revision != "main" && revision != repo.Commit && !slices.Contains(repo.Refs, revision):
		refuse(http.StatusNotFound, "RevisionNotFound")
	case path != r.URL.Path && part[2] == "revision":
		if s.answer != "" {
			_, _ = w.Write([]byte(s.answer))
			return
		}
		_ = json.NewEncoder(w).Encode(repo.describe(r.URL.Query().Get("blobs") == "true"))
	case part[2] != "resolve" || len(part) < 5:
		w.WriteHeader(http.StatusNotFound)
	case repo.Gated && !known:
		refuse(http.StatusUnauthorized, "GatedRepo")
	case repo.Gated && !s.Accepted:
		refuse(http.StatusForbidden, "GatedRepo")
	default:
		s.file(w, r, repo, part[0]+"/"+part[1], part[4])
	}
}

func (s *Server) file(w http.ResponseWriter, r *http.Request, repo *Repo, name, file string) {
	text, ok := repo.Files[file]
	switch {
	case !ok:
		w.Header().Set("X-Error-Code", "EntryNotFound")
		w.WriteHeader(http.StatusNotFound)
	case s.lead != nil:
		http.Redirect(w, r, s.lead(), http.StatusFound)
	case len(text) >= Large:
		w.Header().Set("X-Linked-Etag", `"`+Sum(text)+`"`)
		http.Redirect(w, r, s.Storage+"/"+name+"/"+file+"?signature=secret", http.StatusFound)
	default:
		w.Header().Set("ETag", `"`+gitSum(text)+`"`)
		http.ServeContent(w, r, "", time.Time{}, strings.NewReader(text))
	}
}

func (s *Server) store(w http.ResponseWriter, r *http.Request) {
	part := strings.SplitN(strings.TrimPrefix(r.URL.Path, "/"), "/", 3)
	s.mu.Lock()
	if key := r.Header.Get("Authorization"); key != "" {
		s.keys = append(s.keys, key)
	}
	text := s.repos[part[0]+"/"+part[1]].Files[part[2]]
	limit, silent := -1, s.silent
	if len(s.breaks) > 0 {
		limit, s.breaks = s.breaks[0], s.breaks[1:]
	}
	s.mu.Unlock()
	w.Header().Set("ETag", `"`+Sum(text)+`"`)
	http.ServeContent(&counted{w, s, limit, silent, r}, r, "", time.Time{}, bytes.NewReader([]byte(text)))
}

type counted struct {
	http.ResponseWriter
	s      *Server
	left   int // bytes until it breaks off; negative: it does not
	silent bool
	r      *http.Request
}

func (c *counted) Write(b []byte) (int, error) {
	stop := c.left >= 0 && len(b) > c.left
	if stop {
		b = b[:c.left]
	}
	n, err := c.ResponseWriter.Write(b)
	c.s.change(func() { c.s.sent += int64(n) })
	if c.left -= n; c.left < 0 && !stop {
		c.left = -1
	}
	if stop {
		_ = http.NewResponseController(c.ResponseWriter).Flush()
		if c.silent {
			<-c.r.Context().Done()
		}
		panic(http.ErrAbortHandler)
	}
	return n, err
}

// describe is the answer of /api/models/…/revision/….
func (repo *Repo) describe(blobs bool) map[string]any {
	var siblings []map[string]any
	for _, name := range slices.Sorted(maps.Keys(repo.Files)) {
		text, f := repo.Files[name], map[string]any{"rfilename": name}
		if siblings = append(siblings, f); !blobs {
			continue
		}
		size := int64(len(text))
		if n, ok := repo.Size[name]; ok {
			size = n
		}
		f["size"], f["blobId"] = size, gitSum(text)
		if len(text) >= Large {
			sum := Sum(text)
			if other, ok := repo.SHA256[name]; ok {
				sum = other
			}
			f["blobId"] = gitSum("version https://git-lfs.github.com/spec/v1\noid sha256:" + sum)
			f["lfs"] = map[string]any{"sha256": sum, "size": size, "pointerSize": 134}
		}
	}
	gated := any(false)
	if repo.Gated {
		gated = "manual"
	}
	return map[string]any{"id": "o/r", "sha": repo.Commit, "gated": gated, "private": false, "siblings": siblings,
		"cardData": map[string]any{"license": "apache-2.0", "tags": []string{"a"}}, "downloads": 7}
}

// Sum returns the SHA-256 of a text.
func Sum(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

func gitSum(text string) string {
	sum := sha1.Sum(fmt.Appendf(nil, "blob %d\x00%s", len(text), text))
	return hex.EncodeToString(sum[:])
}
