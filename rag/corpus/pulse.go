package corpus

import (
	"context"
	"fmt"
	"io"
	"runtime/debug"
	"time"

	"github.com/sluice-rag/sluice/internal/panics"
)

// pulse lets a context end the parsing of a large source: readers call beat at every word or character, and after the
// context's end beat panics with aborted, which abortable turns into the context's error. A nil pulse does nothing.
type pulse struct {
	ctx context.Context
	n   uint
}

type aborted struct{ error }

func (p *pulse) beat() {
	if p == nil {
		return
	}
	if p.n++; p.n%4096 == 0 {
		p.check()
	}
}

func (p *pulse) check() {
	if p == nil {
		return
	}
	if err := p.ctx.Err(); err != nil {
		panic(aborted{err})
	}
}

// beating reads in small parts and beats at each.
type beating struct {
	r io.Reader
	p *pulse
}

func (b beating) Read(to []byte) (int, error) {
	b.p.check()
	return b.r.Read(to[:min(len(to), 64<<10)])
}

// longParse is the size in bytes from which a source is parsed in a goroutine of its own: code that does not beat
// (goldmark, the check of a JSON line) takes a second for some hundred megabytes.
const longParse = 8 << 20

// parsing runs parse, which beats, on a source of the given size. When the context ends before a long parse does,
// parsing returns and parse runs on until it next beats; its result is discarded.
func parsing(ctx context.Context, bytes int, parse func() error) error {
	if bytes < longParse {
		return abortable(parse)
	}
	done := make(chan error, 1)
	go func() { done <- abortable(parse) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// timeLimit ends the parsing of a file that takes too long.
type timeLimit struct {
	*pulse
	outer context.Context
	most  time.Duration
	began time.Time
	timer *time.Timer
	end   func()
}

// more lets a file take longer.
func (l *timeLimit) more(d time.Duration) {
	l.most += d
	l.timer.Reset(l.most - time.Since(l.began))
}

// DefaultSeconds is the default of FileOptions.MaxSeconds, and secondsMiB is added for each MiB of a file. Both are far
// above what real files take on a busy machine, where 500 pages of PDF take 9 s of a loaded core.
const (
	DefaultSeconds = 300
	secondsMiB     = 5
)

// limited begins the time limit for parsing a file of the given size; end releases it.
func (l *loader) limited(bytes int64) *timeLimit {
	seconds := l.o.MaxSeconds
	if seconds <= 0 {
		seconds = DefaultSeconds
	}
	seconds += secondsMiB * float64(max(bytes, 0)>>20)
	most := time.Duration(seconds * float64(time.Second))
	ctx, cancel := context.WithCancel(l.ctx)
	timer := time.AfterFunc(most, cancel)
	return &timeLimit{&pulse{ctx: ctx}, l.ctx, most, time.Now(), timer, func() { timer.Stop(); cancel() }}
}

// parsing runs parse, which beats. When it has taken too long, parsing returns ErrTime, and parse ends when it next
// beats; a part that does not beat runs on until it is done.
func (l *timeLimit) parsing(bytes int, parse func() error) error {
	done := make(chan error, 1)
	go func() { done <- abortable(parse) }()
	var err error
	select {
	case err = <-done:
	case <-l.ctx.Done():
		err = l.ctx.Err()
	}
	if err != nil && l.ctx.Err() != nil && l.outer.Err() == nil {
		return fmt.Errorf("%w: %v (ingest.max_file_seconds)", ErrTime, l.most.Round(time.Millisecond))
	}
	return err
}

// abortable runs parse, which beats. It turns a panic of a parser into an error.
func abortable(parse func() error) (err error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case aborted:
			err = r.error
		default:
			err = &panics.Error{Value: r, Stack: debug.Stack()}
		}
	}()
	return parse()
}
