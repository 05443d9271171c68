package ingest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"syscall"

	"github.com/sluice-rag/sluice/rag/corpus"
	"github.com/sluice-rag/sluice/rag/store"
)

// folderOf returns a folder that was given, absolute and with links followed.
func folderOf(path string) (folder string, ok bool) {
	info, err := os.Stat(path)
	if err != nil || !info.IsDir() {
		return "", false
	}
	folder, err = corpus.RealPath(path)
	return folder, err == nil
}

// rootOf returns the longest of the folders that were given which a path is below, "" without one.
func (s *syncing) rootOf(path string) (root string) {
	for _, r := range s.roots {
		if len(r) > len(root) && within(r, path) {
			root = r
		}
	}
	return root
}

// placeOf returns the root of a document, and the path whose going makes it vanish: that of its file, or that of the
// link by which a file was reached that lies in no collection.
func (s *syncing) placeOf(i int) (root, path string) {
	file := s.fileOf(i)
	if file == "" {
		return "", ""
	}
	if root = s.rootOf(file); root != "" {
		return root, file
	}
	via := s.states[file].Via
	if via == "" {
		return "", ""
	}
	if in, _ := store.CollectionOf(s.collections, file); in != nil {
		return "", ""
	}
	return s.rootOf(via), via
}

// findLost finds the documents below the roots whose files no longer exist. Each is checked by itself: a file that a
// walk did not find may still exist.
func (s *syncing) findLost(ctx context.Context) error {
	for i, d := range s.sources {
		if s.listed[s.fileOf(i)] {
			continue
		}
		root, path := s.placeOf(i)
		if root == "" {
			continue
		}
		switch why, there := whyGone(path); {
		case why != "":
			s.lost[i] = why
			digest := digestOf(d.Digest)
			s.lostBy[digest] = append(s.lostBy[digest], i)
		case there && s.DeleteExcluded:
			s.lost[i] = leftOut
		case there:
			s.result.Excluded++
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	for path := range s.states {
		if s.listed[path] || s.rootOf(path) == "" {
			continue
		}
		if why, _ := whyGone(path); why != "" {
			s.gone = append(s.gone, path)
		}
	}
	return nil
}

// Reasons why a document has vanished, besides those of whyGone.
const (
	leftOut = "the file is left out"
	noMore  = "its file holds it no more"
)

// whyGone returns in what way a file has gone, "" if it has not or that is not known; there is set if it is there.
func whyGone(path string) (why string, there bool) {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR): // a file where a folder of its path was
		return "the file has gone", false
	case err != nil:
		return "", false
	case info.Mode()&fs.ModeSymlink != 0:
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			return "the link leads nowhere", false
		}
	case !info.Mode().IsRegular():
		return "there is no regular file any more", false
	}
	return "", true
}

// isThere reports whether a folder can be read.
func isThere(folder string) bool {
	f, err := os.Open(folder)
	if err != nil {
		return false
	}
	defer f.Close()
	_, err = f.Readdirnames(1)
	return err == nil || errors.Is(err, io.EOF)
}

// checkLimit refuses to remove what looks like a disk that is not there.
func (s *syncing) checkLimit() error {
	if s.DeleteAll || len(s.lost) == 0 {
		return nil
	}
	all, lost, moved := map[string]int{}, map[string]int{}, map[string]int{}
	for i := range s.sources {
		root, _ := s.placeOf(i)
		if root == "" {
			continue
		}
		all[root]++
		if _, isLost := s.lost[i]; isLost && s.moved[i] {
			moved[root]++
		} else if isLost {
			lost[root]++
		}
	}
	for _, root := range s.roots {
		n, of := lost[root], all[root]
		switch {
		case n == 0 || of < 2:
		case n+moved[root] == of && s.came[root] == 0:
			return fmt.Errorf("%w: all %d documents of %s, which holds nothing else to be read: is a disk missing? "+
				"--delete-all removes them", ErrVanished, of, root)
		case of >= FewDocuments && 100*float64(n) > s.MaxDelete*float64(of):
			return fmt.Errorf("%w: %d of the %d documents of %s, which is %.3g %%, and at most %g %% may be "+
				"(ingest.max_delete): is a disk missing? --delete-all removes them", ErrVanished, n, of, root,
				100*float64(n)/float64(of), s.MaxDelete)
		}
	}
	return nil
}

// deleteGroup documents are removed at a time.
const deleteGroup = 256

// remove deletes the documents that have vanished, if they and their files still are as they were found.
func (r *run) remove(ctx context.Context) error {
	s := &r.sync
	roots := map[string]bool{}
	for _, root := range s.roots {
		roots[root] = isThere(root)
	}
	maps.DeleteFunc(s.lost, func(i int, why string) bool { return !s.isStillLost(i, why, roots) })
	if err := s.checkLimit(); err != nil {
		return err
	}
	for group := range slices.Chunk(slices.Sorted(maps.Keys(s.lost)), deleteGroup) {
		list := make([]store.DocumentInfo, len(group))
		for k, i := range group {
			list[k] = s.sources[i]
		}
		if err := r.removeGroup(ctx, group, list); err != nil {
			return err
		}
	}
	if s.DryRun || r.store == nil {
		return nil
	}
	return r.store.PutFiles(ctx, nil, s.gone)
}

// isStillLost reports whether a document that has vanished has not come again, in another file or in its place.
func (s *syncing) isStillLost(i int, why string, isThere map[string]bool) bool {
	root, path := s.placeOf(i)
	switch {
	case s.seen[s.sources[i].ID]:
		return false
	case why == noMore:
		return true
	case !isThere[root]:
		return false
	}
	now, there := whyGone(path)
	return now != "" || there && why == leftOut
}

// removeGroup deletes documents in one transaction, and reports those that it has deleted.
func (r *run) removeGroup(ctx context.Context, places []int, list []store.DocumentInfo) error {
	s := &r.sync
	done := map[string]bool{}
	if !s.DryRun {
		ids, _, err := r.store.DeleteUnchanged(ctx, list)
		if err != nil {
			return err
		}
		for _, id := range ids {
			done[id] = true
		}
	}
	for k, i := range places {
		if d := list[k]; (s.DryRun || done[d.ID]) && !s.moved[i] {
			s.tell(Change{Kind: Removed, ID: d.ID, Source: d.Source, Why: s.lost[i]})
		}
	}
	return nil
}
