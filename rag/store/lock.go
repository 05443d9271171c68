package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/sluice-rag/sluice/internal/durable"
	"github.com/sluice-rag/sluice/internal/filelock"
)

const (
	lockName    = "lock"
	lockPatient = 30 * time.Second      // a transaction waits so long for another process's
	lockPoll    = 2 * time.Millisecond  // between two tries at first
	lockPollMax = 50 * time.Millisecond // and at last
)

// writerLock is the one that whoever writes holds, for the time of a transaction: between two, other processes write.
// The kernel gives it back when the process dies, so a kill never leaves a stale one.
type writerLock struct {
	dir     string
	file    *os.File
	patient time.Duration
	turn    chan struct{} // holds a token while nobody of this Store writes
	held    bool          // by this Store, also between transactions; read and written by whose turn it is
	closed  bool          // as held
}

func openLock(dir string, patient time.Duration) (*writerLock, error) {
	f, err := os.OpenFile(filepath.Join(dir, lockName), os.O_RDWR|os.O_CREATE, durable.FileMode(dir))
	if err != nil {
		return nil, fmt.Errorf("store %s: open the writer's lock: %w", dir, err)
	}
	l := &writerLock{dir: dir, file: f, patient: patient, turn: make(chan struct{}, 1)}
	l.turn <- struct{}{}
	return l, nil
}

// take waits for the lock: for callers of this Store as long as ctx lasts, for other processes until ErrLocked. It
// needs a give.
func (l *writerLock) take(ctx context.Context) error {
	select {
	case <-l.turn:
	case <-ctx.Done():
		return ctx.Err()
	}
	err := l.hold(ctx, time.Now())
	if err != nil {
		l.turn <- struct{}{}
	}
	return err
}

// hold waits for other processes, for the caller whose turn it is and who has been waiting since a time.
func (l *writerLock) hold(ctx context.Context, since time.Time) error {
	switch {
	case l.closed:
		return ErrClosed
	case l.held:
		return nil
	}
	for pause := lockPoll; ; pause = min(2*pause, lockPollMax) {
		err := filelock.Try(l.file, l.dir)
		var held *filelock.HeldError
		switch {
		case err == nil:
			l.held = true
			return nil
		case !errors.As(err, &held):
			return err
		case time.Since(since) > l.patient:
			return fmt.Errorf("%w: %s is held by %s for %s: wait for it, or end it; reading is possible meanwhile",
				ErrLocked, l.dir, held.Holder(), l.patient)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
}

// give lets others write; with keep, only those of this Store.
func (l *writerLock) give(keep bool) {
	if !keep && l.held {
		filelock.Unlock(l.file)
		l.held = false
	}
	l.turn <- struct{}{}
}

// close ends the use of the lock, after the caller whose turn it is.
func (l *writerLock) close() error {
	<-l.turn
	defer func() { l.turn <- struct{}{} }()
	if l.closed {
		return nil
	}
	l.closed, l.held = true, false
	return l.file.Close()
}
