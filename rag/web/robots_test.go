package web

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-rag/sluice/internal/test/doubling"
)

// TestRobots has the examples of RFC 9309, and those that Google's documentation of its parser lists.
func TestRobots(t *testing.T) {
	const groups = "User-Agent: foobot\nAllow: /example/page/\nDisallow: /example/page/disallowed.gif\n\n" +
		"User-Agent: SLUICE/1.0\nUser-Agent: quxbot\nAllow: /example/page/\nSitemap: https://a/b\n" +
		"Disallow: /example/page/disallowed.gif # no\n\nUser-Agent: *\nDisallow: /\n\nUser-Agent: sluice\r\nDisallow: /more"
	for _, c := range []struct{ robots, target, want string }{
		{groups, "/example/page/", ""},
		{groups, "/example/page/disallowed.gif", "/example/page/disallowed.gif"},
		{groups, "/anything", ""}, // the group for all programs does not count where there is one of one's own
		{groups, "/more", "/more"},
		{"user-agent: *\nallow: /p\ndisallow: /", "/page", ""},
		{"user-agent: *\nallow: /folder\ndisallow: /folder", "/folder/page", ""},
		{"user-agent: *\nallow: /page\ndisallow: /*.htm", "/page.htm", "/*.htm"},
		{"user-agent: *\nallow: /page\ndisallow: /*.ph", "/page.php5", ""}, // of the same length
		{"user-agent: *\nallow: /$\ndisallow: /", "/", ""},
		{"user-agent: *\nallow: /$\ndisallow: /", "/page.htm", "/"},
		{"user-agent: *\ndisallow: /fish*.php", "/fishheads/catfish.php?parameters", "/fish*.php"},
		{"user-agent: *\ndisallow: /fish*.php", "/Fish.PHP", ""},
		{"user-agent: *\ndisallow: /*.php$", "/folder/filename.php", "/*.php$"},
		{"user-agent: *\ndisallow: /*.php$", "/filename.php5", ""},
		{"user-agent: *\ndisallow: /a*b*c$", "/abbcc", "/a*b*c$"},
		{"user-agent: *\ndisallow: /a*b*c$", "/acb", ""},
		{"user-agent: *\ndisallow: /a?b=", "/a?b=1", "/a?b="},
		{"user-agent: *\ndisallow: /foo/bar/ツ", "/foo/bar/%e3%83%84", "/foo/bar/%E3%83%84"},
		{"user-agent: *\ndisallow: /foo/bar/%62%61%7A", "/foo/bar/baz", "/foo/bar/baz"},
		{"user-agent: *\ndisallow: /a%2Fb", "/a/b", ""}, // an escape that means something else
		{"user-agent: *\ndisallow:", "/a", ""},
		{"disallow: /\nuser-agent: *\ndisallow: /b", "/a", ""}, // a rule of no group
		{"\ufeffUser-agent: other\nDisallow: /", "/a", ""},
		{"<html>not found</html>", "/a", ""}, {"", "/a", ""},
	} {
		if got := forbidden(parseRobots(c.robots), c.target); got != c.want {
			t.Errorf("%q, %s: %q, want %q", c.robots, c.target, got, c.want)
		}
	}
}

// TestDoubling: the work of rules grows with their length.
func TestDoubling(t *testing.T) {
	syntax := []string{"user-agent: *\n", "disallow: /", "allow: /*a\n", "*", "$", "%62", "/*b*", "\r", "#", "a"}
	doubling.Search(t, syntax, func(text string) {
		forbidden(parseRobots("user-agent: *\ndisallow: /"+text), "/"+strings.Repeat("a", maxURL))
		forbidden(parseRobots("user-agent: *\ndisallow: /*b"), text)
	})
}

func FuzzRobots(f *testing.F) {
	f.Add("User-agent: *\nDisallow: /*a$\nAllow: /%62", "/b?c")
	f.Fuzz(func(t *testing.T, text, target string) {
		rule := forbidden(parseRobots(text), target)
		if rule != "" && !matches(rule, normal(target)) {
			t.Errorf("%q, which does not match %q, forbids it", rule, target)
		}
	})
}

// Each page that is downloaded is allowed by the robots.txt of its site, also behind a redirect, which is read once.
func TestDownloadObeysRobots(t *testing.T) {
	asked, robots, status := map[string]int{}, "User-agent: *\nDisallow: /private", http.StatusOK
	s := serveAll(t, func(w http.ResponseWriter, r *http.Request) {
		asked[r.URL.Path]++
		switch r.URL.Path {
		case "/robots.txt":
			w.WriteHeader(status)
			fmt.Fprint(w, robots)
		case "/moved":
			http.Redirect(w, r, "/private/a", http.StatusFound)
		default:
			fmt.Fprint(w, "Words.")
		}
	})
	c := fetcher(t, s, Options{})
	for path, want := range map[string]error{"/a": nil, "/private/a": ErrRobots, "/moved": ErrRobots, "": nil} {
		got, err := c.Download(t.Context(), s.URL+path)
		if !errors.Is(err, want) || want == nil && got.Content != "Words." {
			t.Errorf("%s: %+v, %v", path, got, err)
		}
		if want != nil && !strings.Contains(err.Error(), s.URL+`/robots.txt has "Disallow: /private"`) {
			t.Error(err)
		}
	}
	if asked["/robots.txt"] != 1 || asked["/private/a"] != 0 {
		t.Errorf("%v", asked)
	}
	for code, want := range map[int]error{404: nil, 403: nil, 500: ErrRobots, 503: ErrRobots} {
		status = code
		c := fetcher(t, s, Options{})
		if _, err := c.Download(t.Context(), s.URL+"/private/a"); !errors.Is(err, want) {
			t.Errorf("robots.txt with status %d: %v", code, err)
		}
	}
	c, _ = open(t, Options{})
	if _, err := c.Download(t.Context(), strings.Replace(s.URL, "127.0.0.1", "localhost", 1)+"/a"); !errors.Is(err,
		ErrAddress) {
		t.Errorf("a private address: %v", err)
	}
}

// A page of any format that is read has its ending, by its type or its address. Texts are decoded and cut, others
// whole.
func TestDownloadFormats(t *testing.T) {
	header, content := "", ""
	s := serveAll(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/robots.txt" {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", header)
		fmt.Fprint(w, content)
	})
	c := fetcher(t, s, Options{MaxPageBytes: 2000, Timeout: time.Minute})
	const pdf = "%PDF-1.4\n\xe4\xf6"
	for _, x := range []struct{ path, header, content, ending, text string }{
		{"/a", "application/pdf", pdf, "pdf", pdf},
		{"/report.PDF", "application/octet-stream", pdf, "pdf", pdf},
		{"/report", "application/octet-stream", pdf, "pdf", pdf}, // by its first bytes
		{"/a.csv", "text/plain; charset=iso-8859-1", "a;\xe4", "csv", "a;ä"},
		{"/v2.1", "text/plain", "Words.", "txt", "Words."},
		{"/a.pdf", "text/html", "<p>Sign in", "html", "<p>Sign in"},
		{"/a", "application/vnd.openxmlformats-officedocument.wordprocessingml.document", "PK\x03\x04", "docx",
			"PK\x03\x04"},
		{"/a.docx", "application/zip", "PK\x03\x04", "docx", "PK\x03\x04"},
		{"/a.tar.gz", "application/gzip", "\x1f\x8b\x08", "tar.gz", "\x1f\x8b\x08"},
		{"/a", "text/plain", strings.Repeat("a", 2001), "txt", strings.Repeat("a", 2000)},
		{"/a", "message/rfc822", "Subject: a\n\n\xe4", "eml", "Subject: a\n\n\xe4"},
	} {
		header, content = x.header, x.content
		got, err := c.Download(t.Context(), s.URL+x.path)
		want := Source{URL: s.URL + x.path, Ending: x.ending, Content: x.text, Cut: len(x.content) > 2000}
		if err != nil || !cmp.Equal(want, got) {
			t.Errorf("%s, %s: %v, %s", x.path, x.header, err, cmp.Diff(want, got))
		}
	}
	header, content = "application/pdf", pdf+strings.Repeat("a", 2000)
	if _, err := c.Download(t.Context(), s.URL+"/a"); !errors.Is(err, ErrTooLarge) ||
		!strings.Contains(err.Error(), "pdf of more than 2000 bytes (web.max_page_bytes)") {
		t.Error(err)
	}
	header, content = "image/png", "\x89PNG\r\n"
	if _, err := c.Download(t.Context(), s.URL+"/a"); !errors.Is(err, ErrContent) ||
		!strings.Contains(err.Error(), "image/png") {
		t.Error(err)
	}
}
