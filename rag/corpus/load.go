package corpus

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"path/filepath"
	"strings"
	"time"

	"github.com/sluice-rag/sluice/internal/jsonl"
	"github.com/sluice-rag/sluice/rag/corpus/build"
	"github.com/sluice-rag/sluice/rag/corpus/charset"
	"github.com/sluice-rag/sluice/rag/corpus/clean"
	"github.com/sluice-rag/sluice/rag/corpus/code"
	"github.com/sluice-rag/sluice/rag/corpus/doc"
	"github.com/sluice-rag/sluice/rag/corpus/html"
	"github.com/sluice-rag/sluice/rag/corpus/mail"
	"github.com/sluice-rag/sluice/rag/corpus/markdown"
	"github.com/sluice-rag/sluice/rag/corpus/markup"
	"github.com/sluice-rag/sluice/rag/corpus/office"
	"github.com/sluice-rag/sluice/rag/corpus/pdf"
	"github.com/sluice-rag/sluice/rag/corpus/plain"
	"github.com/sluice-rag/sluice/rag/corpus/table"
)

// DefaultMaxFileBytes is the limit for one file, and for one line of a JSON lines file.
const DefaultMaxFileBytes = 256 << 20

// errStop ends the walk: the consumer has stopped, or the error has been yielded.
var errStop = errors.New("stop")

// Load yields the documents below paths: text (.txt), Markdown (.md), HTML (.html, .htm), tables (.csv, .tsv), Office
// documents (.pdf, .docx, .pptx, .xlsx, .odt, .odp, .ods), books (.epub), messages (.eml, .mbox), notebooks (.ipynb),
// light markup (.rst, .adoc, .org, .tex, manual pages), data (.json, .yaml, .toml), README and LICENSE, JSON lines
// (.jsonl, .ndjson, a document a line), and folders of them, walked in name order. A document's id is
// its path relative to the folder given (the base name, for a file given), with slashes, whatever
// the working directory; or the JSON line's id. Ids of different folders may be equal: Document.Path tells files apart,
// and a file that is reached twice, also by links, is yielded once. What cannot be read is reported to OnSkip with the
// reason and the walk goes on; with Strict a file or line that is not readable ends it with its
// error (hidden files and unknown kinds inside a folder never do). When there was no document at
// all, ErrNoDocument is the last thing yielded.
func Load(ctx context.Context, paths []string, o LoadOptions) iter.Seq2[*Document, error] {
	return func(yield func(*Document, error) bool) {
		l := newLoader(ctx, o, yield)
		defer l.close()
		if err := o.FileOptions.check(); err != nil {
			yield(nil, err)
			return
		}
		for _, p := range paths {
			if err := l.walk.path(p); err != nil {
				if !errors.Is(err, errStop) {
					yield(nil, err)
				}
				return
			}
		}
		if l.documents > 0 {
			return
		}
		err := fmt.Errorf("%w in %s", ErrNoDocument, strings.Join(paths, ", "))
		if l.skipped > 0 {
			err = fmt.Errorf("%w: %d skipped, the first: %s: %w", err, l.skipped, l.first.Source, l.first.Err)
		}
		yield(nil, err)
	}
}

// loader is the state of one Load.
type loader struct {
	ctx       context.Context
	o         LoadOptions
	yield     func(*Document, error) bool
	seen      map[place]place // lines of the file being loaded, by their ids
	walk      *walker
	each      func(found) error // reads a file of an archive
	at        found             // the file being loaded
	documents int
	skipped   int
	first     Skipped
	pdf       *pdf.Reader // nil before the first PDF file
}

func newLoader(ctx context.Context, o LoadOptions, yield func(*Document, error) bool) *loader {
	if o.Archives == (ArchiveLimits{}) {
		o.Archives = DefaultArchiveLimits()
	}
	if o.MaxFileBytes <= 0 {
		o.MaxFileBytes = DefaultMaxFileBytes
	}
	l := &loader{ctx: ctx, o: o, yield: yield, walk: newWalker(ctx, o.FileOptions)}
	l.walk.file, l.walk.skip, l.each = l.file, l.skip, l.document
	return l
}

func (l *loader) close() { _ = l.pdf.Close() } // an error means only that memory was not freed

// place is where a document came from; line is 0 for a file.
type place struct {
	path string
	line int
	id   string // of a line that is identified by it instead of its number
}

func (p place) String() string {
	if p.line == 0 {
		return p.path
	}
	return fmt.Sprintf("%s:%d", p.path, p.line)
}

// skip reports a skipped source. A fault ends a strict walk; a file that is skipped by rule does not.
func (l *loader) skip(source string, err error, fault bool) error {
	if fault && l.o.Strict {
		l.yield(nil, fmt.Errorf("%s: %w", source, err))
		return errStop
	}
	s := Skipped{Source: source, Err: err}
	if l.skipped++; l.skipped == 1 {
		l.first = s
	}
	if l.o.OnSkip != nil {
		l.o.OnSkip(s)
	}
	return nil
}

func (l *loader) cancelled() error {
	if err := l.ctx.Err(); err != nil {
		l.yield(nil, err)
		return errStop
	}
	return nil
}

// emit yields d unless it has no words, or the line's id was seen before in its file.
func (l *loader) emit(d *Document, from place) error {
	d.Source, d.Line, d.Folder, d.Given = from.String(), from.line, l.at.folder, l.at.given
	if doc.HasWord(d.Text) && len(l.o.Clean) > 0 {
		limit := l.limited(int64(len(d.Text)))
		err := limit.parsing(func() error { clean.Document(d, l.o.Clean, limit.Pulse); return nil })
		if limit.end(); err != nil {
			return l.unread(l.at, err)
		}
	}
	if !doc.HasWord(d.Text) {
		return l.skip(d.Source, ErrNoWords, true)
	}
	d.Path = l.at.real
	if key := (place{path: l.at.real, id: d.ID}); from.line > 0 {
		if first, again := l.seen[key]; again {
			return l.skip(d.Source, fmt.Errorf("%w: %q is that of %s", ErrDuplicate, d.ID, first), true)
		}
		l.seen[key] = from
	}
	l.documents++
	if !l.yield(d, nil) {
		return errStop
	}
	return nil
}

// file reads a file that the walk has found.
func (l *loader) file(at found) error {
	kind := archiveKind(at.path)
	if kind != nil && (l.o.As == "" || !at.given || at.content != nil) {
		return l.archive(at, kind)
	}
	return l.document(at)
}

// document reads a file of one document, or one of a document per line or message.
func (l *loader) document(at found) error {
	if err := l.cancelled(); err != nil {
		return err
	}
	l.at, l.seen = at, map[place]place{}
	ext := l.ending(at)
	switch ext {
	case ".jsonl", ".ndjson":
		return l.jsonLines(at)
	case ".mbox":
		return l.mailbox(at)
	}
	limit := l.limited(at.size)
	defer limit.end()
	f, ok := l.formats(limit)[ext]
	if language, known := code.Of(ext); known {
		f, ok = l.decoding(plainShare, limit.Pulse, func(d *Document, in charset.Text) error {
			return code.Parse(d, in, language, at.given, limit.Pulse)
		}), true
	}
	if ok && l.o.Pictures == nil && isPicture(ext) {
		return l.unread(at, ErrPictures)
	}
	if !ok {
		err := fmt.Errorf("%w %q: %s are read, and archives of them (%s)", ErrUnknown, ext, formatNames, archiveNames)
		return l.skip(at.path, err, at.given && at.content == nil)
	}
	parse := f.parse
	raw, digest, cut, err := l.readText(at, f)
	if err != nil {
		return l.unread(at, err)
	}
	d := &Document{ID: at.name, Digest: digest, Cut: cut}
	size := len(raw)
	if err := limit.parsing(func() error { return parse(d, raw) }); err != nil {
		return l.unread(at, err)
	}
	collect(size)
	for _, err := range d.Missing {
		if err := l.skip(at.path, err, !errors.Is(err, ErrPictures)); err != nil {
			return err
		}
	}
	d.Shorten(l.o.MaxTextBytes)
	if d.Title == "" {
		d.Title = title(d, at.path)
	}
	if !at.modified.IsZero() {
		d.Property(doc.ModifiedKey, at.modified.UTC().Format(time.RFC3339))
	}
	return l.emit(d, place{path: at.path})
}

// unread skips a file that could not be read, unless the context has ended, or its archive exceeds a limit.
func (l *loader) unread(at found, err error) error {
	if stop := l.cancelled(); stop != nil {
		return stop
	}
	if at.content != nil && errors.Is(err, doc.ErrArchive) {
		return err // the archive is skipped
	}
	if errors.Is(err, ErrPictures) {
		return l.skip(at.path, fmt.Errorf("%w: %w", ErrUnknown, err), at.given && at.content == nil)
	}
	return l.skip(at.path, err, !errors.Is(err, ErrGenerated))
}

// formatNames lists the extensions of files that are read, for messages.
const formatNames = "txt, md, html, pdf, jsonl, csv, tsv, docx, pptx, xlsx, odt, odp, ods, epub, eml, mbox, ipynb, " +
	"rst, adoc, org, tex, man pages, json, yaml, toml, source code (" + code.Names + ")"

// format describes how files with an extension are read.
type format struct {
	parse func(*Document, string) error
	// share bounds how many bytes are read per byte of text that is wanted; 0: the file is not text, and is read whole.
	share int64
}

// decoding returns the format of texts that a parser reads.
func (l *loader) decoding(share int64, p *doc.Pulse, parse func(*Document, charset.Text) error) format {
	return format{func(d *Document, raw string) error {
		in, err := charset.Decode(d, raw, l.o.Encoding, p)
		if err != nil {
			return err
		}
		return parse(d, in)
	}, share}
}

// formats returns the formats of files that hold one document, by extension.
func (l *loader) formats(limit *timeLimit) map[string]format {
	var p *doc.Pulse
	if limit != nil {
		p = limit.Pulse
	}
	text := l.decoding(plainShare, p, func(d *Document, in charset.Text) error {
		plain.Parse(d, in, p)
		return nil
	})
	readMarkdown := func(d *Document, in charset.Text) error {
		if !markdown.Parse(d, in, p) {
			plain.Parse(d, in, p)
		}
		return nil
	}
	page := func(xml bool) format {
		return format{func(d *Document, raw string) error {
			in, err := charset.DecodeHTML(d, raw, l.o.Encoding, p)
			if err == nil {
				html.Parse(d, in, xml, p)
			}
			return err
		}, markupShare}
	}
	separated := func(tabs bool) format {
		return l.decoding(plainShare, p, func(d *Document, in charset.Text) error {
			return table.Parse(d, in, tabs, p)
		})
	}
	packed := func(parse func(*Document, *office.Archive) error) format {
		return format{func(d *Document, raw string) error {
			a, err := office.Open(raw, l.o.MaxFileBytes, p)
			if err != nil {
				return err
			}
			defer func() { collect(a.Unpacked()) }()
			return parse(d, a)
		}, 0}
	}
	all := map[string]format{
		".txt": text, ".text": text, ".html": page(false), ".htm": page(false),
		".xhtml": page(true), ".xht": page(true), ".csv": separated(false), ".tsv": separated(true),
		".docx": packed(office.Word), ".pptx": packed(office.Slides), ".xlsx": packed(office.Sheets),
		".odt": packed(office.OpenDocument), ".odp": packed(office.OpenDocument), ".ods": packed(office.OpenDocument),
		".epub":  packed(office.Book),
		".pdf":   {func(d *Document, raw string) error { return l.pdfFile(d, raw, limit) }, 0},
		".eml":   {func(d *Document, raw string) error { return mail.Parse(d, raw, p) }, 0},
		".ipynb": l.decoding(0, p, func(d *Document, in charset.Text) error { return parseNotebook(d, in, p) }),
	}
	data := l.decoding(plainShare, p, func(d *Document, in charset.Text) error { // its lines are grouped by indent
		b := &build.Builder{Pulse: p}
		b.Verbatim(in.Text, 0)
		b.Finish(d, in.Map)
		return nil
	})
	for _, ending := range []string{".json", ".yaml", ".yml", ".toml"} {
		all[ending] = data
	}
	for ending := range strings.FieldsSeq(".md .markdown .mkd .mkdn .mdown .mdwn .rmd .qmd") {
		all[ending] = l.decoding(markupShare, p, readMarkdown)
	}
	all[".mdx"] = l.decoding(markupShare, p, func(d *Document, in charset.Text) error {
		return readMarkdown(d, markdown.WithoutModules(in))
	})
	for ending := range strings.FieldsSeq(markup.Endings) {
		all[ending] = l.decoding(markupShare, p, func(d *Document, in charset.Text) error {
			return markup.Parse(d, in, ending, p)
		})
	}
	for ending := range strings.FieldsSeq(pdf.PictureEndings) {
		all[ending] = format{func(d *Document, raw string) error { return l.pictures(limit).Parse(d, raw, ending) }, 0}
	}
	return all
}

// ending returns the extension by which a file is read: that of text files if it has none and is known by its name as
// text, or was given.
func (l *loader) ending(at found) string {
	base := filepath.Base(at.path)
	ext := markup.WithoutGroup(strings.ToLower(filepath.Ext(base)))
	given := at.given && at.content == nil
	switch {
	case l.o.As != "" && (given || !isRead(ext) && !isPlainName(base)):
		return "." + strings.TrimPrefix(strings.ToLower(l.o.As), ".")
	case ext == ".debian", given && (ext == "" || ext == strings.ToLower(base)), ext == "" && isPlainName(base):
		return ".txt"
	}
	return ext
}

// IsRead reports whether files with an extension, such as ".md", are read, as they are or as archives.
func IsRead(ending string) bool { return isRead(ending) || archiveKind(ending) != nil }

// isRead reports whether files with an extension are read as they are; its dot may be missing.
func isRead(ending string) bool {
	ending = markup.WithoutGroup("." + strings.TrimPrefix(strings.ToLower(ending), "."))
	_, format := (&loader{}).formats(nil)[ending]
	_, code := code.Of(ending)
	return format || code || ending == ".jsonl" || ending == ".ndjson" || ending == ".mbox"
}

// Converted reports whether a source is of a format whose text is produced by conversion, so that the positions of
// chunks are bytes of that text, not of the file. Its anchors ("slide=3", "sheet=Prices") then give a passage's place.
func Converted(source string) bool {
	switch ending := strings.ToLower(filepath.Ext(source)); ending {
	case ".pdf", ".docx", ".pptx", ".xlsx", ".odt", ".odp", ".ods", ".epub", ".eml", ".ipynb":
		return true
	default:
		return isPicture(ending)
	}
}

// pdfFile reads a PDF file.
func (l *loader) pdfFile(d *Document, raw string, limit *timeLimit) error {
	if l.pdf == nil {
		r, err := pdf.Open(l.ctx, l.o.CacheDir)
		if err != nil {
			return err
		}
		l.pdf = r
	}
	return l.pdf.Parse(d, raw, l.pictures(limit))
}

// pictures reads those of a file within its time limit.
func (l *loader) pictures(limit *timeLimit) *pdf.Pictures {
	return &pdf.Pictures{Reader: l.o.Pictures, All: l.o.AllPages, Pulse: limit.Pulse, More: limit.more}
}

// title returns the first heading, or the file's name without its extension.
func title(d *Document, path string) string {
	for _, s := range d.Sections {
		if len(s.Heading) > 0 {
			return s.Heading[0]
		}
	}
	return doc.NameOf(path)
}

func (l *loader) jsonLines(at found) error {
	path := at.path
	f, err := at.open()
	if err != nil {
		return l.skip(path, reason(err), true)
	}
	defer f.Close()
	r := bufio.NewReaderSize(f, 64<<10)
	head, _ := r.Peek(charset.ProbeBytes) // a short file is not an error here
	if err := charset.Check(string(head)); err != nil {
		return l.skip(path, err, true)
	}
	if charset.UTF16Order(string(head)) != nil {
		return l.skip(path, fmt.Errorf("%w: JSON lines in UTF-16; convert them to UTF-8", ErrFormat), true)
	}
	lines := 0
	for line, err := range jsonl.Shortened(cancelled{l.ctx, r}, l.o.MaxFileBytes, l.o.MaxTextBytes) {
		switch {
		case errors.Is(err, jsonl.ErrLong):
			err = fmt.Errorf("%w of %d bytes: a line of %d bytes", ErrTooLarge, l.o.MaxFileBytes, line.Length)
		case err != nil:
			return l.unread(at, reason(err))
		}
		lines++
		if err := l.cancelled(); err != nil {
			return err
		}
		if err := l.jsonLine(path, line, err); err != nil {
			return err
		}
	}
	if lines == 0 {
		return l.skip(path, ErrNoWords, true)
	}
	return nil
}

// jsonLine yields the document of a line, or skips the line if there is an error.
func (l *loader) jsonLine(path string, line jsonl.Line, err error) error {
	from := place{path: path, line: line.Number}
	if err != nil {
		return l.skip(from.String(), err, true)
	}
	if len(bytes.TrimSpace(line.Raw)) == 0 {
		return nil
	}
	var d *Document
	limit := l.limited(int64(len(line.Raw)))
	defer limit.end()
	sum := sha256.Sum256(line.Raw) // parsing overwrites the line
	collect(len(line.Raw))
	err = limit.parsing(func() (err error) {
		d, err = parseJSONLine(line.Raw, int(line.Offset), line.Own, limit.Pulse)
		return err
	})
	if err != nil {
		if stop := l.cancelled(); stop != nil {
			return stop
		}
		return l.skip(from.String(), err, true)
	}
	d.Digest = "sha256:" + hex.EncodeToString(sum[:])
	d.Cut = line.Cut > 0
	d.Shorten(l.o.MaxTextBytes)
	return l.emit(d, from)
}

// isPicture reports whether files with an extension are pictures whose text is read.
func isPicture(ending string) bool { return strings.Contains(pdf.PictureEndings, " "+ending+" ") }

// HoldsPictures reports whether a file may have text in pictures, by its name.
func HoldsPictures(path string) bool {
	ending := strings.ToLower(filepath.Ext(path))
	return ending == ".pdf" || isPicture(ending) || archiveKind(path) != nil
}

// isPlainName reports whether a file without an extension is known by its name as text: README, LICENSE-MIT, Makefile,
// and the copyright of a package of Debian.
func isPlainName(base string) bool {
	head, _, _ := strings.Cut(base, "-")
	return doc.OneOf(head, " README LICENSE LICENCE COPYING NOTICE ") || doc.OneOf(strings.ToLower(base), plainNames)
}

const plainNames = " readme license licence copying copyright notice authors changelog changes news todo install " +
	"contributing makefile dockerfile history credits contributors thanks "
