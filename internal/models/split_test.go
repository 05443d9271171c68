package models

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-rag/sluice/internal/fetch"
	"github.com/sluice-rag/sluice/internal/manifest"
)

const (
	partOne = "m-00001-of-00002.gguf"
	partTwo = "m-00002-of-00002.gguf"
)

// splitFixture is a model in two files, the first pinned and the second not, on a hub that can break off.
type splitFixture struct {
	*Registry
	files map[string][]byte
	cut   atomic.Int64 // how many answers of the second file break off in their middle
	sent  atomic.Int64 // requests of the first file
}

func newSplit(t *testing.T) *splitFixture {
	t.Helper()
	fx := &splitFixture{files: map[string][]byte{partOne: bytes.Repeat([]byte("GGUF one "), 3000),
		partTwo: bytes.Repeat([]byte("GGUF two "), 5000)}}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := path.Base(r.URL.Path)
		data := fx.files[name]
		w.Header().Set("ETag", fmt.Sprintf("%q", digest(data)))
		if name == partOne {
			fx.sent.Add(1)
		} else if fx.cut.Add(-1) >= 0 {
			w.Header().Set("Content-Length", fmt.Sprint(len(data)))
			_, _ = w.Write(data[:len(data)/2])
			panic(http.ErrAbortHandler)
		}
		http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(data))
	}))
	t.Cleanup(srv.Close)
	m := &manifest.Manifest{Models: []manifest.Model{{Name: "split", Kind: manifest.Generator, Licence: "MIT",
		Source:       "https://example.org/s",
		ChatTemplate: "zephyr", Files: []manifest.File{
			{Path: partOne, URL: srv.URL + "/" + partOne, SHA256: digest(fx.files[partOne]),
				Size: int64(len(fx.files[partOne]))},
			{Path: partTwo, URL: srv.URL + "/" + partTwo},
		}}}}
	cache, err := fetch.Open(t.TempDir(), fetch.WithRetries(0, 0))
	must(t, err)
	fx.Registry = Open(cache, m, "")
	return fx
}

// TestSplitModelResumesAndVerifies checks that a pull that breaks in the second of two files resumes there, and does
// not fetch the first one again.
func TestSplitModelResumesAndVerifies(t *testing.T) {
	fx := newSplit(t)
	fx.cut.Store(1)
	_, err := fx.Pull(t.Context(), "split", nil)
	if !errors.Is(err, fetch.ErrIncomplete) || !strings.Contains(err.Error(), partTwo) {
		t.Fatalf("a broken download: %v", err)
	}
	if _, err := fx.LocateGGUF("split"); !errors.Is(err, ErrNotPulled) {
		t.Errorf("half a model is found: %v", err)
	}
	before := fx.cache.Downloaded()
	files := map[string]int64{}
	dir, err := fx.Pull(t.Context(), "split", func(name string, done, total int64) {
		files[name] = done
		if total > 0 && done > total {
			t.Errorf("%s: %d of %d", name, done, total)
		}
	})
	must(t, err)
	rest := int64(len(fx.files[partTwo]) - len(fx.files[partTwo])/2)
	if n := fx.cache.Downloaded() - before; n != rest || fx.sent.Load() != 1 ||
		files["split/"+partTwo] != int64(len(fx.files[partTwo])) {
		t.Errorf("%d bytes came, want %d; the first file was asked for %d times; progress %v", n, rest, fx.sent.Load(),
			files)
	}
	got, err := fx.LocateGGUF("split")
	if err != nil || got != filepath.Join(dir, partOne) {
		t.Errorf("%q %v", got, err)
	}
	must(t, fx.Verify(t.Context(), "split"))
	if fx.ChatTemplate("SPLIT") != "zephyr" || fx.ChatTemplate(dir) != "" {
		t.Errorf("chat templates %q, %q", fx.ChatTemplate("SPLIT"), fx.ChatTemplate(dir))
	}
	settings, err := os.ReadFile(filepath.Join(dir, settingsName))
	if err != nil || !strings.Contains(string(settings), "chat_template: zephyr\n") {
		t.Errorf("%s %v", settings, err)
	}
	// A damaged second part is noticed and brought again.
	damaged := bytes.ToUpper(fx.files[partTwo])
	must(t, os.WriteFile(filepath.Join(dir, partTwo), damaged, 0o644))
	var c *CorruptError
	if err := fx.Verify(t.Context(), "split"); !errors.As(err, &c) || c.Path != filepath.Join(dir, partTwo) {
		t.Errorf("verify: %v", err)
	}
	if _, err := fx.Pull(t.Context(), "split", nil); err != nil {
		t.Fatal(err)
	}
	must(t, fx.Verify(t.Context(), "split"))
}

func TestCancelledPullLeavesNothingHalf(t *testing.T) {
	fx := newSplit(t)
	ctx, cancel := context.WithCancel(t.Context())
	_, err := fx.Pull(ctx, "split", func(name string, _, _ int64) {
		if strings.HasSuffix(name, partTwo) {
			cancel()
		}
	})
	if err == nil { // the rest was here before the cancellation was seen
		t.Skip("SKIP: the download was faster than its cancellation")
	}
	if !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if left, _ := os.ReadDir(fx.cache.Path("models")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	if _, err := fx.Pull(t.Context(), "split", nil); err != nil || fx.sent.Load() != 1 {
		t.Errorf("%v; the first file was asked for %d times", err, fx.sent.Load())
	}
	ctx, cancel = context.WithCancel(t.Context())
	cancel()
	if err := fx.Verify(ctx, "split"); !errors.Is(err, context.Canceled) {
		t.Errorf("verify: %v", err)
	}
}

func TestLocateGGUFOfOwnSplitFiles(t *testing.T) {
	fx := newSplit(t)
	write := func(dir string, names ...string) string {
		for _, n := range names {
			must(t, os.WriteFile(filepath.Join(dir, n), []byte("GGUF"), 0o644))
		}
		return dir
	}
	whole := write(t.TempDir(), partOne, partTwo)
	if got, err := fx.LocateGGUF(whole); err != nil || got != filepath.Join(whole, partOne) {
		t.Errorf("%q %v", got, err)
	}
	for reason, dir := range map[string]string{
		"1 of the 2 files":   write(t.TempDir(), partTwo),
		"3 .gguf files":      write(t.TempDir(), partOne, partTwo, "other.gguf"),
		"2 .gguf files":      write(t.TempDir(), partOne, "n-00002-of-00002.gguf"),
		"holds no .gguf":     write(t.TempDir(), "readme"),
		"give the path of o": write(t.TempDir(), partOne, "m-00002-of-00003.gguf"),
	} {
		if _, err := fx.LocateGGUF(dir); !errors.Is(err, ErrUnknownModel) || !strings.Contains(err.Error(), reason) {
			t.Errorf("want %q, got %v", reason, err)
		}
	}
}
