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
	code      map[string]language // by endings; nil before the first file
	pdf       *pdfReader          // nil before the first PDF file
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

func (l *loader) close() { _ = l.pdf.close() } // an error means only that memory was not freed

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
	s := Skipped{source, err}
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
	if hasWord(d.Text) && len(l.o.Clean) > 0 {
		limit := l.limited(int64(len(d.Text)))
		err := limit.parsing(len(d.Text), func() error { d.clean(l.o.Clean, limit.pulse); return nil })
		if limit.end(); err != nil {
			return l.unread(l.at, err)
		}
	}
	if !hasWord(d.Text) {
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
	if l.code == nil {
		l.code = languages()
	}
	if code, known := l.code[ext]; known {
		f, ok = format{func(d *Document, raw string) error {
			in, err := decodeText(d, raw, l.o.Encoding, limit.pulse)
			if err != nil {
				return err
			}
			return parseCode(d, in, code, at.given, limit.pulse)
		}, plainShare}, true
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
	if err := limit.parsing(size, func() error { return parse(d, raw) }); err != nil {
		return l.unread(at, err)
	}
	collect(size)
	for _, err := range d.missing {
		if err := l.skip(at.path, err, !errors.Is(err, ErrPictures)); err != nil {
			return err
		}
	}
	d.shorten(l.o.MaxTextBytes)
	if d.Title == "" {
		d.Title = title(d, at.path)
	}
	if !at.modified.IsZero() {
		d.property(modifiedKey, at.modified.UTC().Format(time.RFC3339))
	}
	return l.emit(d, place{path: at.path})
}

// unread skips a file that could not be read, unless the context has ended, or its archive exceeds a limit.
func (l *loader) unread(at found, err error) error {
	if stop := l.cancelled(); stop != nil {
		return stop
	}
	if at.content != nil && errors.Is(err, errArchive) {
		return err // the archive is skipped
	}
	if errors.Is(err, ErrPictures) {
		return l.skip(at.path, fmt.Errorf("%w: %w", ErrUnknown, err), at.given && at.content == nil)
	}
	return l.skip(at.path, err, !errors.Is(err, ErrGenerated))
}

// formatNames lists the extensions of files that are read, for messages.
const formatNames = "txt, md, html, pdf, jsonl, csv, tsv, docx, pptx, xlsx, odt, odp, ods, epub, eml, mbox, ipynb, " +
	"rst, adoc, org, tex, man pages, json, yaml, toml, source code (" + codeNames + ")"

// format describes how files with an extension are read.
type format struct {
	parse func(*Document, string) error
	// share bounds how many bytes are read per byte of text that is wanted; 0: the file is not text, and is read whole.
	share int64
}

// formats returns the formats of files that hold one document, by extension.
func (l *loader) formats(limit *timeLimit) map[string]format {
	var p *pulse
	if limit != nil {
		p = limit.pulse
	}
	decoding := func(share int64, parse func(*Document, decoded)) format {
		return format{func(d *Document, raw string) error {
			in, err := decodeText(d, raw, l.o.Encoding, p)
			if err == nil {
				parse(d, in)
			}
			return err
		}, share}
	}
	text := decoding(plainShare, func(d *Document, in decoded) { parseText(d, in, p) })
	readMarkdown := func(d *Document, in decoded) {
		if !parseMarkdown(d, in, p) {
			parseText(d, in, p)
		}
	}
	html := func(xml bool) format {
		return format{func(d *Document, raw string) error {
			in, err := decodeHTML(d, raw, l.o.Encoding, p)
			if err == nil {
				parseHTML(d, in, xml, p)
			}
			return err
		}, markupShare}
	}
	failing := func(share int64, parse func(*Document, decoded) error) format {
		return format{func(d *Document, raw string) error {
			in, err := decodeText(d, raw, l.o.Encoding, p)
			if err != nil {
				return err
			}
			return parse(d, in)
		}, share}
	}
	separated := func(tabs bool) format {
		return failing(plainShare, func(d *Document, in decoded) error { return parseTable(d, in, tabs, p) })
	}
	packed := func(parse func(*Document, *archive) error) format {
		return format{func(d *Document, raw string) error {
			a, err := openArchive(raw, l.o.MaxFileBytes, p)
			if err != nil {
				return err
			}
			defer func() { collect(int(a.limit - a.left)) }()
			return parse(d, a)
		}, 0}
	}
	all := map[string]format{
		".txt": text, ".text": text, ".html": html(false), ".htm": html(false),
		".xhtml": html(true), ".xht": html(true),
		".csv":  separated(false),
		".tsv":  separated(true),
		".docx": packed(parseWord), ".pptx": packed(parseSlides), ".xlsx": packed(parseSheets),
		".odt": packed(parseOpenDocument), ".odp": packed(parseOpenDocument), ".ods": packed(parseOpenDocument),
		".epub": packed(parseBook),
		".pdf":  {func(d *Document, raw string) error { return l.pdfFile(d, raw, limit) }, 0},
		".eml":  {func(d *Document, raw string) error { return parseMail(d, raw, p) }, 0},
	}
	for _, ending := range []string{".json", ".yaml", ".yml", ".toml"} {
		all[ending] = decoding(plainShare, func(d *Document, in decoded) { parseData(d, in, p) })
	}
	for ending := range strings.FieldsSeq(".md .markdown .mkd .mkdn .mdown .mdwn .rmd .qmd") {
		all[ending] = decoding(markupShare, readMarkdown)
	}
	all[".mdx"] = decoding(markupShare, func(d *Document, in decoded) { readMarkdown(d, withoutModules(in)) })
	for ending := range lightFormats() {
		all[ending] = failing(markupShare, func(d *Document, in decoded) error { return parseLight(d, in, ending, p) })
	}
	for ending := range strings.FieldsSeq(pictureEndings) {
		all[ending] = format{func(d *Document, raw string) error { return l.parsePicture(d, raw, ending, limit) }, 0}
	}
	all[".ipynb"] = failing(0, func(d *Document, in decoded) error { return parseNotebook(d, in, p) })
	return all
}

// ending returns the extension by which a file is read: that of text files if it has none and is known by its name as
// text, or was given.
func (l *loader) ending(at found) string {
	base := filepath.Base(at.path)
	ext := withoutGroup(strings.ToLower(filepath.Ext(base)))
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
	ending = withoutGroup("." + strings.TrimPrefix(strings.ToLower(ending), "."))
	_, format := (&loader{}).formats(nil)[ending]
	_, code := languages()[ending]
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

// pdfFile reads a PDF file, and records its pages without text.
func (l *loader) pdfFile(d *Document, raw string, limit *timeLimit) error {
	if l.pdf == nil {
		r, err := openPDF(l.ctx, l.o.CacheDir)
		if err != nil {
			return err
		}
		l.pdf = r
	}
	x := &pictures{reader: l.o.Pictures, limit: limit, all: l.o.AllPages}
	empty, err := l.pdf.parse(d, raw, x)
	if err != nil {
		return err
	}
	d.Empty, d.missing = empty, x.failed
	x.say(d)
	return nil
}

// title returns the first heading, or the file's name without its extension.
func title(d *Document, path string) string {
	for _, s := range d.Sections {
		if len(s.Heading) > 0 {
			return s.Heading[0]
		}
	}
	return nameOf(path)
}

func (l *loader) jsonLines(at found) error {
	path := at.path
	f, err := at.open()
	if err != nil {
		return l.skip(path, reason(err), true)
	}
	defer f.Close()
	r := bufio.NewReaderSize(f, 64<<10)
	head, _ := r.Peek(probeBytes) // a short file is not an error here
	if err := checkText(string(head)); err != nil {
		return l.skip(path, err, true)
	}
	if utf16Order(string(head)) != nil {
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
	err = limit.parsing(len(line.Raw), func() (err error) {
		d, err = parseJSONLine(line.Raw, int(line.Offset), line.Own, limit.pulse)
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
	d.shorten(l.o.MaxTextBytes)
	return l.emit(d, from)
}
