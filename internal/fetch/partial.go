package fetch

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"strings"
)

// partial is a download under way: the bytes received, and a file with the server's version of them. Further bytes are
// appended only to the same version.
type partial struct{ path string }

func (p partial) size() int64 {
	st, err := os.Stat(p.path)
	if err != nil {
		return 0
	}
	return st.Size()
}

// version returns what If-Range takes: an entity tag or a date. "" when the server gave neither, or nothing is here.
func (p partial) version() string {
	text, err := os.ReadFile(p.path + ".version")
	if err != nil || strings.ContainsAny(string(text), "\r\n") {
		return ""
	}
	return string(text)
}

// begin deletes the bytes received and records the version to come. The bytes go first, so that bytes of one version
// are never found with the record of another, whenever the process dies.
func (p partial) begin(version string) error {
	p.drop()
	if version == "" {
		return nil
	}
	if err := os.WriteFile(p.path+".version", []byte(version), 0o644); err != nil {
		return fmt.Errorf("%w: %w", ErrWrite, err)
	}
	return nil
}

func (p partial) drop() {
	if err := os.Remove(p.path); err == nil || errors.Is(err, fs.ErrNotExist) {
		p.forget()
	}
}

// forget removes the note of the version.
func (p partial) forget() { _ = os.Remove(p.path + ".version") }

// answer decides what a response means for the bytes that are here: from where its body goes on, or that nothing is
// missing.
func (p partial) answer(resp *http.Response, url string, have int64, version string) (from int64, done bool,
	err error) {
	asked := resp.Request.Header.Get("Range")
	same := func() bool { v := versionOf(resp); return v == "" || version == "" || v == version }
	switch {
	// the server ignores ranges, has another version, or everything was asked for
	case resp.StatusCode == http.StatusOK:
		return 0, false, nil
	case resp.StatusCode == http.StatusPartialContent && have > 0 && rangeNumber(resp, "bytes %d-") == have && same():
		return have, false, nil
	case resp.StatusCode == http.StatusRequestedRangeNotSatisfiable && version != "" &&
		rangeNumber(resp, "bytes */%d") == have && same():
		return have, true, nil // it was complete, only not given its name yet
	case resp.StatusCode == http.StatusPartialContent, resp.StatusCode == http.StatusRequestedRangeNotSatisfiable:
		// The local part is not a beginning of the server's file: start again.
		p.drop()
		return 0, false, fmt.Errorf("%w: %s for %q", ErrIncomplete, resp.Status, asked)
	}
	return 0, false, refusal(resp, url)
}

// versionOf returns a strong entity tag, else the date of the last change.
func versionOf(resp *http.Response) string {
	if tag := resp.Header.Get("ETag"); len(tag) > 2 && tag[0] == '"' {
		return tag
	}
	return resp.Header.Get("Last-Modified")
}

// rangeNumber returns the number in a Content-Range, or -1.
func rangeNumber(resp *http.Response, format string) int64 {
	var n int64
	if _, err := fmt.Sscanf(resp.Header.Get("Content-Range"), format, &n); err != nil {
		return -1
	}
	return n
}
