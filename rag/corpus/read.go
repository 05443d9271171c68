package corpus

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"runtime"
	"strings"
	"unicode/utf8"

	"github.com/sluice-rag/sluice/rag/corpus/charset"
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
