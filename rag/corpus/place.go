package corpus

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/sluice-rag/sluice/internal/regular"
	"github.com/sluice-rag/sluice/rag/corpus/charset"
)

// longestLook bounds the bytes of a source, and of its archive, in which line numbers are counted.
const longestLook = 64 << 20

// Lines returns the first and the last line, counted from 1, of a passage at bytes start to end of a source: a file, or
// one in an archive, in any encoding. It returns 0 if the source is missing or does not have the passage's words at
// that place because it has changed since it was read.
func Lines(ctx context.Context, source string, start, end int, text string) (from, to int) {
	words := wordsOf(text)
	if len(words) == 0 || start < 0 || end <= start || end > longestLook {
		return 0, 0
	}
	f, err := openSource(ctx, source)
	if err != nil {
		return 0, 0
	}
	defer f.Close()
	r := bufio.NewReaderSize(f, 64<<10)
	head, _ := r.Peek(charset.ProbeBytes) // a short file is not an error
	if bytes.IndexByte(head, 0) < 0 {
		before := &lineCount{}
		if _, err := io.CopyN(before, r, int64(start)); err != nil {
			return 0, 0
		}
		passage := make([]byte, end-start)
		if _, err := io.ReadFull(r, passage); err != nil {
			return 0, 0
		}
		if holds(string(passage), words) {
			from = before.n + 1
			within := &lineCount{}
			_, _ = within.Write(bytes.TrimRight(passage, "\r\n"))
			return from, from + within.n
		}
		if f, err = openSource(ctx, source); err != nil {
			return 0, 0
		}
		defer f.Close()
		r.Reset(f)
	}
	raw, err := io.ReadAll(io.LimitReader(r, longestLook))
	if err != nil || len(raw) < end {
		return 0, 0
	}
	return decodedLines(string(raw), start, end, words)
}

func wordsOf(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsNumber(r) })
}

// holds reports whether a passage of a source has the words of a chunk: two fifths of them, because markup may stand
// within words, or the chunk has four fifths of the passage's words, as a row has few words beside the names of its
// columns.
func holds(passage string, words []string) bool {
	own := wordsOf(passage)
	return has(passage, words, .4) || len(own) > 0 && has(" "+strings.Join(words, " ")+" ", own, .8)
}

// has reports whether a text has a share of words, of which it samples about 64. Short words occur in every text; they
// count only if there are no others.
func has(text string, words []string, share float64) bool {
	words = slices.Compact(slices.Sorted(slices.Values(words)))
	long := slices.DeleteFunc(slices.Clone(words), func(w string) bool { return utf8.RuneCountInString(w) < 3 })
	if len(long) > 0 {
		words = long
	}
	step, n, there := max(len(words)/64, 1), 0, 0
	for i := 0; i < len(words); i += step {
		if n++; strings.Contains(text, words[i]) {
			there++
		}
	}
	return float64(there) >= share*float64(n)
}

// decodedLines is Lines for a source that is not plain UTF-8.
func decodedLines(raw string, start, end int, words []string) (from, to int) {
	name, err := charset.Of(raw, "")
	if err != nil {
		return 0, 0
	}
	before, err := charset.DecodeAs(raw[:start], name, nil)
	if err != nil {
		return 0, 0
	}
	passage, err := charset.DecodeAs(raw[start:end], name, nil)
	if err != nil || !holds(passage.Text, words) {
		return 0, 0
	}
	lines, within := &lineCount{}, &lineCount{}
	_, _ = io.WriteString(lines, before.Text)
	_, _ = io.WriteString(within, strings.TrimRight(passage.Text, "\r\n"))
	return lines.n + 1, lines.n + 1 + within.n
}

// lineCount counts the lines of what is written to it, which end in LF, CR LF, or CR alone.
type lineCount struct {
	n    int
	last byte
}

func (l *lineCount) Write(b []byte) (int, error) {
	for _, c := range b {
		if c == '\r' || c == '\n' && l.last != '\r' {
			l.n++
		}
		l.last = c
	}
	return len(b), nil
}

// openSource opens a document's source: a file, or one in an archive, of which it reads at most longestLook bytes.
func openSource(ctx context.Context, source string) (io.ReadCloser, error) {
	f, err := regular.Open(source)
	if err == nil {
		return f, nil
	}
	archive := ArchiveOf(source)
	if archive == "" {
		return nil, err
	}
	limits := DefaultArchiveLimits()
	limits.MaxBytes = 4 * longestLook
	l := newLoader(ctx, LoadOptions{FileOptions: FileOptions{Hidden: true, NoIgnore: true,
		Archives: limits}}, func(*Document, error) bool { return false })
	var content []byte
	l.each = func(at found) error {
		if at.path != source {
			return nil
		}
		if content, err = io.ReadAll(io.LimitReader(at.content, longestLook)); err == nil {
			err = errStop
		}
		return err
	}
	err = l.archive(found{path: archive, name: archive, real: archive, size: -1}, archiveKind(archive))
	if errors.Is(err, errStop) {
		return io.NopCloser(bytes.NewReader(content)), nil
	}
	return nil, errors.Join(err, fs.ErrNotExist)
}
