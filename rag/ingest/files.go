package ingest

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"maps"
	"os"
	"reflect"
	"slices"
	"time"

	"github.com/sluice-rag/sluice/internal/buildinfo"
	"github.com/sluice-rag/sluice/rag/corpus"
	"github.com/sluice-rag/sluice/rag/store"
)

// reading is a file that is to be read, or is being read.
type reading struct {
	file      corpus.File // Info: just before it is opened
	began     time.Time
	tries     int
	sameTime  bool              // as when its documents were read that the store has, with the same options
	documents map[string]string // that came of it: id → digest
	failed    error             // a fault of the file, or of a line of it: what else it holds is not known
	unknown   bool              // it is of a kind that is not read
	noWords   bool
	refused   bool // a document of it has an id of another source
}

// maxReads of a file that changes while it is read.
const maxReads = 3

// ErrChanging is a file that was another one after each time it was read.
var ErrChanging = errors.New("ingest: the file changes while it is read")

// files gives on the files that are to be read, with what they are just before, and looks after each one.
func (r *run) files(ctx context.Context) iter.Seq[corpus.File] {
	return func(yield func(corpus.File) bool) {
		for len(r.todo) > 0 && ctx.Err() == nil {
			next := r.todo[0]
			r.todo = r.todo[1:]
			info, err := os.Stat(next.file.Path)
			if err == nil && !info.Mode().IsRegular() {
				err = fmt.Errorf("%v is not a regular file", info.Mode().Type())
			}
			if err != nil { // it has gone since it was found
				r.skip(corpus.Skipped{Source: next.file.Path, Err: fmt.Errorf("%w: %w", corpus.ErrFormat, err)})
				continue
			}
			next.file.Info = info
			next.tries, next.began, next.documents = next.tries+1, time.Now(), map[string]string{}
			r.now = &next
			if !yield(next.file) {
				return
			}
			r.finish(r.now)
			r.now = nil
		}
	}
}

// still reports whether a file is unchanged since before it was read.
func (f *reading) still() bool {
	info, err := os.Stat(f.file.Path)
	if err != nil || info.Mode().Type() != f.file.Info.Mode().Type() {
		return false
	}
	return stateOf(info) == stateOf(f.file.Info)
}

// unread takes in what the loader leaves out.
func (r *run) unread(k corpus.Skipped) {
	if f := r.now; f != nil {
		switch {
		case errors.Is(k.Err, corpus.ErrNoWords):
			f.noWords = f.noWords || k.Source == f.file.Path
		case errors.Is(k.Err, corpus.ErrUnknown):
			f.unknown = f.unknown || k.Source == f.file.Path
		case errors.Is(k.Err, corpus.ErrDuplicate), errors.Is(k.Err, corpus.ErrHidden),
			errors.Is(k.Err, corpus.ErrIgnored), errors.Is(k.Err, corpus.ErrPictures):
		default:
			f.failed = k.Err
		}
	}
	r.skip(k)
}

// finish notes what a file was that has been read to its end, to be committed with the next documents. One that has
// changed meanwhile is read again.
func (r *run) finish(f *reading) {
	if _, isGiven := r.given[f.file.Real]; isGiven || f.unknown {
		return
	}
	if !f.still() {
		if f.tries < maxReads {
			for id := range f.documents {
				delete(r.sync.seen, id) // what it holds now will be seen again
			}
			r.todo = append(r.todo, reading{file: f.file, tries: f.tries})
			return
		}
		f.failed = fmt.Errorf("%w: %d times; the next ingest takes it", ErrChanging, maxReads)
		r.skip(corpus.Skipped{Source: f.file.Path, Err: f.failed})
	}
	r.result.Read++
	if f.failed == nil && !f.refused {
		state := stateOf(f.file.Info)
		state.Path, state.Via, state.How = f.file.Real, f.file.Via(), r.howFor(f.file)
		state.Read, state.Documents = f.began.UnixNano(), digestOfDocuments(f.documents)
		state.NoWords = f.noWords && len(f.documents) == 0
		r.pending.Files = append(r.pending.Files, state)
	}
	if r.o.Sync {
		r.synced(f)
	}
}

// stateOf returns the state of a file: all that is known without reading it.
func stateOf(info fs.FileInfo) store.FileState {
	changed, inode := systemOf(info)
	return store.FileState{Size: info.Size(), Modified: info.ModTime().UnixNano(), Changed: changed, Inode: inode}
}

// granularity is the coarsest of the times that file systems keep (FAT's).
const granularity = 2 * time.Second

// isAsRead reports whether a file is still what it was when its documents were read, going by its state: the same size,
// times and number. One that was modified when it was read, or just before by its file system's clock, or after, may
// have been written to once more within the same time: that one is not known to be the same.
func isAsRead(info fs.FileInfo, was store.FileState) bool {
	now := stateOf(info)
	return now.Size == was.Size && now.Modified == was.Modified && now.Changed == was.Changed &&
		now.Inode == was.Inode && was.Modified < was.Read-int64(granularity)
}

// digestOfDocuments returns the digest of documents' ids and digests.
func digestOfDocuments(digests map[string]string) (sum [16]byte) {
	h := sha256.New()
	for _, id := range slices.Sorted(maps.Keys(digests)) {
		fmt.Fprintf(h, "%q %q\n", id, digests[id])
	}
	return [16]byte(h.Sum(nil))
}

// howOf returns what the documents of a file depend on besides the file: the options and the program. Options that only
// select what is read or reported are left out.
func howOf(o Options, entities string, access accessRules) string {
	h := sha256.New()
	fmt.Fprintf(h, "%s\n%s\n", buildinfo.Tool(), entities)
	v := reflect.ValueOf(o)
	for i := range v.NumField() {
		switch name := v.Type().Field(i).Name; name {
		case "Clean": // by what it means
			if list, err := corpus.ParseCleaners(o.Clean); err == nil && len(list) > 0 {
				fmt.Fprintf(h, "%s=%v\n", name, list)
			}
		case "Duplicates":
			if o.Duplicates == DropDuplicates {
				fmt.Fprintf(h, "%s=%s\n", name, o.Duplicates)
			}
		case "CommitEvery", "Strict", "Files", "Replace", "Given", "Pages", "Sources", "HandedIn", "CacheDir", "Sync",
			"SyncOptions", "Access", "OCR":
		default:
			if v.Field(i).Kind() != reflect.Func {
				fmt.Fprintf(h, "%s=%#v\n", name, v.Field(i).Interface())
			}
		}
	}
	if len(access) > 0 {
		fmt.Fprintf(h, "Access=%v\n", access) // maps are printed in the order of their keys
	}
	if o.Files.Encoding != "" {
		fmt.Fprintf(h, "Encoding=%s\n", o.Files.Encoding)
	}
	if o.Files.As != "" {
		fmt.Fprintf(h, "As=%s\n", o.Files.As)
	}
	return fmt.Sprintf("%x", h.Sum(nil)[:16])
}
