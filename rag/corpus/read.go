package corpus

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"runtime"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/sluice-rag/sluice/rag/corpus/charset"
	"github.com/sluice-rag/sluice/rag/corpus/doc"
)

// markupShare is how many bytes of Markdown and HTML are read per byte of text that is wanted, as markup, scripts and
// styles are not text. Plain text in UTF-16 has at most 2 bytes a byte.
const (
	markupShare = 64
	plainShare  = 2
)

// readText reads a file of a format, or as much of its beginning as can be kept; cut reports that there is more. The
// digest is of the bytes read.
func (l *loader) readText(at found, kind format) (raw, digest string, cut bool, err error) {
	size := at.size
	most := kind.share * int64(l.o.MaxTextBytes)
	if size > l.o.MaxFileBytes {
		return "", "", false, fmt.Errorf("%w of %d bytes (ingest.max_file_mib): %d", ErrTooLarge, l.o.MaxFileBytes,
			size)
	}
	f, err := at.open()
	if err != nil {
		return "", "", false, reason(err)
	}
	defer f.Close()
	if most <= 0 {
		most = l.o.MaxFileBytes + 1
	}
	var b strings.Builder // its String returns the bytes without a copy
	room := min(max(size, 0), most)
	if at.content != nil {
		room = min(room, 64<<20) // an archive may declare any size
	}
	b.Grow(int(room + 1))
	h := sha256.New()
	if _, err = io.Copy(io.MultiWriter(&b, h), io.LimitReader(cancelled{l.ctx, f}, most)); err != nil {
		return "", "", false, reason(err)
	}
	raw = b.String()
	if int64(len(raw)) > l.o.MaxFileBytes { // the file has grown
		return "", "", false, fmt.Errorf("%w of %d bytes (ingest.max_file_mib): at least %d", ErrTooLarge,
			l.o.MaxFileBytes, len(raw))
	}
	if cut = int64(len(raw)) == most && (size > most || size < 0); cut {
		raw = wholeCharacters(raw)
	}
	return raw, "sha256:" + hex.EncodeToString(h.Sum(nil)), cut, nil
}

// largeSource is the size from which a garbage collection is run after a source has been read.
const largeSource = 64 << 20

// collect frees the memory of a large source. By itself the garbage collector would wait until twice as much is in use;
// for texts, which hold no pointers, it is fast.
func collect(bytes int) {
	if bytes >= largeSource {
		runtime.GC()
	}
}

// wholeCharacters removes a partial character from the end of a truncated text.
func wholeCharacters(raw string) string {
	if order := charset.UTF16Order(raw); order != nil {
		raw = raw[:len(raw)&^1]
		if n := len(raw); n > 2 && order.Uint16([]byte(raw[n-2:]))&0xfc00 == 0xd800 {
			return raw[:n-2]
		}
		return raw
	}
	for i := 1; i < utf8.UTFMax && i <= len(raw); i++ {
		if at := len(raw) - i; utf8.RuneStart(raw[at]) {
			if !utf8.FullRuneInString(raw[at:]) {
				return raw[:at]
			}
			break
		}
	}
	return raw
}

// cancelled reads until the context ends.
type cancelled struct {
	ctx context.Context
	r   io.Reader
}

func (c cancelled) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.r.Read(p)
}

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
	return &timeLimit{&doc.Pulse{Ctx: ctx}, l.ctx, most, time.Now(), timer, func() { timer.Stop(); cancel() }}
}

// timeLimit ends the parsing of a file that takes too long.
type timeLimit struct {
	*doc.Pulse
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

// parsing runs parse, which beats. When it has taken too long, parsing returns ErrTime, and parse ends when it next
// beats; a part that does not beat runs on until it is done.
func (l *timeLimit) parsing(parse func() error) error {
	err := doc.Parsing(l.Ctx, doc.LongParse, parse)
	if err != nil && l.Ctx.Err() != nil && l.outer.Err() == nil {
		return fmt.Errorf("%w: %v (ingest.max_file_seconds)", ErrTime, l.most.Round(time.Millisecond))
	}
	return err
}

// DefaultSeconds is the default of FileOptions.MaxSeconds, and secondsMiB is added for each MiB of a file. Both are far
// above what real files take on a busy machine, where 500 pages of PDF take 9 s of a loaded core.
const (
	DefaultSeconds = 300
	secondsMiB     = 5
)
