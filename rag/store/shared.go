package store

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/sluice-rag/sluice/internal/filelock"
	"github.com/sluice-rag/sluice/internal/panics"
)

// The errors of a shared store, beside those of every store.
var (
	// ErrAway means that the database that keeps a shared store cannot be reached. Reading goes on from the replica.
	ErrAway = errors.New("store: its database cannot be reached")
	// errStray means that the folder is no replica of the database's store, or not one that can be brought up to date.
	errStray = errors.New("the folder is no replica of the store")
)

const (
	sharedFormat  = 1                // of the tables in PostgreSQL
	sharedPatient = 30 * time.Second // a change waits so long for the database and for other writers
	sharedPoll    = 500 * time.Millisecond
	sharedAnswer  = 5 * time.Second // the database may take for a short question
	retryFirst    = 50 * time.Millisecond
	retryLast     = 2 * time.Second
)

// Shared is a store that PostgreSQL keeps for any number of processes. Each process reads from a replica, a store in a
// folder, which follows the database. A change is computed on the replica, committed in the database, and then in the
// replica; the lines of the SQLite tables are lines of PostgreSQL tables with the same names and columns.
type Shared struct {
	name string // without user and password
	base string // the schema
	dir  string // of the replica
	key  int64  // of the advisory lock of changes; key+1: of calibrations
	log  *slog.Logger
	pool *pgxpool.Pool
	bad  error // what is wrong with the URL
	x    seams

	mu     sync.Mutex // while the replica is made ready or closed
	ready  bool
	closed bool
	inUse  *os.File // locked by all that use the replica
	stop   context.CancelFunc
	ended  chan struct{}

	replica *sql.DB // writes what is pulled, without looking at references
	lock    *writerLock
	tables  []table

	news    atomic.Pointer[chan struct{}] // closed when the replica has changed
	status  atomic.Pointer[SharedStatus]
	dropped atomic.Int64
}

// SharedStatus is how a process stands with the database.
type SharedStatus struct {
	Name       string    // host, database and base
	Generation int64     // of the replica
	Away       error     // an ErrAway; nil while the database is followed
	Since      time.Time // when Away began
	Dropped    int64     // lines of journals that the database did not take in time, or refused
}

// Place returns the folder of a store by its name: the folder itself or, by the URL of a database, that of the replica
// and what it is opened with (Options.Shared).
func Place(name, cache string, log *slog.Logger) (dir string, shared *Shared) {
	if !IsShared(name) {
		return name, nil
	}
	shared = NewShared(name, cache, log)
	return shared.dir, shared
}

// IsShared reports whether the name of a store is the URL of a PostgreSQL database.
func IsShared(name string) bool {
	return strings.HasPrefix(name, "postgres://") || strings.HasPrefix(name, "postgresql://")
}

// baseName is what a base may be called: a schema of PostgreSQL.
var baseName = regexp.MustCompile(`^[a-z][a-z0-9_]{0,39}$`)

// NewShared reads the URL of a shared store: that of PostgreSQL, with base=NAME to name one of several knowledge bases
// in a database (default sluice). The replica is a folder below that of caches. Nothing is connected before Open, which
// also returns what is wrong with the URL. The caller closes the result after the stores that were opened with it.
func NewShared(url, cache string, log *slog.Logger) *Shared {
	if log == nil {
		log = slog.Default()
	}
	r := &Shared{log: log, x: realSeams(), ended: make(chan struct{})}
	news := make(chan struct{})
	r.news.Store(&news)
	if err := r.configure(url, cache); err != nil {
		r.bad = fmt.Errorf("%w: the store's URL: %w", ErrInput, err)
		r.dir = filepath.Join(os.DevNull, "store") // nothing can be written there
	}
	r.status.Store(&SharedStatus{Name: r.name})
	return r
}

// configure reads the URL.
func (r *Shared) configure(url, cache string) error {
	if cache == "" {
		return errors.New("there is no folder for a replica: set SLUICE_CACHE")
	}
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return err
	}
	c := cfg.ConnConfig
	base, given := c.RuntimeParams["base"]
	if delete(c.RuntimeParams, "base"); !given {
		base = "sluice"
	}
	if !baseName.MatchString(base) {
		return fmt.Errorf("base %q: 1 to 40 letters a to z, digits and _, a letter first", base)
	}
	c.ConnectTimeout = sharedAnswer
	c.DialFunc = (&net.Dialer{KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: sharedAnswer,
		Interval: time.Second, Count: 5}}).DialContext
	maps.Copy(c.RuntimeParams, map[string]string{"application_name": "sluice", "tcp_keepalives_idle": "10",
		"tcp_keepalives_interval": "5", "tcp_keepalives_count": "3",
		"idle_in_transaction_session_timeout": "15min"}) // a client that hangs must not keep its locks for ever
	cfg.MaxConns, cfg.MinConns = 4, 0
	if r.pool, err = pgxpool.NewWithConfig(context.Background(), cfg); err != nil {
		return err
	}
	r.base, r.name = base, fmt.Sprintf("%s:%d/%s?base=%s", c.Host, c.Port, c.Database, base)
	sum := sha256.Sum256([]byte(r.name))
	r.dir = filepath.Join(cache, "replicas", fmt.Sprintf("%s-%x", base, sum[:6]))
	sum = sha256.Sum256([]byte("sluice " + base))
	r.key = int64(binary.LittleEndian.Uint64(sum[:]) >> 2 << 1)
	return nil
}

// Check returns what is wrong with the URL. A nil Shared has none.
func (r *Shared) Check() error {
	if r == nil {
		return nil
	}
	return r.bad
}

// Dir returns the folder of the replica.
func (r *Shared) Dir() string { return r.dir }

// Status returns the state of the connection to the database.
func (r *Shared) Status() SharedStatus {
	s := *r.status.Load()
	s.Dropped = r.dropped.Load()
	return s
}

// News is closed when the replica has followed a change that is made after the call. A nil Shared has no news.
func (r *Shared) News() <-chan struct{} {
	if r == nil {
		return nil
	}
	return *r.news.Load()
}

// Close ends following. Closing twice is harmless.
func (r *Shared) Close() error {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil
	}
	if r.closed = true; r.bad != nil {
		return nil
	}
	var errs []error
	if r.stop != nil {
		r.stop()
		<-r.ended
	}
	if r.ready {
		errs = append(errs, r.lock.close(), r.replica.Close(), r.inUse.Close())
	}
	r.pool.Close()
	return errors.Join(errs...)
}

// away gives an error of the way to the database its sentinel; what PostgreSQL itself says, and what fails here, is
// another error.
func (r *Shared) away(err error) error {
	var pg *pgconn.PgError
	var connect *pgconn.ConnectError
	var network net.Error
	switch {
	case err == nil || errors.Is(err, ErrAway) || errors.Is(err, context.Canceled):
		return err
	case errors.As(err, &pg):
		// The classes of connections, of shutdowns, and too many connections; 25P03: it was idle for too long.
		if c := pg.Code; !strings.HasPrefix(c, "08") && !strings.HasPrefix(c, "57P") && c != "53300" && c != "25P03" {
			return fmt.Errorf("%s: %w", r.name, err)
		}
	case errors.As(err, &connect), errors.As(err, &network), errors.Is(err, io.EOF), pgconn.SafeToRetry(err),
		errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed):
	default:
		return err
	}
	return fmt.Errorf("%w: %s: %w", ErrAway, r.name, err)
}

// within bounds a question to the database; that it takes longer is ErrAway.
func within(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, limit, ErrAway)
}

// sharedHead is what the database says of itself.
type sharedHead struct {
	there      bool
	generation int64
	horizon    int64 // a replica of an older generation is read anew
	settings   settings
}

// head reads the state of the database.
func (r *Shared) head(ctx context.Context, q interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}) (h sharedHead, err error) {
	var format int
	h.settings, err = scanSettings(func(to ...any) error {
		return q.QueryRow(ctx, `SELECT format, horizon, `+settingsColumns+` FROM `+r.table("about")+`, `+
			r.table("store")).Scan(append([]any{&format, &h.horizon}, to...)...)
	})
	var pg *pgconn.PgError
	switch {
	case errors.As(err, &pg) && (pg.Code == "42P01" || pg.Code == "3F000"): // no such table or schema
		return h, nil
	case err == nil && format != sharedFormat:
		err = fmt.Errorf("%w: %s has format %d, this program reads format %d", ErrVersion, r.name, format, sharedFormat)
	}
	h.there, h.generation = err == nil, h.settings.generation
	return h, err
}

// table quotes the name of a table.
func (r *Shared) table(name string) string { return pgx.Identifier{r.base, name}.Sanitize() }

// prepare makes the replica ready for Open: it is there, of the database's store, and as new as the database, if that
// can be reached.
func (r *Shared) prepare(ctx context.Context, o Options) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.bad != nil {
		return r.bad
	}
	if r.closed {
		return ErrClosed
	}
	if r.ready {
		return nil
	}
	short, cancel := within(ctx, sharedAnswer)
	defer cancel()
	h, err := r.head(short, r.pool)
	if err = r.away(err); err != nil && (!errors.Is(err, ErrAway) || ctx.Err() != nil) {
		return err
	}
	local := checkFolder(r.dir, Options{})
	switch {
	case err != nil && local != nil:
		return fmt.Errorf("%w (and there is no replica yet)", err)
	case err != nil:
		r.log.Warn("answers come from the replica", "error", err)
		r.status.Store(&SharedStatus{Name: r.name, Away: err, Since: time.Now()})
	case !h.there && !o.Create:
		return fmt.Errorf("%w in %s: make one with `sluice ingest --store postgres://… PATH…`", ErrNoStore, r.name)
	case !h.there:
		if err := r.create(ctx, o); err != nil {
			return err
		}
		if h, err = r.head(ctx, r.pool); err != nil {
			return r.away(err)
		}
	}
	return r.use(ctx, h)
}

// follow brings the replica up to date whenever the database changes, until ctx ends.
func (r *Shared) follow(ctx context.Context) {
	for pause := retryFirst; ctx.Err() == nil; {
		began := time.Now()
		err := panics.Call(func() error { return r.listen(ctx) })
		if ctx.Err() != nil {
			return
		}
		was := r.status.Load()
		now := SharedStatus{Name: r.name, Generation: was.Generation, Away: err, Since: time.Now()}
		if was.Away != nil {
			now.Since = was.Since
		} else {
			r.log.Warn("the store is not followed, answers come from the replica", "error", err)
		}
		r.status.Store(&now)
		if time.Since(began) > retryLast {
			pause = retryFirst
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
		pause = min(2*pause, retryLast)
	}
}

// listen follows the database over one connection until that fails.
func (r *Shared) listen(ctx context.Context) error {
	short, cancel := within(ctx, sharedAnswer)
	defer cancel()
	conn, err := r.pool.Acquire(short)
	if err != nil {
		return r.away(err)
	}
	c := conn.Hijack()
	defer c.Close(context.Background())
	if _, err := c.Exec(short, `LISTEN `+pgx.Identifier{r.channel()}.Sanitize()); err != nil {
		return r.away(err)
	}
	for {
		changed, err := r.look(ctx, c)
		if err != nil {
			return r.away(err)
		}
		if changed {
			next := make(chan struct{})
			close(*r.news.Swap(&next))
		}
		if was := r.status.Load(); was.Away != nil {
			r.log.Info("the store is followed again", "after_seconds", time.Since(was.Since).Seconds())
			r.status.Store(&SharedStatus{Name: r.name, Generation: was.Generation})
		}
		wait, cancel := context.WithTimeout(ctx, sharedPoll)
		_, err = c.WaitForNotification(wait)
		cancel()
		if err != nil && (ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded)) {
			return r.away(err)
		}
	}
}

// look pulls if the database is of another generation than the replica.
func (r *Shared) look(ctx context.Context, c *pgx.Conn) (changed bool, err error) {
	short, cancel := within(ctx, sharedAnswer)
	defer cancel()
	var now int64
	if err := c.QueryRow(short, `SELECT generation FROM `+r.table("store")).Scan(&now); err != nil {
		return false, err
	}
	local, err := readState(ctx, r.replica)
	if err != nil {
		return false, err
	}
	if local.generation != now {
		if err := r.pull(ctx, nil); errors.Is(err, ErrLocked) { // another process on this machine writes for long
			return false, nil
		} else if err != nil {
			return false, err
		}
		local.generation = now
	}
	was := *r.status.Load()
	changed = was.Generation != local.generation
	was.Generation = local.generation
	r.status.Store(&was)
	return changed, nil
}

func (r *Shared) channel() string { return "sluice_" + r.base }

// Exclusive gives calibrating to one process at a time: filelock.ErrHeld while another one has it.
// For a store that is not shared there is nothing to wait for.
func (s *Store) Exclusive(ctx context.Context) (release func(), err error) {
	r := s.shared
	if r == nil {
		return func() {}, nil
	}
	short, cancel := within(ctx, sharedAnswer)
	defer cancel()
	conn, err := r.pool.Acquire(short)
	if err != nil {
		return nil, r.away(err)
	}
	c := conn.Hijack() // the lock ends with the connection
	free := false
	if err := c.QueryRow(short, `SELECT pg_try_advisory_lock($1)`, r.key+1).Scan(&free); err != nil || !free {
		_ = c.Close(context.WithoutCancel(ctx))
		if err == nil {
			err = fmt.Errorf("%s is %w: another process is calibrating it; wait for that, or end it", r.name,
				filelock.ErrHeld)
		}
		return nil, r.away(err)
	}
	return func() { _ = c.Close(context.Background()) }, nil
}
