package corpus

import (
	"encoding/xml"
	"fmt"
	"net/url"
	"path"
	"strings"
)

// parseBook reads an EPUB book: the chapters of its spine in their order, each as HTML. The anchor of what has none of
// its own is the chapter's file.
func parseBook(d *Document, a *archive) error {
	b := &builder{pulse: a.p, w: textWriter{isSource: true}}
	if _, ok := a.files["META-INF/rights.xml"]; ok {
		return fmt.Errorf("%w: the book is encrypted", ErrFormat)
	}
	pkg := ""
	err := a.list("META-INF/container.xml", func(t xml.Token) error {
		if e, ok := t.(xml.StartElement); ok && e.Name.Local == "rootfile" && pkg == "" {
			pkg = attribute(e, "full-path")
		}
		return nil
	})
	if err != nil {
		return err
	}
	chapters, err := bookChapters(a, pkg)
	if err != nil {
		return err
	}
	for _, name := range chapters {
		raw, err := a.text(name)
		if err != nil {
			return err
		}
		in, err := decodeHTML(d, raw, "", a.p)
		if err != nil {
			return err
		}
		readHTML(b, in.text, 0)
		b.endBlock("\n\n")
	}
	b.finish(d, nil)
	a.said(d, pkg)
	return nil
}

// bookChapters are the parts of a book's spine.
func bookChapters(a *archive, pkg string) (chapters []string, err error) {
	type item struct{ name, kind string }
	items := map[string]item{}
	err = a.list(pkg, func(t xml.Token) error {
		e, ok := t.(xml.StartElement)
		if !ok {
			return nil
		}
		switch e.Name.Local {
		case "item":
			name := attribute(e, "href")
			if plain, err := url.PathUnescape(name); err == nil {
				name = plain
			}
			items[attribute(e, "id")] = item{path.Join(path.Dir(pkg), name), attribute(e, "media-type")}
		case "itemref":
			if i, ok := items[attribute(e, "idref")]; ok && strings.Contains(i.kind, "html") {
				chapters = append(chapters, i.name)
			}
		}
		return nil
	})
	return chapters, err
}
