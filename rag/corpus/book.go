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
	err := a.elements("META-INF/container.xml", func(t xml.Token) error {
		if e, ok := t.(xml.StartElement); ok && e.Name.Local == "rootfile" && pkg == "" {
			pkg = attribute(e, "full-path")
		}
		return nil
	})
	if err != nil {
		return err
	}
	title, chapters, err := bookChapters(a, pkg)
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
	d.Title = title
	return nil
}

// bookChapters are the title of a book and the parts of its spine.
func bookChapters(a *archive, pkg string) (title string, chapters []string, err error) {
	type item struct{ name, kind string }
	items, inTitle := map[string]item{}, false
	var text strings.Builder
	err = a.elements(pkg, func(t xml.Token) error {
		switch t := t.(type) {
		case xml.StartElement:
			switch t.Name.Local {
			case "title":
				inTitle = text.Len() == 0
			case "item":
				name := attribute(t, "href")
				if plain, err := url.PathUnescape(name); err == nil {
					name = plain
				}
				items[attribute(t, "id")] = item{path.Join(path.Dir(pkg), name), attribute(t, "media-type")}
			case "itemref":
				if i, ok := items[attribute(t, "idref")]; ok && strings.Contains(i.kind, "html") {
					chapters = append(chapters, i.name)
				}
			}
		case xml.EndElement:
			inTitle = false
		case xml.CharData:
			if inTitle {
				text.Write(t)
			}
		}
		return nil
	})
	return strings.Join(strings.Fields(text.String()), " "), chapters, err
}
