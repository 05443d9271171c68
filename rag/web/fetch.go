package web

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"

	"golang.org/x/net/html/charset"

	"github.com/sluice-rag/sluice/rag/corpus"
)

// Fetch reads one page if the site's robots.txt allows it: at most Options.MaxPageBytes of it, within Options.Timeout,
// redirects and all. Its text is what rag/corpus finds in it. Errors: ErrURL, ErrAddress, ErrRedirect, ErrRobots,
// ErrContent, ErrTimeout, *StatusError, the context's, those of the network.
func (c *Client) Fetch(parent context.Context, address string) (Page, error) {
	return within(parent, c, address, c.fetch)
}

// Source is a page as it was fetched.
type Source struct {
	URL     string // behind redirects
	Ending  string // of files of its format, without the dot: "html", "pdf", "tar.gz"
	Content string // texts as UTF-8, other formats as they are
	Cut     bool   // there is more in the page than was read
}

// Download is Fetch of a page of any format that rag/corpus reads. It has the same limits; a page whose format has to
// be read whole is ErrTooLarge beyond them. Errors: as Fetch, ErrTooLarge.
func (c *Client) Download(parent context.Context, address string) (Source, error) {
	return within(parent, c, address, c.download)
}

// within reads an address that is checked within Options.Timeout.
func within[T any](parent context.Context, c *Client, address string,
	read func(context.Context, string) (T, error)) (got T, err error) {
	u, err := c.checkURL(address)
	if err != nil {
		return got, err
	}
	ctx, stop := context.WithTimeout(parent, c.o.Timeout)
	defer stop()
	if got, err = read(ctx, u.String()); err != nil {
		return got, c.why(parent, u, err)
	}
	return got, nil
}

func (c *Client) fetch(ctx context.Context, address string) (p Page, err error) {
	const accept = "text/html, application/xhtml+xml, text/markdown;q=.9, text/plain;q=.9"
	resp, body, err := c.get(ctx, address, accept)
	if err != nil {
		return p, err
	}
	defer resp.Body.Close()
	header := resp.Header.Get("Content-Type")
	kind, err := kindOf(header, body)
	if err != nil {
		return p, err
	}
	text, cut, err := c.read(body, header)
	if err != nil {
		return p, err
	}
	d, err := corpus.Read(ctx, kind, text, c.o.MaxTextBytes)
	if errors.Is(err, corpus.ErrNoWords) || errors.Is(err, corpus.ErrFormat) {
		err = fmt.Errorf("%w: %w", ErrContent, err)
	}
	if err != nil {
		return p, err
	}
	return Page{URL: resp.Request.URL.String(), Title: plainText(d.Title), Text: d.Text, Fetched: time.Now().UTC(),
		Cut: cut || d.Cut, document: d}, nil
}

func (c *Client) download(ctx context.Context, address string) (s Source, err error) {
	resp, body, err := c.get(ctx, address, "text/html, application/xhtml+xml, */*;q=.9")
	if err != nil {
		return s, err
	}
	defer resp.Body.Close()
	header := resp.Header.Get("Content-Type")
	var text bool
	if s.Ending, text, err = endingOf(header, resp.Request.URL, body); err != nil {
		return s, err
	}
	s.URL = resp.Request.URL.String()
	if text {
		s.Content, s.Cut, err = c.read(body, header)
		return s, err
	}
	raw, err := io.ReadAll(body)
	if err == nil && int64(len(raw)) > c.o.MaxPageBytes {
		err = fmt.Errorf("%w: a file of the format %s of more than %d bytes (web.max_page_bytes)", ErrTooLarge,
			s.Ending, c.o.MaxPageBytes)
	}
	s.Content = string(raw)
	return s, err
}

// get asks for a page that its site's robots.txt allows, and returns the beginning of the answer, as far as it may be
// read, if its status is 200.
func (c *Client) get(ctx context.Context, address, accept string) (*http.Response, *bufio.Reader, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err == nil {
		err = c.allowed(ctx, req.URL)
	}
	if err != nil {
		return nil, nil, err
	}
	req.Header.Set("Accept", accept)
	req.Header.Set("User-Agent", userAgent)
	resp, err := c.pages.Do(req)
	if err != nil {
		return nil, nil, err
	}
	if resp.StatusCode != http.StatusOK {
		err = &StatusError{Server: site(resp.Request.URL), Status: resp.StatusCode}
	} else if e := resp.Header.Get("Content-Encoding"); e != "" { // gzip is taken off by net/http
		err = fmt.Errorf("%w: encoded as %q, which was not asked for", ErrContent, clean(e, ""))
	}
	if err != nil {
		_ = resp.Body.Close() // the error says why nothing of it is read
		return nil, nil, err
	}
	return resp, bufio.NewReaderSize(io.LimitReader(resp.Body, c.o.MaxPageBytes+1), sniffBytes), nil
}

const sniffBytes = 1024 // what tells a page's charset; browsers read as much

// mediaType returns the type of a page by its header, else by its first bytes.
func mediaType(header string, body *bufio.Reader) string {
	name, _, err := mime.ParseMediaType(header)
	if header == "" || err != nil && name == "" || name == unknownType {
		head, _ := body.Peek(sniffBytes)
		name, _, _ = mime.ParseMediaType(http.DetectContentType(head))
	}
	return name
}

const unknownType = "application/octet-stream"

// kindOf returns the kind of a page of text.
func kindOf(header string, body *bufio.Reader) (corpus.Kind, error) {
	name := mediaType(header, body)
	switch name {
	case "text/html":
		return corpus.HTML, nil
	case "application/xhtml+xml":
		return corpus.XHTML, nil
	case "text/plain":
		return corpus.Plain, nil
	case "text/markdown", "text/x-markdown":
		return corpus.Markdown, nil
	}
	return "", fmt.Errorf("%w: it is %s, not HTML, Markdown or plain text", ErrContent, clean(name, ""))
}

// read returns a page as UTF-8, by the charset of its header, a byte order mark or its meta element, else of its bytes;
// what is said to be UTF-8 and is not gets replacement characters, because corpus would look for another encoding.
func (c *Client) read(body *bufio.Reader, header string) (text string, cut bool, err error) {
	head, err := body.Peek(sniffBytes)
	if err != nil && !errors.Is(err, io.EOF) {
		return "", false, err
	}
	raw, err := io.ReadAll(body)
	if err != nil {
		return "", false, err
	}
	if cut = int64(len(raw)) > c.o.MaxPageBytes; cut {
		raw = raw[:c.o.MaxPageBytes]
	}
	enc, name, certain := charset.DetermineEncoding(raw[:min(len(raw), len(head))], header)
	if !certain && !strings.Contains(strings.ToLower(header), "charset") && isUTF8(raw, cut) {
		return string(raw), cut, nil // the first kilobyte said nothing
	}
	decoded, err := enc.NewDecoder().Bytes(raw)
	if err != nil {
		return "", cut, fmt.Errorf("%w: it is not in %s: %w", ErrContent, name, err)
	}
	return string(decoded), cut, nil
}

// isUTF8 reports whether bytes are UTF-8, whose last character may have been cut.
func isUTF8(raw []byte, cut bool) bool {
	s := string(raw)
	bad := strings.ToValidUTF8(s, "")
	return bad == s || cut && len(s)-len(bad) < 4 && strings.HasPrefix(s, bad)
}
