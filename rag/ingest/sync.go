package ingest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/sluice-rag/sluice/rag/corpus"
	"github.com/sluice-rag/sluice/rag/knowledge"
	"github.com/sluice-rag/sluice/rag/store"
)

// SyncOptions configures Options.Sync.
type SyncOptions struct {
	Checksum bool // reads also files whose size, times and inode are unchanged
	DryRun   bool // changes nothing, but reports all changes to OnChange
	// MaxDelete 0 means DefaultMaxDelete. DeleteAll lifts the limit.
	MaxDelete float64 `key:"max_delete" bounds:"0.1,100" doc:"share of a folder's documents, in percent, that 'ingest --sync' removes at most, of a folder with 10 or more: what vanishes at once may be a disk that is not there; --delete-all removes any number"`
	DeleteAll bool
	// DeleteExcluded also removes documents whose files exist but are hidden, ignored or excluded.
	DeleteExcluded bool
	OnChange       func(Change) // called for each change of a document after it is durable
}

// The limits of what a sync removes.
const (
	DefaultMaxDelete = 50
	FewDocuments     = 10
)

// ErrVanished: the sync would remove more documents than SyncOptions allows, and removed none.
var ErrVanished = errors.New("ingest: too many documents would be removed")

// Kinds of changes.
const (
	New     = "new"
	Changed = "changed"
	Moved   = "moved"   // same content as a document whose file was deleted
	Removed = "removed" // the file was deleted or does not contain it
	Failed  = "failed"  // the file could not be read; its documents are kept
)

// Change is the effect of a sync on one document.
type Change struct {
	Kind   string `json:"change"`
	ID     string `json:"id,omitempty"`   // "" for a new document in a dry run and for an unreadable file
	From   string `json:"from,omitempty"` // the id that a moved document had
	Source string `json:"source"`
	Why    string `json:"why,omitempty"` // reason of Failed and Removed
}

// SyncResult counts the documents by kind of change.
type SyncResult struct {
	New       int `json:"new"`
	Changed   int `json:"changed"`
	Moved     int `json:"moved"`
	Removed   int `json:"removed"`
	Unchanged int `json:"unchanged"`
	Failed    int `json:"failed"`   // unreadable files, whose documents are kept
	Excluded  int `json:"excluded"` // documents kept although their files are excluded
}

// syncing is the state of a sync.
type syncing struct {
	SyncOptions
	result      *SyncResult
	roots       []string // given folders: absolute, symbolic links resolved
	collections []store.Collection
	sources     []store.DocumentInfo
	states      map[string]store.FileState
	byID        map[string]int
	byFile      map[string][]int
	archives    map[int]string // of documents in archives: the archive's file

	listed map[string]bool    // files that were found
	lost   map[int]string     // documents that have vanished, with the reason
	lostBy map[[16]byte][]int // those in lost whose files are gone, by digest
	moved  map[int]bool       // those in lost that were found under another path
	came   map[string]int     // new documents by root
	seen   map[string]bool    // ids of documents that were read
	news   map[string]Change  // by id, until the document is durable
	gone   []string           // files whose states are dropped
}

// chooseSync reads Options.Sync.
func (r *run) chooseSync() error {
	o := r.o.SyncOptions
	switch {
	case !r.o.Sync && o.DryRun:
		return fmt.Errorf("%w: a dry run is one of a sync", knowledge.ErrOption)
	case !r.o.Sync:
		return nil
	case len(r.o.Given) > 0:
		return fmt.Errorf("%w: documents that are handed in cannot be synchronised", knowledge.ErrOption)
	case o.MaxDelete < 0 || o.MaxDelete > 100:
		return fmt.Errorf("%w: at most %g %% of the documents to be removed (0 to 100)", knowledge.ErrOption,
			o.MaxDelete)
	}
	o.MaxDelete = cmp.Or(o.MaxDelete, DefaultMaxDelete)
	r.result.Sync = &SyncResult{}
	r.sync = syncing{SyncOptions: o, result: r.result.Sync, byID: map[string]int{}, byFile: map[string][]int{},
		archives: map[int]string{},
		listed:   map[string]bool{}, lost: map[int]string{}, lostBy: map[[16]byte][]int{}, moved: map[int]bool{},
		came: map[string]int{}, seen: map[string]bool{}, news: map[string]Change{}}
	return nil
}

// plan lists the files to read; without Options.Sync, all files.
func (r *run) plan(ctx context.Context, paths []string, load corpus.LoadOptions) error {
	files, err := corpus.List(ctx, paths, load)
	if err != nil {
		return err
	}
	if !r.o.Sync {
		r.todo = make([]reading, len(files))
		for i, f := range files {
			r.todo[i].file = f
		}
		return nil
	}
	s := &r.sync
	if err := s.learn(ctx, r.held, paths); err != nil {
		return err
	}
	var lenders []string
	for _, f := range files {
		s.listed[f.Real] = true
		documents := s.byFile[f.Real]
		was, known := s.states[f.Real]
		known = known && !s.Checksum && was.How == r.howFor(f) && s.holds(was, documents)
		if known && isAsRead(f.Info, was) {
			s.result.Unchanged += len(documents)
			if was.NoWords {
				r.skip(corpus.Skipped{Source: f.Path, Err: corpus.ErrNoWords})
			}
			continue
		}
		r.todo = append(r.todo, reading{file: f, sameTime: known && f.Info.ModTime().UnixNano() == was.Modified})
		for _, i := range documents {
			lenders = append(lenders, s.sources[i].ID)
		}
	}
	if err := s.findLost(ctx); err != nil {
		return err
	}
	if r.store == nil || len(r.todo) == 0 {
		return nil
	}
	for i := range s.lost {
		lenders = append(lenders, s.sources[i].ID)
	}
	return r.lend(ctx, lenders...)
}

// learn reads the documents and files that the store holds; st is nil if there is no store yet.
func (s *syncing) learn(ctx context.Context, st *store.Store, paths []string) (err error) {
	for _, p := range paths {
		if root, ok := folderOf(p); ok {
			s.roots = append(s.roots, root)
		}
	}
	if st == nil {
		return nil
	}
	if s.sources, err = st.Sources(ctx); err != nil {
		return err
	}
	for i, d := range s.sources {
		s.byID[d.ID] = i
		if d.Path == "" {
			continue
		}
		if archive := corpus.ArchiveOf(d.Path); archive != "" {
			s.archives[i] = archive
		}
		s.byFile[s.fileOf(i)] = append(s.byFile[s.fileOf(i)], i)
	}
	if s.collections, err = st.Collections(ctx); err != nil {
		return err
	}
	s.states, err = st.Files(ctx)
	return err
}

// fileOf returns the file of a document: its path, or the path of the archive that contains it.
func (s *syncing) fileOf(i int) string {
	if archive, ok := s.archives[i]; ok {
		return archive
	}
	return s.sources[i].Path
}

// holds reports whether the stored documents of a file are complete and match its recorded state.
func (s *syncing) holds(was store.FileState, documents []int) bool {
	digests := make(map[string]string, len(documents))
	for _, i := range documents {
		if s.sources[i].Partial {
			return false
		}
		digests[s.sources[i].ID] = s.sources[i].Digest
	}
	return digestOfDocuments(digests) == was.Documents
}

// meet records what kind of change a document is. The change is reported after it is durable.
func (r *run) meet(d *corpus.Document) {
	s := &r.sync
	if !r.o.Sync || s.seen[d.ID] {
		return
	}
	s.seen[d.ID] = true
	c := Change{Source: d.Source, ID: d.ID}
	i, held := s.byID[d.ID]
	switch {
	case held && s.sources[i].Digest == d.Digest:
	case held:
		c.Kind = Changed
	default:
		c.Kind = New
		if from, ok := s.cameFrom(d); ok {
			c.Kind, c.From = Moved, from
		}
		s.came[s.rootOf(r.now.file.Via())]++
	}
	s.news[d.ID] = c
}

// isThere reports whether the store holds an identical document, read from the same file with the same options and
// time. Such a document only needs to be recorded as seen.
func (r *run) isThere(d *corpus.Document) bool {
	if !r.o.Sync || !r.now.sameTime {
		return false
	}
	i, held := r.sync.byID[d.ID]
	if !held || r.sync.sources[i].Digest != d.Digest || r.sync.sources[i].Path != d.Path ||
		r.sync.sources[i].Source != d.Source {
		return false
	}
	r.now.documents[d.ID] = d.Digest
	r.meet(d)
	r.tellChanges([]*corpus.Document{d})
	return true
}

// cameFrom returns the id of a document with the same content whose file was deleted.
func (s *syncing) cameFrom(d *corpus.Document) (id string, ok bool) {
	list := s.lostBy[digestOf(d.Digest)]
	if len(list) == 0 {
		return "", false
	}
	s.lostBy[digestOf(d.Digest)] = list[1:]
	s.moved[list[0]] = true
	return s.sources[list[0]].ID, true
}

// preview reports the change of a document in a dry run.
func (r *run) preview(d *corpus.Document) {
	s := &r.sync
	switch {
	case d.Line > 0:
		if r.o.Collection != "" {
			d.ID = r.o.Collection + "/" + d.ID
		}
	default:
		name := filepath.Base(d.Folder)
		if in, rel := store.CollectionOf(s.collections, d.Path); in != nil {
			name, d.ID = in.Name, rel
		}
		if r.o.Collection != "" {
			name = r.o.Collection
		}
		d.ID = name + "/" + d.ID
		file := r.now.file.Real
		for _, i := range s.byFile[file] {
			if !s.sources[i].Line && s.sources[i].Path == d.Path {
				d.ID = s.sources[i].ID
				break
			}
		}
	}
	r.now.documents[d.ID] = d.Digest
	r.meet(d)
	r.tellChanges([]*corpus.Document{d})
}

// tellChanges reports the changes of documents that are durable.
func (r *run) tellChanges(list []*corpus.Document) {
	for _, d := range list {
		if c, ok := r.sync.news[d.ID]; ok {
			r.sync.tell(c)
			delete(r.sync.news, d.ID)
		}
	}
}

func (s *syncing) tell(c Change) {
	switch c.Kind {
	case "":
		s.result.Unchanged++
		return
	case New:
		s.result.New++
	case Changed:
		s.result.Changed++
	case Moved:
		s.result.Moved++
	case Removed:
		s.result.Removed++
	case Failed:
		s.result.Failed++
	}
	if s.OnChange != nil {
		s.OnChange(c)
	}
}

// synced processes a file that was read. Documents that it does not contain any longer are marked as vanished, unless a
// part of the file could not be read.
func (r *run) synced(f *reading) {
	s := &r.sync
	if f.failed != nil {
		s.tell(Change{Kind: Failed, Source: f.file.Path, Why: f.failed.Error()})
	}
	if f.failed != nil || f.refused {
		return
	}
	for _, i := range s.byFile[f.file.Real] {
		if _, still := f.documents[s.sources[i].ID]; !still {
			s.lost[i] = noMore
		}
	}
}
