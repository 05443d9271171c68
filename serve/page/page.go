// Package page is the web page of the server: embedded files without a build step. They request nothing from other
// servers, and the headers make browsers enforce that.
package page

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"strconv"
	"strings"
)

//go:embed static
var static embed.FS

// policy restricts the page to its own scripts, styles and requests, with nothing inline and no frame around it.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// file is one of the page's files.
type file struct {
	body []byte
	kind string
	etag string
}

// Handler serves the page at "/" and its files at "/page/NAME"; other paths are not found. It needs no key, because its
// content is the same for everybody.
func Handler() http.Handler {
	files := map[string]file{}
	list, err := fs.ReadDir(static, "static")
	for _, entry := range list {
		var body []byte
		if body, err = static.ReadFile("static/" + entry.Name()); err != nil {
			break
		}
		sum := sha256.Sum256(body)
		files["/page/"+entry.Name()] = file{body, kindOf(entry.Name()), `"` + hex.EncodeToString(sum[:12]) + `"`}
	}
	if err != nil {
		panic(fmt.Sprintf("page: embedded files: %v", err)) // the build embeds them
	}
	files["/"] = files["/page/index.html"]
	delete(files, "/page/index.html") // its relative links need "/"
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f, ok := files[r.URL.Path]
		switch {
		case !ok:
			http.NotFound(w, r)
			return
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "only GET and HEAD", http.StatusMethodNotAllowed)
			return
		}
		f.send(w, r)
	})
}

func (f file) send(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", f.kind)
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-cache") // revalidated each time, answered with 304
	h.Set("ETag", f.etag)
	if strings.Contains(r.Header.Get("If-None-Match"), f.etag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	h.Set("Content-Length", strconv.Itoa(len(f.body)))
	if r.Method == http.MethodGet {
		_, _ = w.Write(f.body) // fails if the client has left
	}
}

// kindOf returns the media type of a file. The system's table may differ.
func kindOf(name string) string {
	return map[string]string{
		".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8",
		".svg": "image/svg+xml",
	}[path.Ext(name)]
}
