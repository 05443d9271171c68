package store

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sluice-rag/sluice/rag/corpus"
)

// Collection is a folder that documents were ingested from. Its name begins the ids of files that were first met in it.
type Collection struct {
	Name string `json:"name"`
	Root string `json:"root"` // absolute, links followed
	Flat bool   `json:"flat"` // of single files: what lies in folders below is not of it
	no   int64
}

// Below returns the path of a file from the root with slashes, if the file is of the collection.
func (c Collection) Below(path string) (rel string, ok bool) {
	rel, err := filepath.Rel(c.Root, path)
	if err != nil || rel == "." || rel == ".." || strings.HasPrefix(rel, ".."+string(filepath.Separator)) {
		return "", false
	}
	if rel = filepath.ToSlash(rel); c.Flat && strings.Contains(rel, "/") {
		return "", false
	}
	return rel, true
}

// Sources lists where the documents are from: of each the ID, Source, Digest, Path, Line,
// Collection and Partial.
func (s *Store) Sources(ctx context.Context) (list []DocumentInfo, err error) {
	err = s.reading(ctx, func(q queryer) error {
		collections, err := s.collections(ctx, q)
		if err != nil {
			return err
		}
		var d DocumentInfo
		var at place
		to := []any{&d.ID, &d.Source, &d.Digest, &at.collection, &at.path, &d.Line, &d.Partial}
		return each(ctx, q, to, func() error {
			d.Path, d.Collection = at.absolute(collections)
			list = append(list, d)
			return nil
		}, `SELECT id, source, digest, collection, path, line, partial FROM documents ORDER BY no`)
	})
	return list, s.wrap("list sources", err)
}

// CollectionOf returns the collection with the longest root that contains path, or nil, and the slash-separated path
// relative to that root.
func CollectionOf(list []Collection, path string) (in *Collection, rel string) {
	for i := range list {
		if r, ok := list[i].Below(path); ok && (in == nil || len(list[i].Root) > len(in.Root)) {
			in, rel = &list[i], r
		}
	}
	return in, rel
}

// collectionRoot returns the current location of a root: beside the store if it was moved together with the store, or
// else its recorded location.
func (s *Store) collectionRoot(root, near string) string {
	if near == "" {
		return root
	}
	moved := filepath.Join(s.realDir(), near)
	if _, err := os.Stat(moved); err != nil && isFolder(root) {
		return root
	}
	return moved
}

func isFolder(path string) bool {
	i, err := os.Stat(path)
	return err == nil && i.IsDir()
}

// realDir returns the store's folder with links followed.
func (s *Store) realDir() string {
	if dir, err := filepath.EvalSymlinks(s.dir); err == nil {
		return dir
	}
	return s.dir
}

// near returns a root from the store's folder, if it lies below the folder that the store lies in.
func (s *Store) near(root string) string {
	dir := s.realDir()
	rel, err := filepath.Rel(dir, root)
	outside := ".." + string(filepath.Separator) + ".."
	if err != nil || filepath.Dir(dir) == string(filepath.Separator) || rel == outside ||
		strings.HasPrefix(rel, outside+string(filepath.Separator)) {
		return ""
	}
	return rel
}

func (s *Store) collections(ctx context.Context, q queryer) (list []Collection, err error) {
	var c Collection
	var near string
	err = each(ctx, q, []any{&c.no, &c.Name, &c.Root, &near, &c.Flat}, func() error {
		c.Root = s.collectionRoot(c.Root, near)
		list = append(list, c)
		return nil
	}, `SELECT no, name, root, near, flat FROM collections ORDER BY no`)
	return list, err
}

// Collections lists the collections in the order of their making.
func (s *Store) Collections(ctx context.Context) (list []Collection, err error) {
	err = s.reading(ctx, func(q queryer) (err error) {
		list, err = s.collections(ctx, q)
		return err
	})
	return list, s.wrap("list collections", err)
}

// AddCollection makes a collection of a folder, or of the files directly in it (flat), and returns it. A folder that is
// one already stays it; the folder of single files becomes one of all below it when that is asked for. Without a name
// it gets that of the folder, with the name of the folder above where another collection has it. A name that was asked
// for and is another folder's is ErrConflict; so is one that was not asked for whose folder has gone, because that may
// have moved here.
func (s *Store) AddCollection(ctx context.Context, name, root string, flat bool) (c Collection, err error) {
	if s.write == nil {
		return c, fmt.Errorf("%w: %s: open it without ReadOnly to add a collection", ErrReadOnly, s.dir)
	}
	if name != "" {
		if err := checkCollectionName(name); err != nil {
			return c, err
		}
	}
	err = s.transact(ctx, "add a collection", func(ctx context.Context, tx *change) error {
		list, err := s.collections(ctx, tx)
		if err != nil {
			return err
		}
		for _, c = range list {
			if c.Root != root {
				continue
			}
			if name != "" && name != c.Name {
				return fmt.Errorf("%w: %s is collection %q already, not %q", ErrConflict, root, c.Name, name)
			}
			if c.Flat && !flat {
				c.Flat = false
				_, err = tx.Exec(`UPDATE collections SET flat = 0 WHERE no = ?`, c.no)
			}
			return err
		}
		free, err := freeName(list, name, root)
		if err != nil {
			return err
		}
		c = Collection{Name: free, Root: root, Flat: flat}
		return tx.QueryRow(`INSERT INTO collections (name, root, near, flat) VALUES (?, ?, ?, ?) RETURNING no`, free,
			root, s.near(root), flat).Scan(&c.no)
	})
	return c, err
}

func checkCollectionName(name string) error {
	if err := checkText("collection name", name, false); err != nil {
		return err
	}
	if strings.Trim(name, " .") != name || strings.ContainsFunc(name, func(r rune) bool {
		return r < ' ' || r == 0x7f || strings.ContainsRune(`/\*?[]`, r)
	}) {
		return fmt.Errorf("%w: collection name %q: no slashes, no wildcards, no white space or dots at its ends",
			ErrInput,
			name)
	}
	return nil
}

func freeName(list []Collection, name, root string) (string, error) {
	byName := make(map[string]Collection, len(list))
	for _, c := range list {
		byName[c.Name] = c
	}
	wanted := cmp.Or(name, nameOf(root))
	other, taken := byName[wanted]
	switch {
	case !taken:
		return wanted, nil
	case name != "":
		return "",
			fmt.Errorf("%w: collection %q is %s: choose another name for %s, or, if that folder has moved here, "+
				"'sluice docs root %[2]s %[4]s'", ErrConflict, name, other.Root, root)
	case !isFolder(other.Root):
		return "",
			fmt.Errorf("%w: collection %q was %s, which is not there now: if it has moved, 'sluice docs root %[2]s "+
				"%[4]s' says so; if %[4]s is another folder, give it a name with --collection", ErrConflict, wanted,
				other.Root, root)
	}
	longer := nameOf(filepath.Dir(root)) + "-" + wanted
	for i, try := 2, longer; ; i++ {
		if _, taken := byName[try]; !taken {
			return try, nil
		}
		try = fmt.Sprintf("%s-%d", longer, i)
	}
}

// nameOf makes a collection's name of a folder's.
func nameOf(root string) string {
	name := strings.Trim(strings.Map(func(r rune) rune {
		if r <= ' ' || r == 0x7f || strings.ContainsRune(`/\*?[]`, r) {
			return '_'
		}
		return r
	}, strings.ToValidUTF8(filepath.Base(root), "_")), "_.")
	if name == "" {
		return "root"
	}
	return name
}

// MoveCollection says where a collection's folder is now, and with it those of other collections that were below and
// are not there now. Documents keep their ids. ErrNotFound when there is no such collection, ErrConflict when the
// folder is another one's.
func (s *Store) MoveCollection(ctx context.Context, name, root string) error {
	if s.write == nil {
		return fmt.Errorf("%w: %s: open it without ReadOnly to move a collection", ErrReadOnly, s.dir)
	}
	return s.transact(ctx, "move a collection", func(ctx context.Context, tx *change) error {
		list, err := s.collections(ctx, tx)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(list, func(c Collection) bool { return c.Name == name })
		if i < 0 {
			return fmt.Errorf("%w: collection %q; 'sluice docs root' lists them", ErrNotFound, name)
		}
		old := list[i]
		for _, c := range list {
			to := root
			if c.no != old.no {
				if c.Root == root {
					return fmt.Errorf("%w: %s is collection %q", ErrConflict, root, c.Name)
				}
				rel, below := Collection{Root: old.Root}.Below(c.Root)
				if to = filepath.Join(root, filepath.FromSlash(rel)); !below || isFolder(c.Root) || !isFolder(to) {
					continue
				}
			}
			if _, err := tx.Exec(`UPDATE collections SET root = ?, near = ? WHERE no = ?`, to, s.near(to),
				c.no); err != nil {
				return err
			}
		}
		return nil
	})
}

// place returns the source that a document's line names.
type place struct {
	collection int64
	path       string
	line       bool
}

// placeOf returns the place of a document whose Path is known.
func placeOf(list []Collection, d *corpus.Document) place {
	if in, rel := CollectionOf(list, d.Path); in != nil && d.Line == 0 {
		return place{in.no, rel, false}
	}
	return place{0, d.Path, d.Line > 0}
}

// absolute returns the path of a place.
func (p place) absolute(list []Collection) (path, collection string) {
	for _, c := range list {
		if c.no == p.collection {
			return filepath.Join(c.Root, filepath.FromSlash(p.path)), c.Name
		}
	}
	return p.path, ""
}

// checkPlace rejects a document whose id belongs to another source with different content, and a file that is already
// stored under another id.
func (c *commit) checkPlace(tx *sql.Tx, d *corpus.Document) error {
	if d.Path == "" {
		return nil
	}
	at := placeOf(c.collections, d)
	if !at.line {
		var other string
		err := tx.QueryRow(`SELECT id FROM documents WHERE collection = ? AND path = ? AND line = 0 AND id <> ?`,
			at.collection, at.path, d.ID).Scan(&other)
		if err == nil {
			return fmt.Errorf("%w: %s is document %q already, not %q", ErrConflict, d.Source, other, d.ID)
		}
		if !errors.Is(err, sql.ErrNoRows) {
			return err
		}
	}
	var was place
	var source, digest string
	err := tx.QueryRow(`SELECT collection, path, line, source, digest FROM documents WHERE id = ?`, d.ID).
		Scan(&was.collection, &was.path, &was.line, &source, &digest)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err != nil || digest == d.Digest || c.takes[d.ID] {
		return err
	}
	now, _ := at.absolute(c.collections)
	then, _ := was.absolute(c.collections)
	if was.path != "" && (now != then || at.line != was.line) {
		return fmt.Errorf("%w: %q is that of %s, not of %s", ErrConflict, d.ID, source, d.Source)
	}
	return nil
}
