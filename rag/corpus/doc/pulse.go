package doc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"

	"github.com/sluice-rag/sluice/internal/panics"
)

// Pulse lets a context end the parsing of a large source: readers call Beat at every word or character, and after the
// context's end Beat panics with aborted, which Parsing turns into the context's error. A nil pulse does nothing.
type Pulse struct {
	Ctx context.Context
	N   uint // beats so far
}

type aborted struct{ error }

// Abort ends the parsing with an error.
func Abort(err error) { panic(aborted{err}) }

// Beat looks at the context, at times.
func (p *Pulse) Beat() {
	if p == nil {
		return
	}
	if p.N++; p.N%4096 == 0 {
		p.Check()
	}
}

// Check looks at the context.
func (p *Pulse) Check() {
	if p == nil {
		return
	}
	if err := p.Ctx.Err(); err != nil {
		Abort(err)
	}
}

// Reader reads in small parts, and looks at the context before each.
func (p *Pulse) Reader(r io.Reader) io.Reader { return beating{r, p} }

type beating struct {
	r io.Reader
	p *Pulse
}

func (b beating) Read(to []byte) (int, error) {
	b.p.Check()
	return b.r.Read(to[:min(len(to), 64<<10)])
}

// LongParse is the size in bytes from which a source is parsed in a goroutine of its own: code that does not beat
// (goldmark, the check of a JSON line) takes a second for some hundred megabytes.
const LongParse = 8 << 20

// Parsing runs parse, which beats, on a source of the given size. When the context ends before a long parse does,
// Parsing returns and parse runs on until it next beats; its result is discarded.
func Parsing(ctx context.Context, bytes int, parse func() error) error {
	if bytes < LongParse {
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

// MaxDirectory bounds the list of files in a ZIP file, in bytes.
const MaxDirectory = 32 << 20

// Bounded reads at most so many bytes.
type Bounded struct {
	R    io.ReaderAt
	Left int64
}

func (b *Bounded) ReadAt(to []byte, at int64) (int, error) {
	if b.Left -= int64(len(to)); b.Left < 0 {
		return 0, fmt.Errorf("%w: %w: its list of files has more than %d bytes", ErrArchive, ErrTooLarge, MaxDirectory)
	}
	return b.R.ReadAt(to, at)
}

// The errors of readers, which package corpus has under the same names.
var (
	ErrFormat   = errors.New("corpus: unreadable source")
	ErrUnknown  = errors.New("corpus: unknown file kind")
	ErrTooLarge = errors.New("corpus: larger than the limit")
	ErrNoWords  = errors.New("corpus: no words in it")
)

// ErrEncrypted is a file that needs a password.
var ErrEncrypted = fmt.Errorf("%w: encrypted; save it without a password", ErrFormat)

// ErrArchive ends the reading of an archive that is broken or exceeds a limit.
var ErrArchive = errors.New("corpus: the archive ends")
