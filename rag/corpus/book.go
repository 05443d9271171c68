package corpus

import (
	"encoding/xml"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"path"
	"slices"
	"strings"
)

// parseBook reads an EPUB book: the chapters of its spine in their order. A chapter that is missing or cannot be
// unpacked is noted (Document.missing), and the others are read.
func parseBook(d *Document, a *archive) error {
	b := &builder{pulse: a.p, w: textWriter{isSource: true}}
	if _, ok := a.files["META-INF/rights.xml"]; ok {
		return fmt.Errorf("%w: the book is encrypted", ErrFormat)
	}
	pkg, err := bookPackage(a)
	if err != nil {
		return err
	}
	chapters, err := bookChapters(a, pkg)
	if err != nil {
		return err
	}
	for _, name := range chapters {
		raw, err := a.text(name)
		if errors.Is(err, ErrTooLarge) {
			return err
		}
		if err != nil {
			d.lacks(err)
			continue
		}
		in, err := decodeHTML(d, raw, "", a.p)
		if err != nil {
			return err
		}
		readHTML(b, in.text, 0, isXML(in.text, a.p))
		b.endBlock("\n\n")
	}
	if len(chapters) > 0 && len(d.missing) == len(chapters) {
		return d.missing[0]
	}
	b.finish(d, nil)
	a.said(d, pkg)
	return nil
}

// bookPackage returns the name of the part that lists the chapters: the one that the book names, else one with the
// right extension.
func bookPackage(a *archive) (name string, err error) {
	err = a.list("META-INF/container.xml", func(t xml.Token) error {
		if e, ok := t.(xml.StartElement); ok && e.Name.Local == "rootfile" && name == "" {
			name = attribute(e, "full-path")
		}
		return nil
	})
	if a.file(name) != nil {
		return name, nil
	}
	packages := slices.DeleteFunc(slices.Sorted(maps.Keys(a.files)), func(part string) bool {
		return !strings.EqualFold(path.Ext(part), ".opf")
	})
	if len(packages) == 0 {
		return name, err
	}
	return packages[0], nil
}

// bookChapters returns the parts of a book's spine.
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
			i, ok := items[attribute(e, "idref")]
			if ok && (strings.Contains(i.kind, "html") || i.kind == "text/x-oeb1-document") {
				chapters = append(chapters, i.name)
			}
		}
		return nil
	})
	return chapters, err
}
