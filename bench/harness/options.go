package harness

import (
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/sluice-rag/sluice/engine/cores"
	"github.com/sluice-rag/sluice/internal/buildinfo"
	"github.com/sluice-rag/sluice/internal/fetch"
)

// Known returns an error for names that are not in all.
func Known(what string, names, all []string) error {
	for _, n := range names {
		if !slices.Contains(all, n) {
			return fmt.Errorf("%s %q (there are %s)", what, n, strings.Join(all, ", "))
		}
	}
	return nil
}

// Threads returns the number of threads of a benchmark: the number of cores if n is 0, and never more.
func Threads(n int) (int, error) {
	available := cores.Available()
	if n == 0 {
		return available, nil
	}
	if n < 1 || n > available {
		return 0, fmt.Errorf("%d threads are not between 1 and the %d cores: more would measure the scheduler", n,
			available)
	}
	return n, nil
}

// InCache sets empty paths to files of the cache, which are given by their slash-separated names in it.
func InCache(paths map[*string]string) error {
	root, err := fetch.Root()
	if err != nil {
		return err
	}
	for path, name := range paths {
		if *path == "" {
			*path = filepath.Join(root, filepath.FromSlash(name))
		}
	}
	return nil
}

// Now returns the time of a report.
func Now() time.Time { return time.Now().UTC().Truncate(time.Second) }

// System returns the operating system and architecture.
func System() string { return runtime.GOOS + "/" + runtime.GOARCH }

// Version returns the version of Sluice.
func Version() string { return strings.TrimSpace(buildinfo.Version + " " + buildinfo.Commit()) }

// Say passes a message to the listener, if there is one.
func Say(listener func(string), format string, args ...any) {
	if listener != nil {
		listener(fmt.Sprintf(format, args...))
	}
}

// Note adds a line to a report's notes, once, and passes it on.
func Note(notes *[]string, listener func(string), format string, args ...any) {
	text := strings.TrimPrefix(fmt.Sprintf(format, args...), "bench: ")
	if slices.Contains(*notes, text) {
		return
	}
	*notes = append(*notes, text)
	Say(listener, "%s", text)
}
