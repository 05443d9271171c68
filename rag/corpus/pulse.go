package corpus

import (
	"context"
	"io"
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

// abortable runs parse, which beats.
func abortable(parse func() error) (err error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case aborted:
			err = r.error
		default:
			panic(r)
		}
	}()
	return parse()
}
