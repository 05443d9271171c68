package corpus

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/sluice-rag/sluice/rag/corpus/charset"
	"github.com/sluice-rag/sluice/rag/corpus/html"
	"github.com/sluice-rag/sluice/rag/corpus/internal/doc"
	"github.com/sluice-rag/sluice/rag/corpus/markdown"
	"github.com/sluice-rag/sluice/rag/corpus/plain"
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
	sum := sha256.Sum256([]byte(raw))
	d := &Document{Digest: "sha256:" + hex.EncodeToString(sum[:])}
	p := &doc.Pulse{Ctx: ctx}
	err := doc.Parsing(ctx, len(raw), func() error {
		switch kind {
		case HTML, XHTML:
			in, err := charset.DecodeHTML(d, raw, "", p)
			if err == nil {
				html.Parse(d, in, kind == XHTML, p)
			}
			return err
		case Markdown, Plain:
			in, err := charset.Decode(d, raw, "", p)
			if err == nil && (kind == Plain || !markdown.Parse(d, in, p)) {
				plain.Parse(d, in, p)
			}
			return err
		}
		return fmt.Errorf("%w: %q", ErrUnknown, kind)
	})
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
