package office

import (
	"encoding/xml"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/sluice-rag/sluice/rag/corpus/build"
	"github.com/sluice-rag/sluice/rag/corpus/charset"
	"github.com/sluice-rag/sluice/rag/corpus/doc"
	"github.com/sluice-rag/sluice/rag/corpus/html"
)

// Book reads an EPUB book: the chapters of its spine in their order. A chapter that is missing or cannot be
// unpacked is noted (Document.Missing), and the others are read.
func Book(d *doc.Document, a *Archive) error {
	b := &build.Builder{Pulse: a.p, W: doc.Writer{IsSource: true}}
	if _, ok := a.files["META-INF/rights.xml"]; ok {
		return fmt.Errorf("%w: the book is encrypted", doc.ErrFormat)
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
		if errors.Is(err, doc.ErrTooLarge) {
			return err
		}
		if err != nil {
			d.Lacks(err)
			continue
		}
		in, err := charset.DecodeHTML(d, raw, "", a.p)
		if err != nil {
			return err
		}
		html.Read(b, in.Text, 0, html.IsXML(in.Text, a.p))
		b.EndBlock("\n\n")
	}
	if len(chapters) > 0 && len(d.Missing) == len(chapters) {
		return d.Missing[0]
	}
	b.Finish(d, nil)
	a.said(d, pkg)
	return nil
}

// bookPackage returns the name of the part that lists the chapters: the one that the book names, else one with the
// right extension.
func bookPackage(a *Archive) (name string, err error) {
	err = a.starts("META-INF/container.xml", func(e xml.StartElement) {
		if e.Name.Local == "rootfile" && name == "" {
			name = attribute(e, "full-path")
		}
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
func bookChapters(a *Archive, pkg string) (chapters []string, err error) {
	type item struct{ name, kind string }
	items := map[string]item{}
	err = a.starts(pkg, func(e xml.StartElement) {
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
	})
	return chapters, err
}
