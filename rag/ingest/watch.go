package ingest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/sluice-rag/sluice/rag/corpus"
)

// WatchOptions configures Watch. The zero value takes the defaults.
type WatchOptions struct {
	// Settle is the quiet time without events before a sync, so that a file that is being written is read once. Longest
	// bounds the wait while events keep coming. 0 means DefaultSettle and DefaultLongest.
	Settle, Longest time.Duration
	// Every is the time between two syncs without an event. They find changes that are not reported, for example on
	// network file systems. 0 means DefaultEvery.
	Every time.Duration
	// OnBlind is called when changes are not reported, for example because the system cannot watch so many folders.
	// Watch then syncs at least every DefaultBlind. May be nil.
	OnBlind func(error)
}

// The defaults of WatchOptions.
const (
	DefaultSettle  = 500 * time.Millisecond
	DefaultLongest = 10 * time.Second
	DefaultEvery   = 5 * time.Minute
	DefaultBlind   = 30 * time.Second
)

// Watch calls sync at once, after each change below paths, and every WatchOptions.Every, until sync returns an error or
// ctx ends, which is not an error. Changes during a sync cause another one.
func Watch(
	ctx context.Context, paths []string, files corpus.FileOptions, o WatchOptions, sync func(context.Context) error,
) error {
	w := &watch{o: o.withDefaults(), paths: paths, files: files}
	defer w.close()
	if notifier, err := fsnotify.NewWatcher(); err != nil {
		w.isBlind(err)
	} else {
		w.notifier = notifier
	}
	return w.run(ctx, sync)
}

func (w *watch) run(ctx context.Context, sync func(context.Context) error) error {
	for {
		if err := w.follow(ctx); err == nil {
			err = sync(ctx)
			if err != nil && ctx.Err() == nil {
				return err
			}
		} else if ctx.Err() == nil {
			return err
		}
		if !w.wait(ctx) {
			return nil
		}
	}
}

func (o WatchOptions) withDefaults() WatchOptions {
	o.Settle = cmp.Or(max(o.Settle, 0), DefaultSettle)
	o.Longest = cmp.Or(max(o.Longest, 0), DefaultLongest)
	o.Every = cmp.Or(max(o.Every, 0), DefaultEvery)
	return o
}

type watch struct {
	o        WatchOptions
	paths    []string
	files    corpus.FileOptions
	notifier *fsnotify.Watcher // nil if the system provides no notifications
	blind    bool
}

func (w *watch) close() {
	if w.notifier != nil {
		_ = w.notifier.Close() // an error here loses no data
	}
}

// isBlind logs, once, that the system does not report changes.
func (w *watch) isBlind(err error) {
	if w.blind {
		return
	}
	w.blind = true
	w.o.Every = min(w.o.Every, DefaultBlind)
	if w.o.OnBlind != nil {
		w.o.OnBlind(err)
	}
}

// follow watches all existing folders. The system stops watching a deleted folder by itself.
func (w *watch) follow(ctx context.Context) error {
	if w.notifier == nil {
		return nil
	}
	there := map[string]bool{}
	return corpus.Folders(ctx, w.paths, w.files, func(dir string) {
		if there[dir] {
			return
		}
		there[dir] = true
		// adding a watched folder has no effect unless it was replaced
		if err := w.notifier.Add(dir); err != nil && !errors.Is(err, fsnotify.ErrClosed) {
			w.isBlind(fmt.Errorf("%s: %w", dir, err))
		}
	})
}

// wait returns true when a sync may be due, and false when ctx has ended.
func (w *watch) wait(ctx context.Context) bool {
	var events chan fsnotify.Event
	var faults chan error
	if w.notifier != nil {
		events, faults = w.notifier.Events, w.notifier.Errors
	}
	periodic := time.NewTimer(w.o.Every)
	defer periodic.Stop()
	settled := time.NewTimer(time.Hour)
	settled.Stop()
	defer settled.Stop()
	var first time.Time
	for {
		select {
		case <-ctx.Done():
			return false
		case e := <-events:
			if !w.isChange(e) {
				continue
			}
			now := time.Now()
			if first.IsZero() {
				first = now
			}
			settled.Reset(max(0, min(w.o.Settle, w.o.Longest-now.Sub(first))))
		case err := <-faults:
			if !errors.Is(err, fsnotify.ErrEventOverflow) { // the next sync makes up for lost events
				w.isBlind(err)
			}
			return true
		case <-settled.C:
			return true
		case <-periodic.C:
			return true
		}
	}
}

// isChange reports whether an event may have changed a document. It ignores changes of permissions, backup files of
// editors (name~), and hidden files unless they are ingested or hold ignore rules.
func (w *watch) isChange(e fsnotify.Event) bool {
	if e.Op == fsnotify.Chmod {
		return false
	}
	name := filepath.Base(e.Name)
	isRule := name == ".sluiceignore" || name == ".ignore" || name == ".gitignore"
	return (name[0] != '.' || w.files.Hidden || isRule) && name[len(name)-1] != '~'
}
