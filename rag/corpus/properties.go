package corpus

import (
	"encoding/xml"
	"strings"
	"time"

	tags "golang.org/x/text/language"
)

// The keys of the metadata that a source has about itself. Dates are in RFC 3339, in UTC if the source gives a time
// zone, and days as 2006-01-02.
const (
	authorKey   = "author"
	createdKey  = "created"
	modifiedKey = "modified" // from the source; else when its file was changed
	languageKey = "language" // ISO 639-1
	pagesKey    = "pages"
)

// property keeps a property of a source under a key, unless it is empty or the key is set.
func (d *Document) property(key, value string) {
	value = strings.Join(strings.Fields(clean(value)), " ")
	switch key {
	case createdKey, modifiedKey:
		value = dateSaid(value)
	case languageKey:
		value = languageSaid(value)
	case authorKey:
		if lower := strings.ToLower(value); lower == "anonymous" || lower == "unknown" { // programs' placeholders
			return
		}
	}
	if value == "" || d.Meta[key] != nil || len(value) > maxProperty {
		return
	}
	d.setMeta(key, value)
}

// maxProperty bounds a property, in bytes.
const maxProperty = 1000

// dateSaid returns a date in the form of the metadata, or "" for an invalid one.
func dateSaid(text string) string {
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02 15:04:05",
		"2006-01-02", "2006-01", "2006", time.RFC1123Z, time.RFC1123, "Mon, _2 Jan 2006 15:04:05 -0700",
		"_2 Jan 2006 15:04:05 -0700", "Mon, _2 Jan 2006 15:04:05 MST"} {
		at, err := time.Parse(layout, text)
		if err != nil || at.Year() < 1000 || at.Year() > 9999 {
			continue
		}
		if len(layout) <= len("2006-01-02") {
			return at.Format(layout)
		}
		return at.UTC().Format(time.RFC3339)
	}
	return ""
}

// dateOfPDF converts a date of PDF, "D:20240331120000+02'00'", to a form that dateSaid reads.
func dateOfPDF(text string) string {
	text = strings.ReplaceAll(strings.TrimPrefix(text, "D:"), "'", "")
	for _, layout := range []string{"20060102150405Z0700", "20060102150405-0700", "20060102150405", "200601021504",
		"20060102", "200601", "2006"} {
		if at, err := time.Parse(layout, text); err == nil {
			return at.UTC().Format(time.RFC3339)
		}
	}
	return ""
}

// languageSaid returns the language of a tag such as "en-US" in ISO 639-1; "" if it is invalid or has no such code.
func languageSaid(tag string) string {
	t, err := tags.Parse(tag)
	if err != nil {
		return ""
	}
	base, sure := t.Base()
	if code := base.String(); len(code) == 2 && sure == tags.Exact {
		return code
	}
	return ""
}

// said reads the title and the properties from a part of an Office document, an OpenDocument or a book: text elements
// by their local names. A part that cannot be read is ignored.
func (a *archive) said(d *Document, part string) {
	keys := map[string]string{"creator": authorKey, "initial-creator": authorKey, "created": createdKey,
		"creation-date": createdKey, "modified": modifiedKey, "language": languageKey}
	switch part {
	case coreProperties:
	case openProperties:
		keys["date"] = modifiedKey
	default: // a book
		keys["date"] = createdKey
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
					d.Title = strings.Join(strings.Fields(clean(text.String())), " ")
				}
				in = ""
			default:
				if in == "creator" {
					authors = append(authors, strings.TrimSpace(text.String()))
				} else {
					d.property(keys[in], text.String())
				}
				in = ""
			}
		case xml.CharData:
			if in != "" && text.Len() < maxProperty {
				text.Write(t)
			}
		}
		return nil
	})
	d.property(authorKey, strings.Join(authors, ", ")) // initial creator first
}
