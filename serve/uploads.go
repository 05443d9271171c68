package serve

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/sluice-rag/sluice/internal/durable"
	"github.com/sluice-rag/sluice/internal/filelock"
	"github.com/sluice-rag/sluice/internal/panics"
	"github.com/sluice-rag/sluice/rag/corpus"
	"github.com/sluice-rag/sluice/rag/ingest"
	"github.com/sluice-rag/sluice/rag/store"
)

// Uploads are kept in a folder of the store until their ingest has ended, so that acknowledged uploads survive the
// process:
//
//	uploads/ID/upload.json    what was handed in; written last
//	uploads/ID/0-DIGEST.md    the files, by number and content: a given name is never a path
const (
	uploadFile   = "upload.json"
	uploadSchema = 1
	maxUploads   = 1000 // files of one request
	maxNameBytes = 200

	uploadsInterval = time.Second // between two attempts to take over the uploads from another server
)

type handedIn struct {
	Schema int        `json:"schema"`
	ID     string     `json:"id"`
	Files  []uploaded `json:"files"`
	// Moment of the acknowledgement.
	Moment store.Moment `json:"moment"`

	dir string
}

type uploaded struct {
	File  string `json:"file"` // in the folder
	Name  string `json:"name"` // the given name, sanitised
	Bytes int64  `json:"bytes"`
}

// extensions matches the endings that identify a file's type; packed files have several, such as "notes.tar.gz".
var extensions = regexp.MustCompile(`(?i)(?:\.[a-z0-9]{1,10}){1,3}$`)

// harmless returns a given name sanitised for a document: its last part on any system, without control characters,
// shortened if necessary, with its extension.
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
	if extension := extensions.FindString(name); len(name) > maxNameBytes {
		cut := maxNameBytes - len(extension)
		for !utf8.RuneStart(name[cut]) {
			cut--
		}
		name = name[:cut] + extension
	}
	return name
}

// newUpload makes a folder for an upload; keep or drop ends it.
func newUpload(storeDir string) (*handedIn, error) {
	u := &handedIn{Schema: uploadSchema, ID: newJobID()}
	u.dir = filepath.Join(storeDir, store.UploadsFolder, u.ID)
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
	digest, from := sha256.New(), &sender{r: content}
	n, err := io.Copy(io.MultiWriter(f, digest), from)
	switch {
	case from.err != nil:
		return asFormError(from.err)
	case err == nil:
		err = f.Sync()
	}
	if err != nil {
		return err
	}
	extension := strings.ToLower(extensions.FindString(name))
	file := fmt.Sprintf("%d-%s%s", len(u.Files), hex.EncodeToString(digest.Sum(nil)[:12]), extension)
	u.Files = append(u.Files, uploaded{File: file, Name: name, Bytes: n})
	return os.Rename(f.Name(), filepath.Join(u.dir, file))
}

// sender separates the error of receiving, which is the client's, from the disk's.
type sender struct {
	r   io.Reader
	err error
}

func (s *sender) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	if err != io.EOF { //nolint:errorlint // readers return it as it is
		s.err = err
	}
	return n, err
}

// keep makes the upload durable.
func (u *handedIn) keep() error {
	if err := durable.SyncDir(u.dir); err != nil {
		return err
	}
	return durable.Replace(filepath.Join(u.dir, uploadFile), func(w io.Writer) error {
		return json.NewEncoder(w).Encode(u)
	})
}

// drop removes the upload, its acknowledgement durably, so that the next start does not repeat it.
func (u *handedIn) drop() error {
	err := os.Remove(filepath.Join(u.dir, uploadFile))
	if err == nil {
		err = durable.SyncDir(u.dir)
	}
	if errors.Is(err, os.ErrNotExist) { // it was never kept
		err = nil
	}
	return errors.Join(err, os.RemoveAll(u.dir))
}

func (u *handedIn) names() (names []string) {
	for _, f := range u.Files {
		names = append(names, f.Name)
	}
	return names
}

// uploadsOf returns the uploads in a store's folder, oldest first. Unfinished ones are removed.
func uploadsOf(storeDir string, log *slog.Logger) (list []*handedIn) {
	root := filepath.Join(storeDir, store.UploadsFolder)
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
	slices.SortFunc(list, func(a, b *handedIn) int {
		x, y := a.Moment, b.Moment
		return cmp.Or(cmp.Compare(x.Generation, y.Generation), cmp.Compare(x.Place, y.Place))
	})
	return list
}

// intake is the state of taking a base's uploads: only one server at a time holds the lock.
type intake struct {
	mu    sync.Mutex
	lock  *filelock.Lock // nil: this server does not take them, or not yet
	place int64          // of the latest upload
}

// takeUploads makes this server take the uploads of a base, and queues what an earlier one has acknowledged and not
// ingested. The error is a *filelock.HeldError if another server takes them.
func (s *Server) takeUploads(b *base) error {
	in := &b.intake
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.lock != nil {
		return nil
	}
	lock, err := filelock.Take(filepath.Join(b.Store().Dir(), store.UploadsFolder))
	if err != nil {
		return err
	}
	in.lock = lock
	for _, u := range uploadsOf(b.Store().Dir(), s.log) {
		in.place = max(in.place, u.Moment.Place)
		s.ingest(b, u, true)
	}
	return nil
}

// waitForUploads calls takeUploads as soon as no other server takes the base's uploads.
func (s *Server) waitForUploads(ctx context.Context, b *base) {
	said := false
	for {
		err := s.takeUploads(b)
		if err == nil {
			return
		}
		if !said && !errors.Is(err, os.ErrNotExist) { // the first upload makes the folder
			said = true
			s.log.Warn("this server cannot take uploads of a knowledge base yet", "store", b.Name, "because", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(uploadsInterval):
		}
	}
}

// leaveUploads releases the locks, so that other servers can take the uploads.
func (s *Server) leaveUploads() {
	for _, b := range s.bases {
		b.intake.mu.Lock()
		if err := b.intake.lock.Release(); err != nil {
			s.log.Warn("the lock of uploads cannot be let go", "store", b.Name, "error", err)
		}
		b.intake.lock = nil
		b.intake.mu.Unlock()
	}
}

// mayUpload returns an error unless this server takes the uploads of a base.
func (s *Server) mayUpload(b *base) error {
	if err := durable.MkdirPrivate(b.Store().Dir(), durable.SyncDir); err != nil {
		return err
	}
	err := s.takeUploads(b)
	if _, ok := errors.AsType[*filelock.HeldError](err); ok {
		return &requestError{Status: http.StatusConflict, Code: "other_server", cause: err,
			Message: "another server takes the documents of this knowledge base",
			Hint:    "send them there; this one takes them when that one has ended"}
	}
	return err
}

// accept makes an upload durable and queues its ingest, which acknowledges it.
func (s *Server) accept(ctx context.Context, b *base, u *handedIn) (*job, error) {
	if err := s.jobs.hasRoom(b.Name); err != nil {
		return nil, err
	}
	b.intake.mu.Lock()
	now, err := b.Store().Moment(ctx)
	if err == nil {
		b.intake.place++
		now.Place = b.intake.place
		u.Moment = now
	}
	b.intake.mu.Unlock()
	if err == nil {
		err = u.keep()
	}
	if err != nil {
		return nil, err
	}
	return s.ingest(b, u, false), nil
}

// ingest queues the ingest of an upload that this process or an earlier one has kept.
func (s *Server) ingest(b *base, u *handedIn, resumed bool) *job {
	done := func() {
		if err := u.drop(); err != nil {
			s.log.Error("an upload that is done cannot be removed", "folder", u.dir, "error", err)
			return
		}
		if err := b.Store().ForgetOrder(context.Background()); err != nil {
			s.log.Warn("the order of changes is kept", "store", b.Name, "error", err)
		}
	}
	work := func(ctx context.Context, j *job) (any, error) {
		defer s.recalibrate(ctx, b)
		result, err := u.ingest(ctx, b, j, s.cfg.Ingest, s.log)
		if err != nil && resumed && !isContent(err) { // the earlier process may have been killed after its commit
			err = fmt.Errorf("%w: %w", store.ErrUncertain, err)
		}
		return result, err
	}
	s.jobs.yield(b.Name)
	return s.jobs.put(u.ID, jobState{Kind: "ingest", Store: b.Name, Names: u.names()},
		&job{work: work, kept: done, resumed: resumed})
}

// errParser is shown to clients for a file whose parser has panicked.
var errParser = errors.New("it cannot be read: the parser failed on it; the server's log says how")

// ingest ingests an upload into its base. Messages have the given names of files.
func (u *handedIn) ingest(ctx context.Context, b *base, j *job, options ingest.Options, log *slog.Logger) (any, error) {
	o := options
	o.Given, o.HandedIn = map[string]string{}, &u.Moment
	var paths, names []string
	for _, f := range u.Files {
		path := filepath.Join(u.dir, f.File)
		o.Given[path], paths = f.Name, append(paths, path)
		names = append(names, unpackedName(path), unpackedName(f.Name), path, f.Name)
		if real, err := filepath.EvalSymlinks(path); err == nil && real != path {
			names = append(names, unpackedName(real), unpackedName(f.Name), real, f.Name)
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
	o.Progress = func(p ingest.Progress) { j.progress("reading and embedding", p.Bytes, p.BytesTotal) }
	result, err := b.Ingest(ctx, paths, o)
	err = errors.Join(err, b.Store().Refresh())
	if isContent(err) {
		return result,
			&requestError{Status: 400, Code: "unusable_documents", Message: named.Replace(err.Error()), cause: err}
	}
	return result, err
}

// unpackedName returns the name of a file that was packed by itself: "notes.md.gz/notes.md".
func unpackedName(path string) string {
	base := filepath.Base(path)
	return path + "/" + strings.TrimSuffix(base, filepath.Ext(base))
}

// isContent reports whether an error is caused by the uploaded content, so that another attempt would also fail.
func isContent(err error) bool {
	var e *requestError
	return errors.As(err, &e) || errors.Is(err, corpus.ErrNoDocument) || errors.Is(err, store.ErrConflict) ||
		errors.Is(err, store.ErrInput)
}
