package store

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/sluice-rag/sluice/embed/identity"
	"github.com/sluice-rag/sluice/internal/durable"
)

// RestoreOptions of Restore.
type RestoreOptions struct {
	Encoder *identity.Encoder // whose vectors they have to be, else ErrEncoder; nil accepts those of any
	Replace bool              // documents that the store has with another content become those of the export
	Shared  *Shared           // the database that keeps the store, as in Options
}

// Restored is the result of Restore.
type Restored struct {
	New      bool             `json:"new"` // the store was made
	Encoder  identity.Encoder `json:"encoder"`
	Restored int              `json:"restored"` // documents
	Chunks   int              `json:"chunks"`   // of these
	Replaced int              `json:"replaced"` // documents, of those restored, that were there with another content
	Held     int              `json:"held"`     // documents that were there already, as they are in the export
	Files    int              `json:"files"`    // of calibrations and the router
	LeftOut  int              `json:"left_out"` // such files and values: a store that is there keeps its own
}

// restoreRows are committed at once.
const restoreRows = 2048

// Restore reads an export twice: first all of it, to see that it is whole, fits together and fits the store; nothing is
// changed if not. A store that is not there is then made aside and put in its place when it is complete, with the id,
// the order of rows, the calibrations and the router of the exported one, so that it answers as that did. Into a store
// that is there the documents come one by one, each whole or not at all (one of more than restoreRows chunks is shown
// as incomplete meanwhile): what an interruption leaves is completed by another Restore. Errors: ErrArchive,
// ErrVersion, ErrEncoder, ErrConflict (the store has other content, and not Replace; or the folder holds something
// else), those of Open and Commit.
func Restore(ctx context.Context, dir string, from io.ReadSeeker, o RestoreOptions) (Restored, error) {
	return restore(ctx, dir, from, o, realSeams())
}

func restore(ctx context.Context, dir string, from io.ReadSeeker, o RestoreOptions, x seams) (_ Restored, err error) {
	if dir, err = filepath.Abs(dir); err != nil {
		return Restored{}, err
	}
	if o.Shared != nil {
		err = o.Shared.prepare(ctx, Options{})
	} else {
		err = checkFolder(dir, Options{})
	}
	r := &restorer{dir: dir, from: from, o: o, x: x}
	if r.done.New = errors.Is(err, ErrNoStore); r.done.New {
		if err = nil; o.Shared != nil {
			_, err = o.Shared.setAside() // a replica of what the database had once
		}
		if err == nil {
			err = checkVacant(dir)
		}
	}
	if err != nil {
		return Restored{}, err
	}
	if !r.done.New {
		s, err := open(ctx, dir, Options{Encoder: o.Encoder, Shared: o.Shared}, x)
		if err != nil {
			return Restored{}, err
		}
		defer s.Close()
		r.store = s
	}
	if err = r.survey(ctx); err == nil && r.done.New {
		err = r.make(ctx)
	} else if err == nil {
		err = r.merge(ctx)
	}
	if err != nil {
		return r.done, fmt.Errorf("restore into %s: %w", dir, err)
	}
	return r.done, nil
}

// checkVacant refuses a folder that holds something else than a store.
func checkVacant(dir string) error {
	switch entries, err := os.ReadDir(dir); {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("store: %w", err)
	case len(entries) > 0:
		return fmt.Errorf("%w: %s holds no store, but %q: choose another folder", ErrConflict, dir, entries[0].Name())
	}
	return nil
}

type restorer struct {
	dir   string
	from  io.ReadSeeker
	o     RestoreOptions
	x     seams
	store *Store // nil: it is made
	done  Restored

	header      archiveHeader
	collections []Collection
	documents   []*archived
	byID        map[string]*archived
	owners      map[string]*archived // of chunks, by their ids
	paths       map[string]string    // of whole files → id
	rest        int                  // values and files
}

// archived is a document of the export with where its chunks are.
type archived struct {
	archiveDocument
	chunks    []archivedChunk
	signature uint64 // of ids and texts of the chunks
}

type archivedChunk struct {
	at  int64 // byte in the file
	crc uint32
}

// signatureOf returns a chunk's part of its document's signature: the sum over all chunks does not depend on their
// order.
func signatureOf(id, digest string) uint64 {
	sum := sha256.Sum256([]byte(id + "\x00" + digest))
	return binary.LittleEndian.Uint64(sum[:])
}

// read begins to read the export anew.
func (r *restorer) read() (*archiveReader, error) {
	if _, err := r.from.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	return &archiveReader{lines: bufio.NewReaderSize(r.from, 1<<20), sum: sha256.New(), last: -1}, nil
}

// survey reads all of the export and learns what it has.
func (r *restorer) survey(ctx context.Context) error {
	a, err := r.read()
	if err != nil {
		return err
	}
	r.byID, r.owners = map[string]*archived{}, map[string]*archived{}
	r.paths = map[string]string{}
	err = a.each(ctx, func(l *archiveLine) error {
		switch {
		case l.Collection != nil:
			return r.collection(*l.Collection)
		case l.Document != nil:
			return r.document(l.Document)
		case l.Chunk != nil:
			return r.chunk(l.Chunk, a.at, a.crc)
		}
		r.rest++
		return nil
	})
	r.header, r.done.Encoder = a.header, a.header.Encoder
	if err != nil {
		return err
	}
	for _, d := range r.documents {
		if len(d.chunks) != d.Chunks {
			return fmt.Errorf("%w: document %q has %d chunks, expected %d", ErrArchive, d.ID, len(d.chunks), d.Chunks)
		}
	}
	want := r.o.Encoder
	if r.store != nil {
		want = &r.store.settings.encoder
	}
	if want != nil && !want.Same(r.header.Encoder) {
		return fmt.Errorf("%w: the export holds vectors of %s, not of %s: restore it into another folder, and use "+
			"that encoder there", ErrEncoder, r.header.Encoder, *want)
	}
	return nil
}

// collection, document and chunk check that a line of an export fits those before it.
func (r *restorer) collection(c Collection) error {
	for _, other := range r.collections {
		if other.Name == c.Name || other.Root == c.Root {
			return fmt.Errorf("%w: collections %q and %q have the same name or folder", ErrArchive, other.Name, c.Name)
		}
	}
	if !filepath.IsAbs(c.Root) {
		return fmt.Errorf("%w: the folder %q of collection %q is not absolute", ErrArchive, c.Root, c.Name)
	}
	r.collections = append(r.collections, c)
	return checkText("folder", c.Root, false)
}

func (r *restorer) document(d *archiveDocument) error {
	if r.byID[d.ID] != nil {
		return fmt.Errorf("%w: document %q is there twice", ErrArchive, d.ID)
	}
	if d.Path != "" && !d.Line {
		if other, known := r.paths[d.Path]; known {
			return fmt.Errorf("%w: documents %q and %q are of the same file", ErrArchive, other, d.ID)
		}
		r.paths[d.Path] = d.ID
	}
	x := &archived{archiveDocument: *d}
	r.byID[d.ID] = x
	r.documents = append(r.documents, x)
	return nil
}

func (r *restorer) chunk(k *archiveChunk, at int64, crc uint32) error {
	d := r.byID[k.Document]
	if d == nil {
		return fmt.Errorf("%w: chunk %q is of document %q, which it does not have", ErrArchive, k.ID, k.Document)
	}
	if r.owners[k.ID] != nil {
		return fmt.Errorf("%w: chunk %q is there twice", ErrArchive, k.ID)
	}
	r.owners[k.ID] = d
	d.chunks = append(d.chunks, archivedChunk{at, crc})
	d.signature += signatureOf(k.ID, k.SHA256)
	return nil
}

func (b *Batch) add(k *archiveChunk) {
	b.Chunks = append(b.Chunks, k.Chunk)
	b.Vectors = k.vector(b.Vectors)
	if b.Labels == nil {
		b.Labels = map[string][]Label{}
	}
	b.Labels[k.ID] = k.Labels
}

// make makes the store beside its place, and puts it there.
func (r *restorer) make(ctx context.Context) (err error) {
	parent := filepath.Dir(r.dir)
	if err := durable.MkdirAllWith(parent, r.x.fs.SyncDir); err != nil {
		return err
	}
	aside, err := os.MkdirTemp(parent, "."+filepath.Base(r.dir)+".restore-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.RemoveAll(aside) // the first error counts
		}
	}()
	if err := r.fill(ctx, aside); err != nil {
		return err
	}
	if r.o.Shared != nil {
		made, err := r.o.Shared.publish(ctx, aside)
		if err == nil && !made {
			err = fmt.Errorf("%w: another process has made the store meanwhile: repeat it", ErrConflict)
		}
		if err != nil {
			return err
		}
	}
	if err := os.Rename(aside, r.dir); err != nil {
		return err
	}
	return r.x.fs.SyncDir(parent)
}

// fill makes the store in a folder.
func (r *restorer) fill(ctx context.Context, dir string) (err error) {
	s, err := open(ctx, dir, Options{Create: true, Encoder: &r.header.Encoder, Metric: r.header.Metric,
		like: &settings{id: r.header.idOf(), created: r.header.Created}}, r.x)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }() // merges the log
	if err := r.putDocuments(ctx, s); err != nil {
		return err
	}
	a, err := r.read()
	if err != nil {
		return err
	}
	var b Batch
	commit := func() error {
		_, err := s.Commit(ctx, b)
		b = Batch{}
		return err
	}
	var file *os.File
	err = a.each(ctx, func(l *archiveLine) (err error) {
		switch {
		case l.Chunk != nil:
			if b.add(l.Chunk); len(b.Chunks) == restoreRows {
				err = commit()
			}
			r.done.Chunks++
		case l.Meta != nil:
			err = s.SetMeta(ctx, l.Meta.Key, l.Meta.Value)
		case l.File != nil:
			file, err = r.putFile(dir, file, l.File)
		}
		return err
	})
	if file != nil { // only after an error
		_ = file.Close()
	}
	if err == nil && len(b.Chunks) > 0 {
		err = commit()
	}
	r.done.Restored = len(r.documents)
	return err
}

// putDocuments writes the lines of collections and documents as they were.
func (r *restorer) putDocuments(ctx context.Context, s *Store) error {
	return s.transact(ctx, "restore documents", func(ctx context.Context, tx *change) error {
		list := make([]Collection, len(r.collections))
		for i, c := range r.collections {
			list[i] = c
			if err := tx.QueryRow(`INSERT INTO collections (name, root, near, flat) VALUES (?, ?, ?, ?) RETURNING no`,
				c.Name, c.Root, s.near(c.Root), c.Flat).Scan(&list[i].no); err != nil {
				return err
			}
		}
		put, err := tx.Prepare(`INSERT INTO documents (id, source, title, topic, digest, meta, added, collection, path,
			line, partial) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`)
		if err != nil {
			return err
		}
		defer put.Close()
		for _, d := range r.documents {
			meta, err := json.Marshal(d.Meta)
			if err != nil {
				return err
			}
			at := placeOf(list, d.document())
			if _, err := put.Exec(d.ID, d.Source, d.Title, d.Topic, d.Digest, string(meta), d.Added, at.collection,
				at.path, at.line, d.Partial); err != nil {
				return fmt.Errorf("document %q: %w", d.ID, err)
			}
			if err := ctx.Err(); err != nil {
				return err
			}
		}
		return nil
	})
}

// putFile writes a part of a file; it returns the file while more comes.
func (r *restorer) putFile(dir string, f *os.File, part *archiveFile) (_ *os.File, err error) {
	path := filepath.Join(dir, filepath.FromSlash(part.Name))
	if f == nil {
		if err := durable.MkdirAllWith(filepath.Dir(path), r.x.fs.SyncDir); err != nil {
			return nil, err
		}
		if f, err = os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL,
			durable.FileMode(filepath.Dir(path))); err != nil {
			return nil, err
		}
	}
	if _, err := f.Write(part.Data); err != nil || part.More {
		return f, err
	}
	r.done.Files++
	return nil, errors.Join(f.Sync(), f.Close(), r.x.fs.SyncDir(filepath.Dir(path)))
}

// archiveCursor reads lines of an export at their places.
type archiveCursor struct {
	from  io.ReadSeeker
	lines *bufio.Reader
	at    int64
}

// chunk reads a chunk's line again.
func (c *archiveCursor) chunk(k archivedChunk, dim int) (*archiveChunk, error) {
	if c.lines == nil || c.at != k.at {
		if _, err := c.from.Seek(k.at, io.SeekStart); err != nil {
			return nil, err
		}
		c.lines, c.at = bufio.NewReaderSize(c.from, 1<<20), k.at
	}
	b, err := c.lines.ReadBytes('\n')
	if err != nil {
		return nil, err
	}
	c.at += int64(len(b))
	if durable.Checksum(b) != k.crc {
		return nil, fmt.Errorf("%w: it was changed while it was read", ErrArchive)
	}
	l, err := parseArchiveLine(b)
	if err != nil {
		return nil, err
	}
	return l.Chunk, l.Chunk.check(dim)
}

// documentsOf reads the chunks of documents.
func (r *restorer) documentsOf(c *archiveCursor, list []*archived) (b Batch, err error) {
	b.added = map[string]string{}
	for _, d := range list {
		b.Documents = append(b.Documents, d.document())
		b.added[d.ID] = d.Added
		for _, k := range d.chunks {
			chunk, err := c.chunk(k, r.header.Encoder.Dim)
			if err != nil {
				return b, err
			}
			b.add(chunk)
		}
	}
	return b, nil
}

// idOf returns the exported store's id.
func (h *archiveHeader) idOf() (id [16]byte) {
	_, _ = hex.Decode(id[:], []byte(h.Store)) // check has seen that it is one
	return id
}
