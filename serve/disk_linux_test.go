package serve

import (
	"bytes"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sluice-rag/sluice/internal/testmodels/overlay"
	"github.com/sluice-rag/sluice/rag/ingest"
)

// TestStoreThatCannotBeWritten checks that on a full or read-only file system a change is a 507 or 403 without a path
// of the server, and that questions are answered.
func TestStoreThatCannotBeWritten(t *testing.T) {
	w := newWorld(t, nil)
	mount := t.TempDir()
	if err := unix.Mount("tmpfs", mount, "tmpfs", 0, "size=8m"); err != nil {
		t.Skipf("mounting a tmpfs needs root: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(mount, unix.MNT_DETACH) })
	store := filepath.Join(mount, "store")
	open := func() {
		base := w.sluice.With(store)
		next, err := New(overlay.On(DefaultConfig(), Config{Bases: []Base{{"sea", base}}, Logger: w.cfg.Logger,
			Ingest: ingest.Options{Chunk: "32/0"}}))
		if err != nil {
			t.Fatal(err)
		}
		w.Server = next
		t.Cleanup(func() { next.leaveUploads(); _ = base.Close() })
	}
	open()
	w.handIn(t, "a.md", "About ropes.")
	w.workOff(t)
	remove := get("/v1/documents/uploads%2Fa.md")
	remove.Method = http.MethodDelete
	refused := func(state string, status int, code string, requests ...*http.Request) {
		t.Helper()
		for _, r := range requests {
			got, body := do(t, w, r)
			if e := failure(t, body); got != status || e.Code != code || strings.Contains(body, mount) {
				t.Errorf("%s: %s %s: %d %s", state, r.Method, r.URL.Path, got, body)
			}
		}
		if got := w.text(t, "uploads/a.md"); got != "About ropes." {
			t.Errorf("%s: the document says %q", state, got)
		}
	}
	filler := filepath.Join(mount, "filler")
	_ = os.WriteFile(filler, bytes.Repeat([]byte{1}, 9<<20), 0o600) // stops when the disk is full
	refused("full", http.StatusInsufficientStorage, "disk_full", form("b.md", strings.Repeat("About ropes. ", 1000)),
		post("/v1/documents", `{"text":"`+strings.Repeat("About ropes. ", 1000)+`"}`))
	if left, _ := os.ReadDir(filepath.Join(store, "uploads")); len(left) != 0 {
		t.Errorf("%d uploads are left on the full disk", len(left))
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	w.leaveUploads()
	if err := w.first.Close(); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("", mount, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	open()
	refused("read-only", http.StatusForbidden, "store_read_only", form("b.md", "About ropes."), remove,
		post("/v1/documents", `{"text":"About ropes."}`))
}
