package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// What one transaction takes of those who wait: so many changes, and chunks.
const (
	groupMembers = 64
	groupChunks  = 8192
)

// member is a change that waits for its transaction. Those who come while another transaction is written share the next
// one, and its syncs.
type member struct {
	ctx    context.Context
	doing  string
	fn     func(context.Context, *change) error
	chunks int  // it has at most
	alone  bool // it shares no transaction
	came   time.Time
	done   chan struct{} // closed when err is known
	err    error
}

// waiting are the members of a Store that no transaction has taken yet, in the order in which they came.
type waiting struct {
	mu   sync.Mutex
	list []*member
}

func (w *waiting) add(m *member) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.list = append(w.list, m)
}

// remove reports whether m was still waiting.
func (w *waiting) remove(m *member) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	i := slices.Index(w.list, m)
	if i >= 0 {
		w.list = slices.Delete(w.list, i, i+1)
	}
	return i >= 0
}

// take removes m and those who share its transaction.
func (w *waiting) take(m *member) []*member {
	w.mu.Lock()
	defer w.mu.Unlock()
	group, chunks := []*member{m}, m.chunks
	w.list = slices.DeleteFunc(w.list, func(other *member) bool {
		if other == m {
			return true
		}
		if m.alone || other.alone || len(group) == groupMembers || chunks+other.chunks > groupChunks {
			return false
		}
		group, chunks = append(group, other), chunks+other.chunks
		return true
	})
	return group
}

// transact runs fn in a transaction under the writer's lock, which other callers may share: each has its changes whole
// or not at all, and knows nothing of the others. fn says in the change which rows it writes. It may be called a second
// time, after its first changes were undone.
func (s *Store) transact(ctx context.Context, doing string, fn func(context.Context, *change) error) error {
	return s.join(&member{ctx: ctx, doing: doing, fn: fn})
}

// transactAlone is transact for what takes long, or writes rows by itself.
func (s *Store) transactAlone(ctx context.Context, doing string, fn func(context.Context, *change) error) error {
	return s.join(&member{ctx: ctx, doing: doing, fn: fn, alone: true})
}

// join waits until somebody has written m, or does so with those who wait.
func (s *Store) join(m *member) error {
	m.came, m.done = time.Now(), make(chan struct{})
	s.waiting.add(m)
	select {
	case <-m.done:
		return m.err
	case <-m.ctx.Done():
		if s.waiting.remove(m) {
			return s.wrap(m.doing, m.ctx.Err())
		}
		<-m.done // its transaction is under way
		return m.err
	case <-s.lock.turn:
	}
	select {
	case <-m.done: // both at once
		s.lock.turn <- struct{}{}
		return m.err
	default:
	}
	if err := s.lock.hold(m.ctx, m.came); err != nil {
		s.waiting.remove(m)
		s.lock.turn <- struct{}{}
		return s.wrap(m.doing, err)
	}
	group := s.waiting.take(m)
	s.run(group)
	for _, m := range group { // before the turn is given on: whoever takes it looks whether he is done
		close(m.done)
	}
	s.lock.give(s.burnt > 0)
	return m.err
}

// run gives each of a group its changes in one transaction, and its error. If that fails as a whole before its COMMIT,
// each has one for itself.
func (s *Store) run(group []*member) {
	if len(group) > 1 && s.runTogether(group) {
		return
	}
	for _, m := range group {
		if m.err == nil {
			m.err = s.wrap(m.doing, s.transaction(m.ctx, m.fn))
		}
	}
}

// runTogether is false when the transaction failed as a whole and none of it is left. Those who fail by themselves have
// their error.
func (s *Store) runTogether(group []*member) (done bool) {
	err := s.transaction(context.Background(), func(_ context.Context, tx *change) error {
		left := 0
		for _, m := range group {
			failed, err := tx.attempt(m)
			if err != nil {
				return err
			}
			if m.err = s.wrap(m.doing, failed); failed == nil {
				left++
			}
		}
		if left == 0 {
			return errNobody
		}
		return nil
	})
	switch {
	case err == nil || err == errNobody:
		return true
	case errors.Is(err, ErrUncertain) || errors.Is(err, ErrAway):
		for _, m := range group {
			if m.err == nil {
				m.err = s.wrap(m.doing, err)
			}
		}
		return true
	}
	return false
}

var errNobody = errors.New("store: nobody is left in the transaction")

// attempt makes the changes of a member, or none of them: failed says why. err is the whole transaction's.
func (c *change) attempt(m *member) (failed, err error) {
	if failed = m.ctx.Err(); failed != nil {
		return failed, nil
	}
	if _, err := c.Exec(`SAVEPOINT member`); err != nil {
		return nil, err
	}
	before := *c
	if failed = m.fn(m.ctx, c); failed != nil {
		*c = before
		if _, err := c.Exec(`ROLLBACK TO member`); err != nil { // SQLite has undone all of it
			return failed, fmt.Errorf("%w (after %w)", err, failed)
		}
	}
	_, err = c.Exec(`RELEASE member`)
	return failed, err
}
