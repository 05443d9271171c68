package corpus

import (
	"context"
	"fmt"

	"github.com/sluice-rag/sluice/rag/corpus/doc"
)

// Kind is what the bytes of a source are.
type Kind string

// The kinds of sources that Read can parse.
const (
	HTML     Kind = "html"
	XHTML    Kind = "xhtml"
	Markdown Kind = "markdown"
	Plain    Kind = "text"
)

// Read makes a document of bytes that are not from a file, such as a web page; most, unless it is 0, bounds its text in
// bytes (Document.Cut). The caller fills in ID and Source. Bytes that are not text are ErrFormat, a text without a word
// is ErrNoWords, and another kind ErrUnknown.
func Read(ctx context.Context, kind Kind, raw string, most int) (*Document, error) {
	d := &Document{Digest: "sha256:" + doc.TextDigest(raw)}
	ending := map[Kind]string{HTML: ".html", XHTML: ".xhtml", Markdown: ".md", Plain: ".txt"}[kind]
	read, ok := (&loader{}).formats(&timeLimit{Pulse: &doc.Pulse{Ctx: ctx}})[ending]
	if !ok {
		return nil, fmt.Errorf("%w: %q", ErrUnknown, kind)
	}
	err := doc.Parsing(ctx, len(raw), func() error { return read.parse(d, raw) })
	if err != nil {
		return nil, err
	}
	d.Shorten(most)
	if !doc.HasWord(d.Text) {
		return nil, ErrNoWords
	}
	if d.Title == "" && len(d.Sections) > 0 && len(d.Sections[0].Heading) > 0 {
		d.Title = d.Sections[0].Heading[0]
	}
	return d, nil
}
