package store

import (
	"bufio"
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"regexp"

	"github.com/sluice-rag/sluice/embed/identity"
	"github.com/sluice-rag/sluice/internal/durable"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/rag/corpus"
)

// An export is a text file of JSON lines (docs/store.md), each an object with one key that says what it is, in the
// order of the fields here:
//
//	{"sluice_export": …}  the first line: version, encoder, metric
//	{"collection": …}     a folder that documents are from
//	{"document": …}       what is known of a document
//	{"chunk": …}          its text with the SHA-256, its vector (base64 of float32), its labels; in row order
//	{"meta": …}           a small value of the store; only if the whole store is exported, as the next
//	{"file": …}           of a calibration or the router, in parts
//	{"end": …}            the last line: how many of each, and the SHA-256 of all bytes before it
//
// Fields that this version does not know are refused: a change of the format makes another version.
type archiveLine struct {
	Export     *archiveHeader   `json:"sluice_export,omitempty"`
	Collection *Collection      `json:"collection,omitempty"`
	Document   *archiveDocument `json:"document,omitempty"`
	Chunk      *archiveChunk    `json:"chunk,omitempty"`
	Meta       *archiveMeta     `json:"meta,omitempty"`
	File       *archiveFile     `json:"file,omitempty"`
	End        *archiveEnd      `json:"end,omitempty"`
}

const (
	archiveVersion  = 1
	archiveLineMax  = 64 << 20 // bytes
	archiveFilePart = 1 << 20  // bytes of a file in one line
	archiveFileMax  = 1 << 30  // bytes of a file
)

type archiveHeader struct {
	Version int              `json:"version"`
	Store   string           `json:"store"` // id in hex
	Created string           `json:"created"`
	Encoder identity.Encoder `json:"encoder"`
	Metric  kernels.Metric   `json:"metric"`
	Whole   bool             `json:"whole"` // all of the store, not only some documents
}

type archiveDocument struct {
	ID         string      `json:"id"`
	Source     string      `json:"source"`
	Title      string      `json:"title,omitempty"`
	Topic      string      `json:"topic,omitempty"`
	Digest     string      `json:"digest"`
	Meta       corpus.Meta `json:"meta,omitempty"`
	Added      string      `json:"added"`
	Path       string      `json:"path,omitempty"` // absolute
	Line       bool        `json:"line,omitempty"`
	Collection string      `json:"collection,omitempty"`
	Partial    bool        `json:"partial,omitempty"`
	Chunks     int         `json:"chunks"`
}

type archiveChunk struct {
	corpus.Chunk
	SHA256 string  `json:"sha256"` // of what the encoder reads, in hex
	Vector []byte  `json:"vector"`
	Labels []Label `json:"labels,omitempty"`
}

type archiveMeta struct {
	Key   string `json:"key"`
	Value []byte `json:"value"`
}

type archiveFile struct {
	Name string `json:"name"` // FOLDER/NAME
	Data []byte `json:"data"`
	More bool   `json:"more,omitempty"` // the next line has more of it
}

type archiveEnd struct {
	Collections int    `json:"collections"`
	Documents   int    `json:"documents"`
	Chunks      int    `json:"chunks"`
	Metas       int    `json:"metas"`
	Files       int    `json:"files"` // lines of files
	SHA256      string `json:"sha256"`
}

// ErrArchive reports a file that is not an export, or is truncated.
var ErrArchive = errors.New("store: not a readable export")

// kind returns the place of the line's kind in the order of the file, or −1 if it has none or two.
func (l *archiveLine) kind() int {
	kind := -1
	for i, there := range [...]bool{l.Export != nil, l.Collection != nil, l.Document != nil, l.Chunk != nil,
		l.Meta != nil, l.File != nil, l.End != nil} {
		switch {
		case there && kind >= 0:
			return -1
		case there:
			kind = i
		}
	}
	return kind
}

// archiveReader reads an export line by line and checks what can be told of a line by itself, of the order and the
// counts, and of the checksum at the end.
type archiveReader struct {
	lines  *bufio.Reader
	sum    hash.Hash
	at     int64 // bytes before the line that Next has returned
	next   int64
	crc    uint32 // of that line
	number int
	last   int // kind of the last line
	header archiveHeader
	counts archiveEnd
	more   string // file that goes on
	size   int64  // of that file
}

// Next returns the next line; the last one has End, and io.EOF follows. Everything else is ErrArchive, ErrVersion or an
// error of the reader.
func (a *archiveReader) Next() (*archiveLine, error) {
	b, err := a.line()
	if err != nil {
		return nil, err
	}
	l, err := parseArchiveLine(b)
	if err == nil {
		err = a.check(l)
	}
	if err != nil {
		return nil, fmt.Errorf("line %d: %w", a.number, err)
	}
	if l.End == nil {
		a.sum.Write(b)
	}
	return l, nil
}

// line returns the next line with its end.
func (a *archiveReader) line() (b []byte, err error) {
	const end = 6 // kind of the last line
	a.at = a.next
	for {
		part, err := a.lines.ReadSlice('\n')
		b = append(b, part...)
		switch {
		case errors.Is(err, bufio.ErrBufferFull) && len(b) <= archiveLineMax:
			continue
		case len(b) > archiveLineMax:
			return nil, fmt.Errorf("%w: line %d is longer than %d bytes", ErrArchive, a.number+1, archiveLineMax)
		case err == io.EOF && len(b) == 0 && a.last == end:
			return nil, io.EOF
		case err == io.EOF:
			return nil, fmt.Errorf("%w: it ends within line %d: it was cut short", ErrArchive, a.number+1)
		case err != nil:
			return nil, err
		case a.last == end:
			return nil, fmt.Errorf("%w: there is more behind its end", ErrArchive)
		}
		a.next += int64(len(b))
		a.crc = durable.Checksum(b)
		a.number++
		return b, nil
	}
}

func parseArchiveLine(b []byte) (*archiveLine, error) {
	if !bytes.HasPrefix(b, []byte(`{"`)) {
		return nil, fmt.Errorf("%w: it is not a JSON object: %.60q", ErrArchive, b)
	}
	if bytes.HasPrefix(b, []byte(`{"sluice_export"`)) { // the version first: another one has other fields
		var v struct {
			Export struct{ Version int } `json:"sluice_export"`
		}
		if err := json.Unmarshal(b, &v); err == nil && v.Export.Version != archiveVersion {
			return nil, fmt.Errorf("%w: export of format %d, this program reads format %d", ErrVersion,
				v.Export.Version, archiveVersion)
		}
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	l := new(archiveLine)
	if err := d.Decode(l); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrArchive, err)
	}
	if rest := bytes.TrimSpace(b[d.InputOffset():]); len(rest) > 0 {
		return nil, fmt.Errorf("%w: %.60q behind the object", ErrArchive, rest)
	}
	if l.kind() < 0 {
		return nil, fmt.Errorf("%w: it has none or several of the kinds", ErrArchive)
	}
	return l, nil
}

// check looks at a line in its place.
func (a *archiveReader) check(l *archiveLine) error {
	kind := l.kind()
	if (kind == 0) != (a.last < 0) || kind < a.last {
		return fmt.Errorf("%w: it is not in its place", ErrArchive)
	}
	a.last = kind
	if a.more != "" && (l.File == nil || l.File.Name != a.more) {
		return fmt.Errorf("%w: file %q is not whole", ErrArchive, a.more)
	}
	if !a.header.Whole && (l.Meta != nil || l.File != nil) {
		return fmt.Errorf("%w: only exports of whole stores have values and files", ErrArchive)
	}
	switch {
	case l.Export != nil:
		a.header = *l.Export
		return a.header.check()
	case l.Collection != nil:
		a.counts.Collections++
		return checkCollectionName(l.Collection.Name)
	case l.Document != nil:
		a.counts.Documents++
		return l.Document.check()
	case l.Chunk != nil:
		a.counts.Chunks++
		return l.Chunk.check(a.header.Encoder.Dim)
	case l.Meta != nil:
		a.counts.Metas++
		return checkText("key", l.Meta.Key, false)
	case l.File != nil:
		a.counts.Files++
		return a.checkFile(l.File)
	}
	a.counts.SHA256 = hex.EncodeToString(a.sum.Sum(nil))
	if *l.End != a.counts {
		return fmt.Errorf("%w: its end says %+v, it has %+v: it was changed, or lines are missing", ErrArchive, *l.End,
			a.counts)
	}
	return nil
}

func (h *archiveHeader) check() error {
	if h.Version != archiveVersion {
		return fmt.Errorf("%w: format %d, this one reads %d", ErrArchive, h.Version, archiveVersion)
	}
	if id, err := hex.DecodeString(h.Store); err != nil || len(id) != 16 {
		return fmt.Errorf("%w: the store's id %.40q is not 16 bytes in hex", ErrArchive, h.Store)
	}
	return errors.Join(checkNewEncoder(&h.Encoder), checkText("date", h.Created, false))
}

func (d *archiveDocument) check() error {
	if err := checkDocument(d.document()); err != nil {
		return err
	}
	for _, f := range [...]struct{ name, value string }{{"added", d.Added}, {"path", d.Path},
		{"collection", d.Collection}} {
		if err := checkText(f.name, f.value, true); err != nil {
			return fmt.Errorf("document %q: %w", d.ID, err)
		}
	}
	if d.Chunks < 0 {
		return fmt.Errorf("%w: document %q has %d chunks", ErrArchive, d.ID, d.Chunks)
	}
	return nil
}

// document returns the document for Commit.
func (d *archiveDocument) document() *corpus.Document {
	out := &corpus.Document{ID: d.ID, Source: d.Source, Title: d.Title, Topic: d.Topic, Digest: d.Digest, Meta: d.Meta,
		Path: d.Path}
	if d.Line {
		out.Line = 1
	}
	return out
}

func (k *archiveChunk) check(dim int) error {
	if err := checkChunk(&k.Chunk); err != nil {
		return err
	}
	if digest := k.Chunk.Digest(); digest != k.SHA256 {
		return fmt.Errorf("%w: chunk %q has the SHA-256 %s, expected %.64q", ErrArchive, k.ID, digest, k.SHA256)
	}
	for _, l := range k.Labels {
		if err := errors.Join(checkText("label's kind", l.Kind, false),
			checkText("label", l.Value, false)); err != nil {
			return fmt.Errorf("chunk %q: %w", k.ID, err)
		}
	}
	if len(k.Vector) != 4*dim {
		return fmt.Errorf("%w: chunk %q has a vector of %d bytes, expected %d", ErrArchive, k.ID, len(k.Vector), 4*dim)
	}
	return checkVectors(Batch{Chunks: []corpus.Chunk{k.Chunk}, Vectors: k.vector(nil)}, dim)
}

// vector appends the chunk's vector.
func (k *archiveChunk) vector(to []float32) []float32 {
	n := len(to)
	to = append(to, make([]float32, len(k.Vector)/4)...)
	copy(bytesOf(to[n:]), k.Vector)
	return to
}

// keptName is the path, in the store's folder, of what an export has beside the documents.
var keptName = regexp.MustCompile(`^(calibration(-groups-[0-9a-f]{16})?|router)/[A-Za-z0-9][A-Za-z0-9._-]{0,199}$`)

// isKept reports whether a folder holds what an export has.
func isKept(folder string) bool { return keptName.MatchString(folder + "/x") }

// checkKept refuses names of files that an export does not have.
func checkKept(name string) error {
	if !keptName.MatchString(name) {
		return fmt.Errorf("%w: a file of the name %.80q", ErrArchive, name)
	}
	return nil
}

func (a *archiveReader) checkFile(f *archiveFile) error {
	if a.more == "" {
		a.size = 0
	}
	if a.size += int64(len(f.Data)); a.size > archiveFileMax {
		return fmt.Errorf("%w: file %q is larger than %d bytes", ErrArchive, f.Name, archiveFileMax)
	}
	if a.more = ""; f.More {
		a.more = f.Name
	}
	return checkKept(f.Name)
}

// each calls fn for every line but the first and the last.
func (a *archiveReader) each(ctx context.Context, fn func(*archiveLine) error) error {
	for {
		l, err := a.Next()
		if err == io.EOF {
			return nil
		}
		if err == nil && l.Export == nil && l.End == nil {
			if err = fn(l); err != nil {
				err = fmt.Errorf("line %d: %w", a.number, err)
			}
		}
		if err = errors.Join(err, ctx.Err()); err != nil {
			return err
		}
	}
}
