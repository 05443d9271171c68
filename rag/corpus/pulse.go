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
