package web

import (
	"bufio"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"strings"

	"github.com/sluice-rag/sluice/rag/corpus"
)

// endingOf returns the ending of files of a page's format, and whether the format is text, whose beginning can be read
// by itself. The type says which; where that is a general one, the address does if it ends as a file that is read.
func endingOf(header string, u *url.URL, body *bufio.Reader) (ending string, text bool, err error) {
	name := mediaType(header, body)
	ending = mediaEnding(name)
	switch name {
	case "", unknownType, "text/plain", "application/zip", "application/gzip", "application/x-gzip", "text/xml",
		"application/xml":
		if own := pathEnding(u.Path); own != "" {
			ending = own
		}
	}
	if ending == "" {
		return "", false, fmt.Errorf("%w: it is %s, which is no format that is read", ErrContent, clean(name, ""))
	}
	head, _ := body.Peek(sniffBytes)
	text = strings.HasPrefix(http.DetectContentType(head), "text/") && !corpus.Converted("."+ending) && ending != "mbox"
	return ending, text, nil
}

// pathEnding returns the ending of a path that files of a format have which is read, else "".
func pathEnding(name string) string {
	base := strings.ToLower(path.Base(name))
	if before, last, ok := strings.Cut(base, ".tar."); ok && before != "" && corpus.IsRead("."+last) {
		return "tar." + last
	}
	if ending := path.Ext(base); len(ending) > 2 && ending != base && corpus.IsRead(ending) { // "v2.1" is no manual
		return strings.TrimPrefix(ending, ".")
	}
	return ""
}

// EndingOf returns the ending of files of a media type, "" if it is not read.
func EndingOf(mediaType string) string {
	name, _, _ := strings.Cut(strings.ToLower(mediaType), ";")
	return mediaEnding(strings.TrimSpace(name))
}

// mediaEnding returns the ending of files of a type, "" if it is not read.
func mediaEnding(name string) string {
	const office, open = "application/vnd.openxmlformats-officedocument.", "application/vnd.oasis.opendocument."
	return map[string]string{
		"text/html": "html", "application/xhtml+xml": "xhtml", "text/plain": "txt",
		"text/markdown": "md", "text/x-markdown": "md",
		"application/pdf": "pdf", "application/x-pdf": "pdf", "application/epub+zip": "epub",
		office + "wordprocessingml.document": "docx", office + "presentationml.presentation": "pptx",
		office + "spreadsheetml.sheet": "xlsx",
		open + "text":                  "odt", open + "presentation": "odp", open + "spreadsheet": "ods",
		"text/csv": "csv", "application/csv": "csv", "text/tab-separated-values": "tsv",
		"application/json": "json", "text/json": "json", "application/x-ipynb+json": "ipynb",
		"application/jsonl": "jsonl", "application/x-ndjson": "jsonl", "application/x-jsonlines": "jsonl",
		"application/yaml": "yaml", "application/x-yaml": "yaml", "text/yaml": "yaml", "text/x-yaml": "yaml",
		"application/toml": "toml", "message/rfc822": "eml", "application/mbox": "mbox",
		"text/x-rst": "rst", "text/prs.fallenstein.rst": "rst", "text/asciidoc": "adoc", "text/x-asciidoc": "adoc",
		"text/org": "org", "text/x-org": "org", "text/x-tex": "tex", "application/x-tex": "tex",
		"application/x-latex": "tex", "text/troff": "man", "application/x-troff-man": "man",
		"application/zip": "zip", "application/gzip": "gz", "application/x-gzip": "gz",
	}[name]
}
