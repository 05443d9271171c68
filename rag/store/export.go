package store

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/sluice-rag/sluice/rag/corpus"
)

// ExportOptions of Export.
type ExportOptions struct {
	Documents []string // ids; nil: the whole store
	Files     []string // that go with a whole store: names below its folder, FOLDER/NAME of calibrations and routers
}

// Exported describes an export.
type Exported struct {
	Collections int    `json:"collections"`
	Documents   int    `json:"documents"`
	Chunks      int    `json:"chunks"`
	Files       int    `json:"files"`
	Bytes       int64  `json:"bytes"`
	SHA256      string `json:"sha256"` // of all lines but the last, which has it
}

// Export writes documents with all that belongs to them, or the whole store, as docs/store.md has it. It is one state
// of the store, whoever writes meanwhile. What is damaged is not exported: the error is a BlockError or a TextError,
// which says how it is repaired. An unknown document is ErrNotFound.
func (s *Store) Export(ctx context.Context, to io.Writer, o ExportOptions) (done Exported, err error) {
	v, err := s.View(ctx)
	if err != nil {
		return done, err
	}
	defer func() { err = errors.Join(err, v.Close()) }()
	if v.Damage != nil {
		return done, s.wrap("export", v.Damage.Blocks[0])
	}
	e := &exporter{store: s, view: v, to: to, sum: sha256.New(), where: `true`}
	if o.Documents != nil {
		e.where, e.args = `d.id IN (SELECT value FROM json_each(?))`, []any{jsonList(o.Documents)}
	}
	e.line(archiveLine{Export: &archiveHeader{Version: archiveVersion, Store: hex.EncodeToString(s.settings.id[:]),
		Created: s.settings.created, Encoder: s.settings.encoder, Metric: s.settings.metric,
		Whole: o.Documents == nil}})
	err = e.documents(ctx, o.Documents)
	if err == nil {
		err = e.chunks(ctx)
	}
	if err == nil && o.Documents == nil {
		err = e.rest(ctx, o.Files)
	}
	if err != nil {
		return done, s.wrap("export", err)
	}
	done = Exported{e.counts.Collections, e.counts.Documents, e.counts.Chunks, e.files, 0,
		hex.EncodeToString(e.sum.Sum(nil))}
	e.counts.SHA256 = done.SHA256
	err = e.line(archiveLine{End: &e.counts})
	done.Bytes = e.bytes
	return done, s.wrap("export", err)
}

type exporter struct {
	store  *Store
	view   *View
	to     io.Writer
	sum    hash.Hash
	where  string // on documents as d
	args   []any
	counts archiveEnd
	files  int
	bytes  int64
	failed error // of a write
}

// line writes a line, if all before it were written.
func (e *exporter) line(l archiveLine) error {
	if e.failed != nil {
		return e.failed
	}
	b, err := json.Marshal(l)
	if err == nil {
		b = append(b, '\n')
		if l.End == nil {
			e.sum.Write(b)
		}
		_, err = e.to.Write(b)
		e.bytes += int64(len(b))
	}
	e.failed = err
	return err
}

// documents writes the collections and documents. wanted are ids, of which each must be there.
func (e *exporter) documents(ctx context.Context, wanted []string) error {
	collections, err := e.store.collections(ctx, e.view.texts.tx)
	if err != nil {
		return err
	}
	docs, err := documentsIn(ctx, e.view.texts.tx, collections, e.where, e.args...)
	if err != nil {
		return err
	}
	found, used := map[string]bool{}, map[string]bool{}
	for _, d := range docs {
		found[d.ID], used[d.Collection] = true, true
	}
	for _, id := range wanted {
		if !found[id] {
			return fmt.Errorf("%w: document %q", ErrNotFound, id)
		}
	}
	for i, c := range collections {
		if wanted == nil || used[c.Name] {
			e.counts.Collections++
			if err := e.line(archiveLine{Collection: &collections[i]}); err != nil {
				return err
			}
		}
	}
	for _, d := range docs {
		e.counts.Documents++
		if err := e.line(archiveLine{Document: &archiveDocument{d.ID, d.Source, d.Title, d.Topic, d.Digest, d.Meta,
			d.Added, d.Path, d.Line, d.Collection, d.Partial, d.Chunks}}); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// chunks writes the chunks in the order of their rows.
func (e *exporter) chunks(ctx context.Context) error {
	v := e.view
	dim := v.Vectors.Dim
	var k corpus.Chunk
	var digest sql.RawBytes
	var row int64
	var labels string
	return each(ctx, v.texts.tx, chunkTargets(&k, &digest, &row, &labels), func() error {
		if err := checkTextOf(&k, digest); err != nil {
			return err
		}
		i, ok := v.index(row)
		if !ok || v.IDs[i] != k.ID {
			return fmt.Errorf("%w: chunk %q has row %d, which is another one's", ErrCorrupt, k.ID, row)
		}
		line := archiveChunk{Chunk: k, SHA256: hex.EncodeToString(digest),
			Vector: bytesOf(v.Vectors.Data[i*dim : (i+1)*dim])}
		if labels != "[]" {
			if err := json.Unmarshal([]byte(labels), &line.Labels); err != nil {
				return err
			}
		}
		e.counts.Chunks++
		return e.line(archiveLine{Chunk: &line})
	}, `SELECT `+chunkColumns+`, c.digest, c.row, (SELECT json_group_array(json_object('kind', l.kind, 'value', l.value))
			FROM (SELECT kind, value FROM labels WHERE row = c.row ORDER BY kind, value) AS l)
		FROM `+chunkTables+` WHERE `+e.where+` ORDER BY c.row`, e.args...)
}

// rest writes the small values, and the files as far as they are there.
func (e *exporter) rest(ctx context.Context, files []string) error {
	var m archiveMeta
	err := each(ctx, e.view.texts.tx, []any{&m.Key, &m.Value}, func() error {
		e.counts.Metas++
		return e.line(archiveLine{Meta: &m})
	}, `SELECT key, value FROM meta ORDER BY key`)
	for _, name := range files {
		if err = errors.Join(err, ctx.Err(), checkKept(name)); err != nil {
			return err
		}
		var b []byte
		b, err = os.ReadFile(filepath.Join(e.store.dir, filepath.FromSlash(name)))
		if errors.Is(err, fs.ErrNotExist) { // removed meanwhile
			err = nil
			continue
		}
		if len(b) > archiveFileMax {
			err = fmt.Errorf("%w: %s has more than %d bytes", ErrInput, name, archiveFileMax)
		}
		if err != nil {
			return err
		}
		e.files++
		for more := true; more; {
			part := b[:min(len(b), archiveFilePart)]
			b = b[len(part):]
			more = len(b) > 0
			e.counts.Files++
			if err = e.line(archiveLine{File: &archiveFile{name, part, more}}); err != nil {
				return err
			}
		}
	}
	return err
}
