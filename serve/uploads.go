package serve

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/sluice-rag/sluice"
	"github.com/sluice-rag/sluice/internal/durable"
	"github.com/sluice-rag/sluice/internal/panics"
	"github.com/sluice-rag/sluice/rag/corpus"
	"github.com/sluice-rag/sluice/rag/store"
)

// Uploads are kept in a folder of the store until their ingest has ended, so that what was acknowledged outlives the
// process:
//
//	uploads/ID/upload.json    what was handed in; written last
//	uploads/ID/0-DIGEST.md    the files, by number and content: a given name is never a path
const (
	uploadsFolder = "uploads"
	uploadFile    = "upload.json"
	uploadSchema  = 1
	maxUploads    = 1000 // files of one request
	maxNameBytes  = 200
)

// handedIn is what a request has handed in.
type handedIn struct {
	Schema  int        `json:"schema"`
	ID      string     `json:"id"`
	Created time.Time  `json:"created"`
	Files   []uploaded `json:"files"`

	dir string
}

type uploaded struct {
	File  string `json:"file"` // in the folder
	Name  string `json:"name"` // as it was given, made harmless
	Bytes int64  `json:"bytes"`
}

var plainExtension = regexp.MustCompile(`^\.[a-z0-9]{1,8}$`)

// harmless is a given name as a document may have it: its last part, whichever system it comes from, without control
// characters and not too long, its extension kept.
func harmless(name string) string {
	name = strings.ToValidUTF8(name, "")
	if i := strings.LastIndexAny(name, `/\`); i >= 0 {
		name = name[i+1:]
	}
	name = strings.TrimSpace(strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, name))
	if strings.Trim(name, ".") == "" {
		return "unnamed"
	}
	if extension := filepath.Ext(name); len(name) > maxNameBytes {
		if !plainExtension.MatchString(strings.ToLower(extension)) {
			extension = ""
		}
		cut := maxNameBytes - len(extension)
		for !utf8.RuneStart(name[cut]) {
			cut--
		}
		name = name[:cut] + extension
	}
	return name
}

// newUpload makes a folder for what a request hands in; keep or drop ends it.
func newUpload(storeDir string) (*handedIn, error) {
	u := &handedIn{Schema: uploadSchema, ID: newJobID(), Created: time.Now().UTC()}
	u.dir = filepath.Join(storeDir, uploadsFolder, u.ID)
	return u, durable.MkdirAll(u.dir)
}

// add writes a file, durably.
func (u *handedIn) add(name string, content io.Reader) (err error) {
	name = harmless(name)
	if len(u.Files) == maxUploads {
		return bad("file", "more than %d files", maxUploads)
	}
	if slices.ContainsFunc(u.Files, func(f uploaded) bool { return f.Name == name }) {
		return bad("file", "two files are named %q", name)
	}
	f, err := os.CreateTemp(u.dir, "part-*")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	digest := sha256.New()
	n, err := io.Copy(io.MultiWriter(f, digest), content)
	if err == nil {
		err = f.Sync()
	}
	if err != nil {
		return err
	}
	extension := strings.ToLower(filepath.Ext(name))
	if !plainExtension.MatchString(extension) {
		extension = ""
	}
	file := fmt.Sprintf("%d-%s%s", len(u.Files), hex.EncodeToString(digest.Sum(nil)[:12]), extension)
	u.Files = append(u.Files, uploaded{File: file, Name: name, Bytes: n})
	return os.Rename(f.Name(), filepath.Join(u.dir, file))
}

// keep makes the upload one that outlives the process.
func (u *handedIn) keep() error {
	if err := durable.SyncDir(u.dir); err != nil {
		return err
	}
	return durable.Replace(filepath.Join(u.dir, uploadFile), func(w io.Writer) error {
		return json.NewEncoder(w).Encode(u)
	})
}

func (u *handedIn) drop() error { return os.RemoveAll(u.dir) }

func (u *handedIn) names() (names []string) {
	for _, f := range u.Files {
		names = append(names, f.Name)
	}
	return names
}

// uploadsOf are those that a store's folder keeps, oldest first. What a request has not finished is removed.
func uploadsOf(storeDir string, log *slog.Logger) (list []*handedIn) {
	root := filepath.Join(storeDir, uploadsFolder)
	entries, err := os.ReadDir(root)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		log.Warn("uploads cannot be listed", "folder", root, "error", err)
	}
	for _, e := range entries {
		u := &handedIn{}
		dir := filepath.Join(root, e.Name())
		text, err := os.ReadFile(filepath.Join(dir, uploadFile))
		if errors.Is(err, os.ErrNotExist) && e.IsDir() && strings.HasPrefix(e.Name(), "job-") {
			_ = os.RemoveAll(dir) // it was never acknowledged
			continue
		}
		if err == nil {
			err = json.Unmarshal(text, u)
		}
		if err == nil && (u.Schema != uploadSchema || u.ID != e.Name()) {
			err = fmt.Errorf("schema %d, id %q", u.Schema, u.ID)
		}
		if err != nil {
			log.Warn("an upload cannot be read", "folder", dir, "error", err)
			continue
		}
		u.dir = dir
		list = append(list, u)
	}
	slices.SortFunc(list, func(a, b *handedIn) int { return a.Created.Compare(b.Created) })
	return list
}

// resume queues what an earlier process has acknowledged and not ingested.
func (s *Server) resume() {
	if s.cfg.ReadOnly {
		return
	}
	for _, b := range s.bases {
		kept := uploadsOf(b.Dir(), s.log)
		s.jobs.widen(b.Name, len(kept))
		for _, u := range kept {
			if _, err := s.ingest(b, u); err != nil {
				s.log.Warn("an upload waits for the next start", "store", b.Name, "upload", u.ID, "error", err)
			}
		}
	}
}

// ingest queues the ingest of an upload.
func (s *Server) ingest(b *base, u *handedIn) (*job, error) {
	drop := func() {
		if err := u.drop(); err != nil {
			s.log.Warn("an upload cannot be removed", "folder", u.dir, "error", err)
		}
	}
	s.jobs.yield(b.Name)
	return s.jobs.add(u.ID, jobState{Kind: "ingest", Store: b.Name, Names: u.names()},
		func(ctx context.Context, j *job) (any, error) {
			defer s.recalibrate(ctx, b)
			return u.ingest(ctx, b, j, s.cfg.Ingest, s.log)
		}, drop)
}

// errParser is what clients see of a file whose parser has panicked.
var errParser = errors.New("it cannot be read: the parser failed on it; the server's log says how")

// ingest puts an upload into its base. Messages name files as they were given.
func (u *handedIn) ingest(ctx context.Context, b *base, j *job, options sluice.IngestOptions, log *slog.Logger) (any,
	error) {
	o := options
	o.Given = map[string]string{}
	var paths, names []string
	for _, f := range u.Files {
		path := filepath.Join(u.dir, f.File)
		o.Given[path], paths = f.Name, append(paths, path)
		names = append(names, path, f.Name)
		if real, err := filepath.EvalSymlinks(path); err == nil && real != path {
			names = append(names, real, f.Name)
		}
	}
	named := strings.NewReplacer(names...)
	o.OnSkip = func(k corpus.Skipped) {
		if s := panics.Stack(k.Err); s != "" {
			log.Error("a parser panicked", "job", u.ID, "file", named.Replace(k.Source), "panic", text(k.Err),
				"stack", s)
			k.Err = errParser
		}
		j.change(func(s *jobState) {
			if len(s.Skipped) < jobsSkipped {
				s.Skipped = append(s.Skipped, jobSkip{named.Replace(k.Source), named.Replace(text(k.Err))})
			}
		})
	}
	o.OnCommit = func(ids []string) { j.change(func(s *jobState) { s.Committed += len(ids) }) }
	o.Progress = func(p sluice.IngestProgress) { j.progress("reading and embedding", p.Bytes, p.BytesTotal) }
	result, err := b.Ingest(ctx, paths, o)
	err = errors.Join(err, b.Refresh())
	if isContent(err) {
		return result,
			&requestError{Status: 400, Code: "unusable_documents", Message: named.Replace(err.Error()), cause: err}
	}
	return result, err
}

// isContent tells whether an error is of what was handed in: another try would come to the same.
func isContent(err error) bool {
	var e *requestError
	return errors.As(err, &e) || errors.Is(err, corpus.ErrNoDocument) || errors.Is(err, store.ErrConflict) ||
		errors.Is(err, store.ErrInput)
}
