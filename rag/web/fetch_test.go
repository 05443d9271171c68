package web

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

func TestAddresses(t *testing.T) {
	list := refused()
	for s := range strings.FieldsSeq(`127.0.0.1 127.9.9.9 10.1.2.3 172.16.0.1 172.31.255.255 192.168.1.1 169.254.169.254
		169.254.1.1 0.0.0.0 0.1.2.3 100.64.0.1 100.100.100.200 192.0.0.192 168.63.129.16 198.18.0.1 192.0.2.1 224.0.0.1
		239.255.255.255 255.255.255.255 240.0.0.1 ::1 :: fe80::1 fe80::1%eth0 fc00::1 fd00:ec2::254 ff02::1 ff0e::1
		::ffff:127.0.0.1 ::ffff:10.0.0.1 ::ffff:169.254.169.254 64:ff9b::7f00:1 64:ff9b::a9fe:a9fe 64:ff9b:1::1
		2002:7f00:1:: 2001::1 2001:db8::1 100::1 fec0::1 ::7f00:1`) {
		if err := checkAddress(netip.MustParseAddr(s), list); !errors.Is(err, ErrAddress) {
			t.Errorf("%s: %v", s, err)
		}
	}
	for s := range strings.FieldsSeq(`1.1.1.1 93.184.216.34 172.15.0.1 172.32.0.1 192.167.1.1 100.63.0.1 100.128.0.1
		2606:4700:4700::1111 2a00:1450:4001::64 ::ffff:1.1.1.1`) {
		if err := checkAddress(netip.MustParseAddr(s), list); err != nil {
			t.Errorf("%s: %v", s, err)
		}
	}
}

func TestURLs(t *testing.T) {
	c, _ := open(t, Options{})
	for s, want := range map[string]error{
		"http://example.org/a?b=c#d": nil, "https://example.org": nil, "ftp://example.org": ErrURL,
		"file:///etc/passwd": ErrURL,
		"//example.org":      ErrURL, "http://": ErrURL, "http://u:p@example.org/": ErrURL,
		"http://exa mple.org":         ErrURL,
		"http://example.org/\r\nX: y": ErrURL, "javascript:alert(1)": ErrURL, "gopher://h": ErrURL, "": ErrURL,
		"http:example.org": ErrURL, "http://127.0.0.1/": ErrAddress, "http://[::1]/": ErrAddress,
		"http://[::ffff:10.0.0.1]/": ErrAddress, "http://" + strings.Repeat("a", maxURL): ErrURL,
	} {
		u, err := c.checkURL(s)
		if !errors.Is(err, want) || want == nil && (err != nil || u.Fragment != "") {
			t.Errorf("%.60q: %v, want %v", s, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "u:p") {
			t.Errorf("the password is in %v", err)
		}
	}
}

// A name that resolves to this machine is refused when the connection is made, whatever it resolved to before: what is
// checked is the address that is dialled.
func TestRebinding(t *testing.T) {
	var reached atomic.Int32
	s := serve(t, func(http.ResponseWriter, *http.Request) { reached.Add(1) })
	port := addrOf(t, s).Port()
	var asked atomic.Int32
	resolver := nameServer(t, func() [4]byte { asked.Add(1); return [4]byte{127, 0, 0, 1} })
	c, _ := open(t, Options{})
	c.pages.Transport.(*http.Transport).DialContext = (&net.Dialer{Control: c.control, Resolver: resolver}).DialContext
	_, err := c.Fetch(t.Context(), fmt.Sprintf("http://rebind.example:%d/", port))
	if !errors.Is(err, ErrAddress) || reached.Load() != 0 || asked.Load() == 0 {
		t.Fatalf("%v after %d answers of the name server; the server was reached %d times", err, asked.Load(),
			reached.Load())
	}
	if !strings.Contains(err.Error(), "web.allow_private") || !strings.Contains(err.Error(), "rebind.example") {
		t.Errorf("the error does not say what to do: %v", err)
	}
	for _, name := range []string{"http://localhost:%d/", "http://127.1:%d/", "http://2130706433:%d/",
		"http://0x7f.1:%d/"} {
		if _, err := c.Fetch(t.Context(), fmt.Sprintf(name, port)); err == nil || reached.Load() != 0 {
			t.Errorf("%s was reached: %v", name, err)
		}
	}
}

// nameServer answers every question for an IPv4 address with what give returns.
func nameServer(t *testing.T, give func() [4]byte) *net.Resolver {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	t.Cleanup(func() { conn.Close(); <-done })
	go func() {
		defer close(done)
		b := make([]byte, 1500)
		for {
			n, from, err := conn.ReadFrom(b)
			if err != nil {
				return
			}
			var m dnsmessage.Message
			if m.Unpack(b[:n]) != nil || len(m.Questions) == 0 {
				continue
			}
			m.Response, m.Additionals = true, nil
			if q := m.Questions[0]; q.Type == dnsmessage.TypeA {
				m.Answers = []dnsmessage.Resource{{Header: dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class},
					Body: &dnsmessage.AResource{A: give()}}}
			}
			if answer, err := m.Pack(); err == nil {
				_, _ = conn.WriteTo(answer, from)
			}
		}
	}()
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", conn.LocalAddr().String())
	}}
}

// A public page may lead to another public one, and nowhere else.
func TestRedirects(t *testing.T) {
	var reached atomic.Int32
	private := serve(t, func(http.ResponseWriter, *http.Request) { reached.Add(1) })
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		to := r.URL.Query().Get("to")
		switch r.URL.Path {
		case "/end":
			if r.Header.Get("Referer")+r.Header.Get("Authorization")+r.Header.Get("Cookie") != "" {
				t.Errorf("headers of the page before: %v", r.Header)
			}
			w.Header().Set("Content-Type", "text/plain")
			fmt.Fprint(w, "the end")
			return
		case "/loop":
			to = "/loop?" + r.URL.RawQuery + "x"
		case "/two":
			to = "/to?to=/end"
		}
		http.SetCookie(w, &http.Cookie{Name: "a", Value: "b"})
		http.Redirect(w, r, to, http.StatusFound)
	})
	c := fetcher(t, s, Options{})
	p, err := c.Fetch(t.Context(), s.URL+"/two")
	if err != nil || p.Text != "the end" || !strings.HasSuffix(p.URL, "/end") {
		t.Errorf("two redirects: %+v, %v", p, err)
	}
	for to, want := range map[string]error{
		private.URL: ErrAddress, "http://169.254.169.254/latest/": ErrAddress, "http://[::1]:1/": ErrAddress,
		"http://10.0.0.1/": ErrAddress, "http://[fd00:ec2::254]/": ErrAddress, "file:///etc/passwd": ErrURL,
		"ftp://h/": ErrURL, "http://u:p@example.org/": ErrURL,
	} {
		if _, err := c.Fetch(t.Context(), s.URL+"/to?to="+to); !errors.Is(err, want) {
			t.Errorf("to %s: %v, want %v", to, err, want)
		}
	}
	if _, err := c.Fetch(t.Context(), s.URL+"/loop"); !errors.Is(err, ErrRedirect) {
		t.Errorf("a loop: %v", err)
	}
	if n := reached.Load(); n != 0 {
		t.Errorf("a private server was reached %d times", n)
	}
	open, _ := open(t, Options{AllowPrivate: true})
	if _, err := open.Fetch(t.Context(), private.URL); !errors.Is(err, ErrContent) || reached.Load() != 1 {
		t.Errorf("with AllowPrivate: %v", err)
	}
}

// No proxy of the environment stands between the check and the page.
func TestNoProxy(t *testing.T) {
	proxy := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("the proxy was asked") })
	t.Setenv("HTTP_PROXY", proxy.URL)
	t.Setenv("http_proxy", proxy.URL)
	c, _ := open(t, Options{})
	if p := c.pages.Transport.(*http.Transport).Proxy; p != nil {
		t.Error("pages are fetched through a proxy")
	}
	ctx, stop := context.WithTimeout(t.Context(), time.Second)
	defer stop()
	if _, err := c.Fetch(ctx, "http://name.invalid/"); err == nil {
		t.Error("a name that does not exist was fetched")
	}
}

func TestHostilePages(t *testing.T) {
	big := strings.Repeat("<p>many words in a paragraph of a page </p>\n", 1<<10)
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		switch r.URL.Path {
		case "/huge": // 100 MB, with its length
			w.Header().Set("Content-Length", fmt.Sprint(100<<20))
			for n := 0; n < 100<<20; n += len(big) {
				if _, err := io.WriteString(w, big); err != nil {
					return
				}
			}
		case "/endless":
			for {
				if _, err := io.WriteString(w, big); err != nil {
					return
				}
			}
		case "/drip":
			for {
				if _, err := io.WriteString(w, "<p>x</p>"); err != nil {
					return
				}
				w.(http.Flusher).Flush()
				select {
				case <-r.Context().Done():
					return
				case <-time.After(10 * time.Millisecond):
				}
			}
		case "/silent":
			<-r.Context().Done()
		case "/bomb":
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			zeros := strings.Repeat("a ", 1<<19)
			for range 1 << 10 { // 1 GiB
				if _, err := io.WriteString(z, zeros); err != nil {
					return
				}
			}
			z.Close()
		case "/headers":
			for i := range 10000 {
				w.Header().Set(fmt.Sprintf("X-%d", i), strings.Repeat("v", 100))
			}
		case "/nested":
			io.WriteString(w, strings.Repeat("<div>", 100_000)+"deep words")
		}
	})
	var before, after runtime.MemStats
	for path, want := range map[string]error{"/huge": nil, "/endless": nil, "/bomb": nil, "/nested": nil,
		"/drip": ErrTimeout, "/silent": ErrTimeout, "/headers": errAny} {
		c := fetcher(t, s, Options{Timeout: 20 * time.Second, MaxPageBytes: 1 << 20, MaxTextBytes: 10_000})
		if want == ErrTimeout {
			c.o.Timeout = 200 * time.Millisecond
		}
		runtime.ReadMemStats(&before)
		p, err := c.Fetch(t.Context(), s.URL+path)
		runtime.ReadMemStats(&after)
		switch {
		case want == errAny && err == nil, want != errAny && !errors.Is(err, want):
			t.Errorf("%s: %v, want %v", path, err, want)
		case err == nil && path != "/nested" && (!p.Cut || len(p.Text) > 10_000 || len(p.Text) < 5_000):
			t.Errorf("%s: %d bytes of text, cut %v", path, len(p.Text), p.Cut)
		}
		if grown := after.TotalAlloc - before.TotalAlloc; grown > 100<<20 {
			t.Errorf("%s: %d MiB were allocated", path, grown>>20)
		}
	}
}

var errAny = errors.New("any")

func TestContents(t *testing.T) {
	latin, japanese := "Gr\xfc\xdfe aus K\xf6ln", "\x93\xfa\x96{\x8c\xea\x82\xcc\x95\xb6\x8f\x91"
	for _, c := range []struct {
		name, header, body string
		want               error
		text               string
	}{
		{"html", "text/html; charset=utf-8", "<title>T</title><p>Grüße</p>", nil, "Grüße"},
		{"latin by header", "text/html; charset=ISO-8859-1", "<p>" + latin + "</p>", nil, "Grüße aus Köln"},
		{"latin by meta", "text/html", `<meta charset="windows-1252"><p>` + latin + "</p>", nil, "Grüße aus Köln"},
		{"shift_jis", "text/html; charset=Shift_JIS", "<p>" + japanese + "</p>", nil, "日本語の文書"},
		{"utf-8 late", "text/html", "<p>" + strings.Repeat("a ", 1000) + "Köln</p>", nil, "Köln"},
		{"invalid utf-8", "text/html; charset=utf-8", "<p>good \xff\xfe bytes</p>", nil, "good \ufffd\ufffd bytes"},
		{"unknown charset", "text/html; charset=klingon", "<p>plain words</p>", nil, "plain words"},
		{"markdown", "text/markdown", "# Head\n\nSome *words*.", nil, "Some words."},
		{"plain", "text/plain", "a < b & c", nil, "a < b & c"},
		{"sniffed", "", "<!doctype html><p>found out</p>", nil, "found out"},
		{"pdf", "application/pdf", "%PDF-1.7 words", ErrContent, ""},
		{"image", "image/png", "\x89PNG\r\n", ErrContent, ""},
		{"json", "application/json", `{"a":"b"}`, ErrContent, ""},
		{"binary", "", "\x00\x01\x02\x03\x04\x05", ErrContent, ""},
		{"binary said to be text", "text/plain", strings.Repeat("\x01\x02\x03", 50), ErrContent, ""},
		{"no words", "text/html", "<script>var x</script><p> — </p>", ErrContent, ""},
		{"empty", "text/html", "", ErrContent, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header()["Content-Type"] = []string{c.header}
				if c.header == "" {
					w.Header()["Content-Type"] = nil
				}
				_, _ = io.WriteString(w, c.body)
			})
			p, err := fetcher(t, s, Options{}).Fetch(t.Context(), s.URL)
			if !errors.Is(err, c.want) || !strings.HasSuffix(p.Text, c.text) {
				t.Errorf("%q, %v; want %q, %v", p.Text, err, c.text, c.want)
			}
		})
	}
}

func TestOtherEncodingsAreRefused(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "br")
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, "<p>words</p>")
	})
	if _, err := fetcher(t, s, Options{}).Fetch(t.Context(), s.URL); !errors.Is(err, ErrContent) {
		t.Error(err)
	}
}
