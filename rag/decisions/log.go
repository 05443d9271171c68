package decisions

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/sluice-rag/sluice/internal/durable"
	"github.com/sluice-rag/sluice/internal/filelock"
	"github.com/sluice-rag/sluice/rag/gate"
	"github.com/sluice-rag/sluice/rag/store"
)

// The errors of this package.
var (
	ErrOff     = errors.New("decisions: no log is kept (log.decisions)")
	ErrUnknown = errors.New("decisions: no such decision in the log")
	ErrFile    = errors.New("decisions: unusable log")
	ErrTooFew  = errors.New("decisions: too few questions with feedback")
	ErrClosed  = errors.New("decisions: the log is closed")
)

// Database, as Options.File, keeps the log in the database of a shared store, one log for all who write it.
const Database = "database"

// Digest, as Options.Text, keeps the SHA-256 of questions instead of their texts.
const Digest = "digest"

// Options configures Open.
type Options struct {
	File     string `key:"decisions" doc:"file for a log of the gate's decisions, JSON lines; 'database' keeps it in that of a shared store; empty keeps none"`
	Text     string `key:"text" oneof:"full digest" doc:"how that log has the questions: their texts, or only SHA-256 digests of them"`
	MaxBytes int64  `key:"max_mib" unit:"MiB" bounds:"1,65536" doc:"size at which that file is renamed to FILE.1, MiB"` // 0: 64 MiB
	Keep     int    `key:"keep" bounds:"0,1000" doc:"renamed files that are kept"`
}

// DefaultOptions returns the default options, which name no file: nothing is logged.
func DefaultOptions() Options { return Options{Text: "full", MaxBytes: 64 << 20, Keep: 4} }

// version of the lines.
const version = 1

const (
	kindDecision = "decision"
	kindFeedback = "feedback"
	maxQuery     = 8 << 10 // bytes of a question that are kept
	syncEvery    = 200 * time.Millisecond
	recentIDs    = 4096 // ids that Thumb finds without reading the log
)

// Entry is a line of the log: a decision, or feedback about one.
type Entry struct {
	Version int       `json:"v"`
	Kind    string    `json:"kind"`
	ID      string    `json:"id"`
	Time    time.Time `json:"time"`

	Store  string `json:"store,omitempty"`        // folder
	Query  string `json:"query,omitempty"`        // the question
	Digest string `json:"query_sha256,omitempty"` // instead of Query
	Cut    bool   `json:"cut,omitempty"`          // Query was truncated

	Retrieve    bool                 `json:"retrieve"`
	Reason      string               `json:"reason,omitempty"` // why the gate is closed regardless of the score
	Score       float64              `json:"score"`
	Cutoff      float64              `json:"cutoff"`
	ScoredBy    string               `json:"scored_by,omitempty"`
	CoverWeight float64              `json:"cover_weight,omitempty"`
	Policy      string               `json:"policy,omitempty"`
	Threshold   float64              `json:"threshold"`
	Best        []string             `json:"best,omitempty"` // contexts, better first
	Shadow      *gate.ShadowDecision `json:"shadow,omitempty"`

	Thumb string `json:"thumb,omitempty"` // of feedback: Up or Down
}

// The values of feedback. Up says that the answer, and the decision to use the store or not, was right; Down that it
// was wrong.
const (
	Up   = "up"
	Down = "down"
)

// Log is an open log. It is safe for concurrent use. The methods of a nil *Log return ErrOff.
type Log struct {
	o       Options
	journal *store.Journal // instead of files

	mu      sync.Mutex
	file    *os.File // the current one; reopened when another process has renamed it
	lock    *os.File
	sync    *time.Timer // nil: nothing to sync
	closed  bool
	recent  map[string]string // ids of decisions, and their stores
	order   []string          // of recent, oldest first
	lastErr error             // of a sync in the background
}

// Open opens a log for writing and creates its file if necessary; shared is for Database. It returns nil if o.File is
// empty.
func Open(o Options, shared *store.Shared) (*Log, error) {
	if o.File == "" {
		return nil, nil
	}
	o.MaxBytes = cmp.Or(o.MaxBytes, DefaultOptions().MaxBytes)
	if o.MaxBytes < 0 || o.Keep < 0 {
		return nil, fmt.Errorf("%w: a limit of %d bytes, %d files", ErrFile, o.MaxBytes, o.Keep)
	}
	if o.File == Database {
		return openDatabase(o, shared)
	}
	var err error
	if o.File, err = filepath.Abs(o.File); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFile, err)
	}
	l := &Log{o: o, recent: map[string]string{}}
	if l.lock, err = os.OpenFile(o.File+filelock.Suffix, os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFile, err)
	}
	if err := l.locked(l.current); err != nil {
		_ = l.lock.Close()
		return nil, err
	}
	return l, nil
}

// File returns the path of the log, or Database.
func (l *Log) File() string { return l.o.File }

// Notice returns a sentence about what the log stores.
func (l *Log) Notice() string {
	what := "questions"
	if l.o.Text == Digest {
		what = "digests of questions"
	}
	where := l.o.File
	if l.journal != nil {
		where = "the database of the store"
	}
	return fmt.Sprintf("%s and the gate's decisions are written to %s (log.decisions)", what, where)
}

// locked runs fn while it holds the lock against other processes.
func (l *Log) locked(fn func() error) error {
	if err := filelock.Wait(l.lock, false); err != nil {
		return fmt.Errorf("%w: lock: %w", ErrFile, err)
	}
	defer filelock.Unlock(l.lock)
	return fn()
}

// current opens l.file, or reopens it if another process has renamed it.
func (l *Log) current() error {
	if l.file != nil {
		ours, err := l.file.Stat()
		there, errThere := os.Stat(l.o.File)
		if err == nil && errThere == nil && os.SameFile(ours, there) {
			return nil
		}
		_ = l.file.Sync()
		_ = l.file.Close()
		l.file = nil
	}
	if st, err := os.Stat(l.o.File); err == nil && !st.Mode().IsRegular() {
		return fmt.Errorf("%w: %s is no regular file", ErrFile, l.o.File)
	}
	f, err := os.OpenFile(l.o.File, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrFile, err)
	}
	l.file = f
	return nil
}

// Add writes a decision about a question and returns its id. store is the folder of the store, and best holds the ids
// of the contexts found, best first.
func (l *Log) Add(store, query string, d gate.Decision, best []string) (id string, err error) {
	if l == nil {
		return "", ErrOff
	}
	e := Entry{Version: version, Kind: kindDecision, ID: newID(), Time: time.Now().UTC(), Store: whole(store),
		Retrieve: d.Retrieve, Reason: d.Reason, Score: d.Score, Cutoff: d.Cutoff, ScoredBy: d.ScoredBy,
		CoverWeight: d.CoverWeight, Policy: d.Policy, Threshold: d.Threshold, Best: best, Shadow: d.Shadow}
	if len(best) == 0 && d.ContextID != "" {
		e.Best = []string{d.ContextID}
	}
	switch {
	case l.o.Text == Digest:
		e.Digest = digestOf(query)
	case len(query) > maxQuery:
		e.Query, e.Cut = strings.ToValidUTF8(query[:maxQuery], ""), true
	default:
		e.Query = query
	}
	return e.ID, l.write(context.Background(), e, false)
}

// whole returns the absolute path of a folder, because another process may have another working directory.
func whole(folder string) string {
	if path, err := filepath.Abs(folder); err == nil {
		return path
	}
	return folder
}

func digestOf(query string) string {
	sum := sha256.Sum256([]byte(query))
	return "sha256:" + hex.EncodeToString(sum[:])
}

func newID() string {
	var b [10]byte
	_, _ = rand.Read(b[:]) // never fails (crypto/rand)
	return "d" + strings.ToLower(base32.StdEncoding.EncodeToString(b[:]))
}

// Thumb writes feedback about a decision of a store durably. The error is ErrUnknown if the log has no decision of this
// store with the id. Later feedback replaces earlier feedback.
func (l *Log) Thumb(ctx context.Context, store, id string, up bool) error {
	if l == nil {
		return ErrOff
	}
	if !plausible(id) {
		return fmt.Errorf("%w: %.40q is no id of a decision", ErrUnknown, id)
	}
	of, known, err := l.storeOf(ctx, id)
	if err != nil {
		return err
	}
	if store = whole(store); !known || whole(of) != store && l.journal == nil {
		return fmt.Errorf("%w: %s; the log has none of this store with that id, and the oldest ones are removed as it "+
			"grows", ErrUnknown, id)
	}
	e := Entry{Version: version, Kind: kindFeedback, ID: id, Time: time.Now().UTC(), Store: store, Thumb: Down}
	if up {
		e.Thumb = Up
	}
	return l.write(ctx, e, true)
}

// storeOf returns the store of a decision that the log has.
func (l *Log) storeOf(ctx context.Context, id string) (of string, known bool, err error) {
	if l.journal != nil {
		known, err = l.has(ctx, id)
		return "", known, err
	}
	l.mu.Lock()
	of, known = l.recent[id]
	l.mu.Unlock()
	if !known {
		entries, err := Read(l.o.File)
		if err != nil {
			return "", false, err
		}
		var at int
		if at, known = entries.ByID[id]; known {
			of = entries.Entries[at].Store
		}
	}
	return of, known, nil
}

func plausible(id string) bool {
	return len(id) == 17 && id[0] == 'd' && strings.Trim(id, "abcdefghijklmnopqrstuvwxyz234567") == ""
}

// write appends a line; the database gets it a moment later unless it is to be durable at once.
func (l *Log) write(ctx context.Context, e Entry, durably bool) error {
	if l.journal != nil {
		e.Store = "" // its folder is a replica; the database has the decisions of one store alone
	}
	line, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrFile, err)
	}
	if l.journal != nil && durably {
		return l.journal.Append(ctx, e.ID, line)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return ErrClosed
	}
	if l.journal != nil {
		l.journal.Add(e.ID, line)
		return nil
	}
	line = append(line, '\n')
	if err := l.locked(func() error { return l.append(line) }); err != nil {
		return err
	}
	if _, known := l.recent[e.ID]; !known {
		l.recent[e.ID], l.order = e.Store, append(l.order, e.ID)
		if len(l.order) > recentIDs {
			delete(l.recent, l.order[0])
			l.order = l.order[1:]
		}
	}
	switch err := l.lastErr; {
	case err != nil:
		l.lastErr = nil
		return err
	case durably:
		return l.flush()
	case l.sync == nil:
		l.sync = time.AfterFunc(syncEvery, func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			if !l.closed {
				l.lastErr = l.flush()
			}
		})
	}
	return nil
}

// flush syncs the file; l.mu must be held.
func (l *Log) flush() error {
	if l.sync != nil {
		l.sync.Stop()
		l.sync = nil
	}
	if err := l.file.Sync(); err != nil {
		return fmt.Errorf("%w: %w", ErrFile, err)
	}
	return nil
}

// append writes a line after the last complete line and rotates a full file. Both locks must be held.
func (l *Log) append(line []byte) error {
	if err := l.current(); err != nil {
		return err
	}
	st, err := l.file.Stat()
	if err != nil {
		return fmt.Errorf("%w: %w", ErrFile, err)
	}
	size := st.Size()
	if size > 0 && size+int64(len(line)) > l.o.MaxBytes {
		if err := l.rotate(); err != nil {
			return err
		}
		size = 0
	}
	if last := []byte{0}; size > 0 { // a writer was killed, or the disk was full, in the middle of a line
		if _, err := l.file.ReadAt(last, size-1); err == nil && last[0] != '\n' {
			line = append([]byte{'\n'}, line...)
		}
	}
	n, err := l.file.Write(line)
	if err != nil {
		if n > 0 {
			_ = l.file.Truncate(size)
		}
		return fmt.Errorf("%w: %w", ErrFile, err)
	}
	return nil
}

// rotate renames the files and begins a new one.
func (l *Log) rotate() error {
	name := func(i int) string { return l.o.File + "." + strconv.Itoa(i) }
	err := l.file.Sync()
	if l.o.Keep == 0 {
		err = errors.Join(err, os.Remove(l.o.File))
	} else {
		for i := l.o.Keep; i >= 1 && err == nil; i-- {
			from := l.o.File
			if i > 1 {
				from = name(i - 1)
			}
			if err = os.Rename(from, name(i)); errors.Is(err, fs.ErrNotExist) {
				err = nil
			}
		}
	}
	if err == nil {
		err = l.current()
	}
	if err == nil {
		err = durable.SyncDir(filepath.Dir(l.o.File))
	}
	if err != nil && !errors.Is(err, ErrFile) {
		err = fmt.Errorf("%w: %w", ErrFile, err)
	}
	return err
}

// Close syncs and closes the file. Closing twice, or closing nil, is harmless.
func (l *Log) Close() error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil
	}
	l.closed = true
	if l.journal != nil {
		return l.journal.Close()
	}
	return errors.Join(l.flush(), l.file.Close(), l.lock.Close())
}
