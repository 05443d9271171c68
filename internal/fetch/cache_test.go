package fetch

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestDamagedBlobIsDeletedAndBroughtAgain(t *testing.T) {
	s := &server{body: body(10_000)}
	c, w, said := setup(t, s)
	path, err := c.HTTP(t.Context(), w, nil)
	if err != nil {
		t.Fatal(err)
	}
	flipped := append([]byte{}, s.body...)
	flipped[5000] ^= 1
	for _, bad := range [][]byte{s.body[:100], flipped} {
		*said = nil
		if err := os.WriteFile(path, bad, 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := c.HTTP(t.Context(), w, nil); err != nil {
			t.Fatal(err)
		}
		mustHave(t, path, s.body)
		if len(*said) == 0 || !strings.Contains((*said)[0], "damaged") {
			t.Errorf("remarks: %q", *said)
		}
	}
}

// TestConcurrentUsers checks that eight users of one cache download a file once.
func TestConcurrentUsers(t *testing.T) {
	s := &server{body: body(300_000)}
	c, w, _ := setup(t, s)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			mine, err := Open(c.Root()) // as another process would
			if err != nil {
				t.Error(err)
				return
			}
			if _, err := mine.HTTP(t.Context(), w, nil); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := s.requests.Load(); n != 1 {
		t.Errorf("%d requests", n)
	}
}

func TestLockWaitsAndGivesUp(t *testing.T) {
	c, err := Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	unlock, err := c.Lock(t.Context(), "x")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	if _, err := c.Lock(ctx, "x"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a held lock: %v", err)
	}
	unlock()
	again, err := c.Lock(t.Context(), "x")
	if err != nil {
		t.Fatal(err)
	}
	again()
}

func TestUnwritableCache(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	c, err := Open(filepath.Join(file, "cache"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.HTTP(t.Context(), Want{Name: "x", URL: "http://localhost/"}, nil); !errors.Is(err, ErrWrite) {
		t.Errorf("a cache below a file: %v", err)
	}
}

func TestRoot(t *testing.T) {
	t.Setenv(EnvCache, "/some/where")
	if got, err := Root(); err != nil || got != "/some/where" {
		t.Errorf("%q %v", got, err)
	}
	t.Setenv(EnvCache, "")
	home := t.TempDir()
	t.Setenv("HOME", home)
	if got, err := Root(); err != nil || got != filepath.Join(home, ".cache", "sluice") {
		t.Errorf("%q %v", got, err)
	}
}
