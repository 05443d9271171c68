package serve

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/sluice-rag/sluice/internal/filelock"
	"github.com/sluice-rag/sluice/internal/testmodels/overlay"
	"github.com/sluice-rag/sluice/rag/store"
)

// restarted moves the world's base to another server, as after a stop or a kill of the first one.
func (w *world) restarted(t *testing.T) {
	t.Helper()
	w.leaveUploads()
	next, err := New(overlay.On(DefaultConfig(),
		Config{Bases: []Base{{"sea", w.sluice}}, Logger: w.cfg.Logger, Ingest: w.cfg.Ingest}))
	if err != nil {
		t.Fatal(err)
	}
	w.Server = next
	if err := next.takeUploads(next.first); err != nil {
		t.Fatal(err)
	}
}

// handIn uploads a file without ingesting it, and returns the job's id.
func (w *world) handIn(t *testing.T, name, text string) string {
	t.Helper()
	status, body := do(t, w, form(name, text))
	if status != http.StatusAccepted {
		t.Fatalf("%d %s", status, body)
	}
	return as[jobAnswer](t, body).Job.ID
}

// workOff runs the waiting jobs.
func (w *world) workOff(t *testing.T) {
	t.Helper()
	for q := w.jobs.queues["sea"]; ; {
		j := w.jobs.next(q)
		if j == nil {
			return
		}
		j.run(t.Context())
	}
}

func (w *world) job(t *testing.T, id string) jobState {
	t.Helper()
	status, body := do(t, w, get("/v1/jobs/"+id))
	if status != http.StatusOK {
		t.Fatalf("%d %s", status, body)
	}
	return as[jobState](t, body)
}

// text returns a document's text, "" if there is none.
func (w *world) text(t *testing.T, id string) string {
	t.Helper()
	status, body := do(t, w, get("/v1/documents/"+url.PathEscape(id)))
	if status == http.StatusNotFound {
		return ""
	}
	d := as[documentAnswer](t, body)
	if len(d.Chunks) != 1 {
		t.Fatalf("%d %s", status, body)
	}
	return d.Chunks[0].Text
}

func (w *world) remove(t *testing.T, id string) {
	t.Helper()
	r := get("/v1/documents/" + url.PathEscape(id))
	r.Method = http.MethodDelete
	if status, body := do(t, w, r); status != http.StatusOK {
		t.Fatalf("%d %s", status, body)
	}
}

func (w *world) folder() string { return filepath.Join(w.sluice.Store().Dir(), store.UploadsFolder) }

// TestFailedUploadIsDone checks that a failed upload is not repeated by the next start, where it would replace later
// versions.
func TestFailedUploadIsDone(t *testing.T) {
	w := newWorld(t, nil)
	w.encoder.Fail = func(texts []string) error {
		if strings.Contains(texts[0], "Version 1") {
			return &os.PathError{Op: "write", Path: filepath.Join(w.dir, "x"), Err: syscall.ENOSPC}
		}
		return nil
	}
	first := w.handIn(t, "a.md", "Version 1.")
	second := w.handIn(t, "a.md", "Version 2.")
	w.workOff(t)
	if j := w.job(t, first); j.State != jobFailed || j.Error.Code != "disk_full" ||
		strings.Contains(j.Error.Message, w.dir) {
		t.Errorf("%+v %+v", j, j.Error)
	}
	if j := w.job(t, second); j.State != jobDone {
		t.Errorf("%+v %+v", j, j.Error)
	}
	w.encoder.Fail = nil
	w.restarted(t)
	w.workOff(t)
	if got := w.text(t, "uploads/a.md"); got != "Version 2." {
		t.Errorf("the document says %q", got)
	}
	if left, _ := os.ReadDir(w.folder()); len(left) != 0 {
		t.Errorf("%d uploads are left on the disk", len(left))
	}
}

// TestResumedUploadsMayHaveBeenMade checks that an upload that fails in a second process is reported as uncertain: the
// first one may have been killed after its commit.
func TestResumedUploadsMayHaveBeenMade(t *testing.T) {
	w := newWorld(t, nil)
	id := w.handIn(t, "a.md", "Version 1.")
	w.restarted(t)
	w.encoder.Fail = func([]string) error { return syscall.ENOSPC }
	w.workOff(t)
	if j := w.job(t, id); j.State != jobFailed || j.Error.Code != outcomeUnknown {
		t.Errorf("%+v %+v", j, j.Error)
	}
}

// TestUploadsGiveWayToLaterChanges checks that an upload that is ingested late, because it waited or because its end
// was not recorded, does not overwrite later changes.
func TestUploadsGiveWayToLaterChanges(t *testing.T) {
	const id = "uploads/a.md"
	for name, c := range map[string]struct {
		change func(t *testing.T, w *world)
		want   string
	}{
		"deleted while it waits": {func(t *testing.T, w *world) {
			w.handIn(t, "a.md", "Version 1.")
			w.workOff(t)
			late := w.handIn(t, "a.md", "Version 2.")
			w.remove(t, id)
			w.workOff(t)
			if j := w.job(t, late); j.State != jobDone || len(j.Skipped) != 1 ||
				!strings.Contains(j.Skipped[0].Error, "later") {
				t.Errorf("%+v %+v", j, j.Error)
			}
		}, ""},
		"deleted while it is embedded": {func(t *testing.T, w *world) {
			w.handIn(t, "a.md", "Version 1.")
			w.workOff(t)
			w.encoder.After = func([]string) { w.encoder.After = nil; w.remove(t, id) }
			w.handIn(t, "a.md", "Version 2.")
			w.workOff(t)
		}, ""},
		"deleted, then handed in again": {func(t *testing.T, w *world) {
			w.handIn(t, "a.md", "Version 1.")
			w.workOff(t)
			w.handIn(t, "a.md", "Version 2.")
			w.remove(t, id)
			w.handIn(t, "a.md", "Version 3.")
			w.workOff(t)
		}, "Version 3."},
		"killed before the end was written down, deleted, restarted": {func(t *testing.T, w *world) {
			w.handIn(t, "a.md", "Version 1.")
			putBack := keepCopy(t, w)
			w.workOff(t)
			putBack()
			w.remove(t, id)
			w.restarted(t)
			w.workOff(t)
		}, ""},
		"the end was not written down, a later one is done": {func(t *testing.T, w *world) {
			w.handIn(t, "a.md", "Version 1.")
			putBack := keepCopy(t, w)
			w.workOff(t)
			putBack()
			w.handIn(t, "a.md", "Version 2.")
			w.workOff(t)
			w.restarted(t)
			w.workOff(t)
		}, "Version 2."},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			c.change(t, w)
			if got := w.text(t, id); got != c.want {
				t.Errorf("the document says %q, want %q", got, c.want)
			}
			if left, _ := os.ReadDir(w.folder()); len(left) != 0 {
				t.Errorf("%d uploads are left on the disk", len(left))
			}
		})
	}
}

// keepCopy copies the uploads; putBack restores them.
func keepCopy(t *testing.T, w *world) (putBack func()) {
	t.Helper()
	aside := filepath.Join(t.TempDir(), "aside")
	if err := os.CopyFS(aside, os.DirFS(w.folder())); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := os.CopyFS(w.folder(), os.DirFS(aside)); err != nil {
			t.Fatal(err)
		}
	}
}

// TestOneServerTakesUploads checks that a second server leaves the first one's partial and waiting uploads alone, and
// takes over when the first one has ended.
func TestOneServerTakesUploads(t *testing.T) {
	w := newWorld(t, nil)
	waiting := w.handIn(t, "a.md", "Version 1.")
	half, err := newUpload(w.sluice.Store().Dir())
	if err == nil {
		err = half.add("b.md", strings.NewReader("half of it"))
	}
	if err != nil {
		t.Fatal(err)
	}
	second, err := New(overlay.On(DefaultConfig(),
		Config{Bases: []Base{{"sea", w.sluice}}, Logger: w.cfg.Logger, Ingest: w.cfg.Ingest}))
	if err != nil {
		t.Fatal(err)
	}
	if err := second.takeUploads(second.first); !errors.Is(err, filelock.ErrHeld) {
		t.Fatalf("a second server: %v", err)
	}
	status, body := do(t, second, form("c.md", "Version 1."))
	if e := failure(t, body); status != http.StatusConflict || e.Code != "other_server" ||
		strings.Contains(body, w.dir) {
		t.Errorf("%d %s", status, body)
	}
	if left, _ := os.ReadDir(w.folder()); len(left) != 2 {
		t.Errorf("%d uploads are on the disk, want 2", len(left))
	}
	if _, body := do(t, second, get("/v1/jobs")); strings.Contains(body, waiting) {
		t.Errorf("the second server repeats the queue: %s", body)
	}
	ctx, cancel := context.WithCancel(t.Context())
	taken := make(chan struct{})
	go func() { second.waitForUploads(ctx, second.first); close(taken) }()
	w.leaveUploads()
	<-taken
	cancel()
	w.Server = second
	w.workOff(t)
	if got := w.text(t, "uploads/a.md"); got != "Version 1." {
		t.Errorf("the document says %q", got)
	}
	if left, _ := os.ReadDir(w.folder()); len(left) != 0 {
		t.Errorf("%d uploads are left on the disk", len(left))
	}
}

// TestTheEndOfTheServerIsNoFailure checks that the next start continues a job after any error caused by the shutdown,
// and that a client's cancellation is final.
func TestTheEndOfTheServerIsNoFailure(t *testing.T) {
	w := newWorld(t, nil)
	for _, c := range []struct {
		stop  func(cancel func(), id string)
		state string
		left  int
	}{
		{func(cancel func(), _ string) { cancel() }, jobQueued, 1},
		{func(cancel func(), id string) {
			r := get("/v1/jobs/" + id)
			r.Method = http.MethodDelete
			do(t, w, r)
			cancel()
		}, jobCancelled, 0},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		id := w.handIn(t, "a.md", "About ropes.")
		w.encoder.Fail = func([]string) error {
			c.stop(cancel, id)
			return fmt.Errorf("embed: %w", store.ErrClosed)
		}
		w.jobs.next(w.jobs.queues["sea"]).run(ctx)
		cancel()
		left, _ := os.ReadDir(w.folder())
		if j := w.job(t, id); j.State != c.state || len(left) != c.left {
			t.Errorf("%s, %d uploads on the disk, want %s and %d", j.State, len(left), c.state, c.left)
		}
		if err := os.RemoveAll(w.folder()); err != nil {
			t.Fatal(err)
		}
	}
}

// TestUploadsOfPackedFiles checks that packed files that 'sluice ingest' reads can be uploaded: the second last ending
// tells their type.
func TestUploadsOfPackedFiles(t *testing.T) {
	gz := func(text string) string {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		if _, err := z.Write([]byte(text)); err != nil || z.Close() != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	var tarred bytes.Buffer
	a := tar.NewWriter(&tarred)
	const note = "# Fog\n\nThe horn sounds."
	if err := a.WriteHeader(&tar.Header{Name: "sea/fog.md", Mode: 0o600, Size: int64(len(note))}); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Write([]byte(note)); err != nil || a.Close() != nil {
		t.Fatal(err)
	}
	bz2, err := hex.DecodeString(bzip2Words)
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, nil)
	working(t, w)
	for _, c := range []struct{ name, content, id, title string }{
		{"a.md.gz", gz("Low water at noon."), "uploads/a.md.gz/a.md", "a"},
		{"b.tar.gz", gz(tarred.String()), "uploads/b.tar.gz/sea/fog.md", "Fog"},
		{"B.TGZ", gz(tarred.String()), "uploads/B.TGZ/sea/fog.md", "Fog"},
		{"c.tar", tarred.String(), "uploads/c.tar/sea/fog.md", "Fog"},
		{"notes.2024.txt.bz2", string(bz2), "uploads/notes.2024.txt.bz2/notes.2024.txt", "notes.2024"},
		{"e.tar.gz.gz", gz(gz(tarred.String())), "uploads/e.tar.gz.gz/e.tar.gz/sea/fog.md", "Fog"},
		{"v1.2.md", "Anchors hold.", "uploads/v1.2.md", "v1.2"},
		{"code.d.ts", "export const a: number\n", "uploads/code.d.ts", "code.d.ts"},
	} {
		j := ended(t, w, form(c.name, c.content))
		status, body := do(t, w, get("/v1/documents/"+url.PathEscape(c.id)))
		if j.State != jobDone || status != http.StatusOK {
			t.Errorf("%s: %+v %v; %d", c.name, j, j.Error, status)
			continue
		}
		if d := as[documentAnswer](t, body).Document; d.Title != c.title || d.Source != c.id {
			t.Errorf("%s: %+v", c.name, d)
		}
	}
	j := ended(t, w, form("bad.png.gz", gz("\x89PNG")))
	if said := fmt.Sprint(j.Skipped, j.Error.Message); j.State != jobFailed || strings.Contains(said, w.dir) ||
		!strings.Contains(said, "bad.png.gz/bad.png") {
		t.Errorf("%+v %v", j, j.Error)
	}
}

// bzip2Words is "Words about ropes.\n" as Python's bz2 packs it.
const bzip2Words = "425a683931415926535907fd98d600000253800010400100803600de0020002208f5341bd4840000c51195211ce8d345af8bb9229c284803fecc6b00"

// TestFilesAreTheOwnersAlone checks that only the owner can read the files that a server keeps, like the store's own
// files.
func TestFilesAreTheOwnersAlone(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0))
	w := newWorld(t, nil)
	w.handIn(t, "a.md", "About ropes.")
	seen := 0
	err := filepath.WalkDir(w.sluice.Store().Dir(), func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s: %v", path, info.Mode())
		}
		seen++
		return err
	})
	if err != nil || seen < 15 {
		t.Errorf("%d files and folders, %v", seen, err)
	}
}

// TestJobsEndAfterTheirFiles checks that a job's files are removed before clients can see that it has failed: a server
// that is killed in between would repeat it.
func TestJobsEndAfterTheirFiles(t *testing.T) {
	js := newJobs(map[string]*base{"sea": nil}, nil, slog.New(slog.DiscardHandler))
	j := &job{work: func(context.Context, *job) (any, error) { return nil, errors.New("no") }}
	calls := 0
	j.kept = func() {
		if s, _ := j.look(); s.over() {
			t.Errorf("the job is %s while its files are there", s.State)
		}
		calls++
	}
	js.put(newJobID(), jobState{Store: "sea"}, j)
	j.run(t.Context())
	if s, _ := j.look(); s.State != jobFailed || calls != 1 {
		t.Errorf("%+v, files removed %d times", s, calls)
	}
}
