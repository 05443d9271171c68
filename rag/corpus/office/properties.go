package office

import (
	"encoding/xml"
	"strings"

	"github.com/sluice-rag/sluice/rag/corpus/internal/doc"
)

// said reads the title and the properties from a part of an Office document, an OpenDocument or a book: text elements
// by their local names. A part that cannot be read is ignored.
func (a *Archive) said(d *doc.Document, part string) {
	keys := map[string]string{"creator": doc.AuthorKey, "initial-creator": doc.AuthorKey, "created": doc.CreatedKey,
		"creation-date": doc.CreatedKey, "modified": doc.ModifiedKey, "language": doc.LanguageKey}
	switch part {
	case coreProperties:
	case openProperties:
		keys["date"] = doc.ModifiedKey
	default: // a book
		keys["date"] = doc.CreatedKey
	}
	var text strings.Builder
	var authors []string
	in, depth := "", 0
	_ = a.elements(part, func(t xml.Token) error { // metadata is optional
		switch t := t.(type) {
		case xml.StartElement:
			if in != "" {
				depth++
			} else if name := t.Name.Local; keys[name] != "" || name == "title" {
				in = name
				text.Reset()
			}
		case xml.EndElement:
			switch {
			case in == "":
			case depth > 0:
				depth--
			case in == "title":
				if d.Title == "" {
					d.Title = strings.Join(strings.Fields(doc.Clean(text.String())), " ")
				}
				in = ""
			default:
				if in == "creator" {
					authors = append(authors, strings.TrimSpace(text.String()))
				} else {
					d.Property(keys[in], text.String())
				}
				in = ""
			}
		case xml.CharData:
			if in != "" && text.Len() < doc.MaxProperty {
				text.Write(t)
			}
		}
		return nil
	})
	d.Property(doc.AuthorKey, strings.Join(authors, ", ")) // initial creator first
}
