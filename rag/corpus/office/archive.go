// Package office reads ZIP files of XML: Word, PowerPoint, Excel, OpenDocument and EPUB.
package office

import (
	"archive/zip"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	"golang.org/x/net/html/charset"

	"github.com/sluice-rag/sluice/rag/corpus/doc"
)

// Archive is a ZIP file whose parts are read: an office document or a book.
type Archive struct {
	files map[string]*zip.File // by their names without a slash in front
	alike map[string]*zip.File // by their names in lower case; the first of several
	left  int64                // bytes that may still be unpacked from it
	limit int64
	p     *doc.Pulse
}

// oleMagic begins the compound files of Office until 2003, and encrypted Office documents.
const oleMagic = "\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"

// packedRatio bounds the bytes unpacked from an office document or a book for each of its own bytes, beyond the first
// packedFree bytes; real documents stay below half of it. maxToken bounds one text or tag of its XML, which is held in
// memory as a whole.
const (
	packedRatio = 100
	packedFree  = 16 << 20
	maxToken    = 8 << 20
	maxNames    = 4 << 20  // bytes of the list of its parts
	maxList     = 16 << 20 // bytes of a part that is held as a whole, such as the styles
)

// Open opens a ZIP file from which at most limit bytes are unpacked, and at most packedRatio for each of its own
// bytes, whatever sizes it declares.
func Open(raw string, limit int64, p *doc.Pulse) (*Archive, error) {
	if strings.HasPrefix(raw, oleMagic) {
		return nil,
			fmt.Errorf("%w: encrypted, or of an Office before 2007; save it without a password, in a current format",
				doc.ErrFormat)
	}
	names := &doc.Bounded{R: strings.NewReader(raw), Left: maxNames}
	z, err := zip.NewReader(names, int64(len(raw)))
	if err != nil {
		return nil, fmt.Errorf("%w: no ZIP file: %w", doc.ErrFormat, err)
	}
	names.Left = 1 << 62
	limit = min(limit, max(packedFree, packedRatio*int64(len(raw))))
	a := &Archive{files: make(map[string]*zip.File, len(z.File)), alike: make(map[string]*zip.File, len(z.File)),
		left: limit, limit: limit, p: p}
	for _, f := range z.File {
		name := strings.TrimPrefix(strings.ReplaceAll(f.Name, `\`, "/"), "/")
		a.files[name] = f
		if name = strings.ToLower(name); a.alike[name] == nil {
			a.alike[name] = f
		}
	}
	return a, nil
}

// errNoPart reports that an archive lacks a part.
var errNoPart = errors.New("no such part")

// file returns a part by its name, or by its name without regard to case if no part has exactly that name, or nil.
func (a *Archive) file(name string) *zip.File {
	if f, ok := a.files[name]; ok {
		return f
	}
	return a.alike[strings.ToLower(name)]
}

// open reads a part.
func (a *Archive) open(name string) (io.Reader, error) {
	f := a.file(name)
	if f == nil {
		return nil, fmt.Errorf("%w: %w: %s", doc.ErrFormat, errNoPart, name)
	}
	if f.Flags&1 != 0 {
		return nil, doc.ErrEncrypted
	}
	r, err := f.Open()
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", doc.ErrFormat, name, err)
	}
	return a.p.Reader(&portion{a, r}), nil
}

// portion reads a part within what is left of the archive's limit.
type portion struct {
	a *Archive
	r io.Reader
}

func (r *portion) Read(b []byte) (int, error) {
	if err := r.a.take(0); err != nil {
		return 0, err
	}
	n, err := r.r.Read(b[:min(int64(len(b)), r.a.left)])
	r.a.left -= int64(n)
	return n, err
}

// Unpacked returns how many bytes have been unpacked from the archive.
func (a *Archive) Unpacked() int { return int(a.limit - a.left) }

// take counts bytes that are unpacked from the archive.
func (a *Archive) take(bytes int) error {
	if a.left -= int64(bytes); a.left <= 0 {
		return fmt.Errorf("%w of %d bytes (ingest.max_file_mib, and %d for each byte of the file), unpacked: more than "+
			"that", doc.ErrTooLarge, a.limit, packedRatio)
	}
	return nil
}

// text reads a whole part.
func (a *Archive) text(name string) (string, error) {
	r, err := a.open(name)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	if _, err := io.Copy(&b, r); err != nil {
		return "", asFormat(name, err)
	}
	return b.String(), nil
}

func asFormat(name string, err error) error {
	if errors.Is(err, doc.ErrTooLarge) {
		return err
	}
	return fmt.Errorf("%w: %s: %w", doc.ErrFormat, name, err)
}

// tokenLimit allows at most maxToken bytes to be read for one token.
type tokenLimit struct {
	r io.Reader
	n int // since the last token
}

func (l *tokenLimit) Read(b []byte) (int, error) {
	if l.n > maxToken {
		return 0, fmt.Errorf("%w of %d bytes: a text or tag has more", doc.ErrTooLarge, maxToken)
	}
	n, err := l.r.Read(b)
	l.n += n
	return n, err
}

// hold appends to the text of a paragraph or a cell, which is held in memory as a whole.
func hold(text *strings.Builder, more string) {
	if text.Len()+len(more) > maxToken {
		doc.Abort(fmt.Errorf("%w of %d bytes: a paragraph or cell has more", doc.ErrTooLarge, maxToken))
	}
	text.WriteString(more)
}

// list is like elements, for a part whose content is kept: at most maxList bytes are read.
func (a *Archive) list(name string, token func(xml.Token) error) error {
	return a.read(name, maxList, token)
}

// starts is like list, and reads start tags only.
func (a *Archive) starts(name string, start func(xml.StartElement)) error {
	return a.list(name, func(t xml.Token) error {
		if e, ok := t.(xml.StartElement); ok {
			start(e)
		}
		return nil
	})
}

// optional returns the error of a part that may be missing.
func optional(err error) error {
	if errors.Is(err, errNoPart) {
		return nil
	}
	return err
}

// elements reads a part of XML, token by token: no nesting, however deep, costs it stack.
func (a *Archive) elements(name string, token func(xml.Token) error) error {
	return a.read(name, a.left, token)
}

func (a *Archive) read(name string, limit int64, token func(xml.Token) error) error {
	r, err := a.open(name)
	if err != nil {
		return err
	}
	if limit < a.left {
		r = &portion{&Archive{left: limit, limit: limit}, r}
	}
	limited := &tokenLimit{r: r}
	d := xml.NewDecoder(limited)
	d.CharsetReader = charset.NewReaderLabel
	for {
		limited.n = 0
		t, err := d.RawToken()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			a.p.Beat()
			err = token(t)
		}
		if err != nil {
			return asFormat(name, err)
		}
	}
}

// unreadDepth counts the open elements within one that is not read, including that one; 0: all open ones are read.
type unreadDepth int

// holds reports whether a token belongs to an element that is not read; begins says that it begins one.
func (n *unreadDepth) holds(t xml.Token, begins bool) bool {
	switch t.(type) {
	case xml.StartElement:
		if *n > 0 || begins {
			*n++
		}
	case xml.EndElement:
		if *n > 0 {
			*n--
			return true
		}
	}
	return *n > 0
}

// attribute returns the value of an element's attribute, whatever its prefix, or "".
func attribute(e xml.StartElement, name string) string {
	for _, a := range e.Attr {
		if a.Name.Local == name {
			return a.Value
		}
	}
	return ""
}

// prefixed returns the value of an attribute with a prefix, or "".
func prefixed(e xml.StartElement, prefix, name string) string {
	for _, a := range e.Attr {
		if a.Name.Space == prefix && a.Name.Local == name {
			return a.Value
		}
	}
	return ""
}

// related returns the names of the parts that a part of an Office document refers to, by the ids of the references and
// by the last word of their type ("slide", "notesSlide").
func (a *Archive) related(name string) (byID, byType map[string]string, err error) {
	byID, byType = map[string]string{}, map[string]string{}
	dir, base := path.Split(name)
	err = a.starts(dir+"_rels/"+base+".rels", func(e xml.StartElement) {
		if e.Name.Local != "Relationship" || attribute(e, "TargetMode") == "External" {
			return
		}
		target := attribute(e, "Target")
		if !strings.HasPrefix(target, "/") {
			target = path.Join(dir, target)
		}
		target = strings.TrimPrefix(path.Clean(target), "/")
		byID[attribute(e, "Id")] = target
		byType[path.Base(attribute(e, "Type"))] = target
	})
	return byID, byType, optional(err)
}

// The parts in which an Office document and an OpenDocument hold their metadata.
const (
	coreProperties = "docProps/core.xml"
	openProperties = "meta.xml"
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
