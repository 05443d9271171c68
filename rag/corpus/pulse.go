package corpus

import (
	"context"
	"fmt"
	"io"
	"runtime/debug"
	"time"

	"github.com/sluice-rag/sluice/internal/panics"
)

// pulse lets a context end the parsing of one large source: the readers beat at every word or character, and a beat
// after the end panics with aborted, which abortable turns into the context's error. A nil pulse does nothing.
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

// longParse is from how many bytes on a source is parsed beside the caller: what does not beat (goldmark, the check of
// a JSON line) takes a second for some hundred megabytes.
const longParse = 8 << 20

// parsing runs parse, which beats, on a source of so many bytes. When the context ends before a long parse does, it
// goes on alone for the moment that it takes to notice; its result is of no use to anyone.
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
	end   func()
}

// DefaultSeconds is FileOptions.MaxSeconds, and secondsMiB what each MiB of a file adds: much more than files that
// people have take on a busy machine, where 500 pages of PDF take 9 s of a core that has little time for them.
const (
	DefaultSeconds = 300
	secondsMiB     = 5
)

// limited begins the time that a file of so many bytes may take to be parsed; end gives back what it holds.
func (l *loader) limited(bytes int64) timeLimit {
	seconds := l.o.MaxSeconds
	if seconds <= 0 {
		seconds = DefaultSeconds
	}
	seconds += secondsMiB * float64(max(bytes, 0)>>20)
	most := time.Duration(seconds * float64(time.Second))
	ctx, cancel := context.WithTimeout(l.ctx, most)
	return timeLimit{&pulse{ctx: ctx}, l.ctx, most, cancel}
}

// parsing runs parse, which beats, on a source of so many bytes. When it has taken too long, it is ErrTime, and ends
// when it next beats; what does not beat goes on alone until it is done, and nobody waits for it.
func (l timeLimit) parsing(bytes int, parse func() error) error {
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

// abortable runs parse, which beats. A panic of a parser is an error of what it was given.
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
