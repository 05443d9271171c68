package corpus

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"strings"
	"unicode"

	"github.com/sluice-rag/sluice/internal/regular"
)

// longestLook is how far into a source, and into the archive that it is in, line numbers are counted, in bytes.
const longestLook = 64 << 20

// Lines returns the first and the last line of a passage that stands at bytes start to end of a source, counted from 1:
// of a file, or of one in an archive, whatever its encoding. It is 0 where the source is not there or does not hold the
// passage's last words at that place: it has changed since it was read.
func Lines(ctx context.Context, source string, start, end int, text string) (from, to int) {
	words := strings.FieldsFunc(text, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsNumber(r) })
	if len(words) == 0 || start < 0 || end <= start || end > longestLook {
		return 0, 0
	}
	// What a chunk begins with may be repeated from elsewhere: the names of a table's columns.
	first, last := words[len(words)*3/4], words[len(words)-1]
	f, err := openSource(ctx, source)
	if err != nil {
		return 0, 0
	}
	defer f.Close()
	r := bufio.NewReaderSize(f, 64<<10)
	head, _ := r.Peek(probeBytes) // a short file is no error
	if bytes.IndexByte(head, 0) < 0 {
		before := &lineCount{}
		if _, err := io.CopyN(before, r, int64(start)); err != nil {
			return 0, 0
		}
		passage := make([]byte, end-start)
		if _, err := io.ReadFull(r, passage); err != nil {
			return 0, 0
		}
		if bytes.Contains(passage, []byte(first)) && bytes.Contains(passage, []byte(last)) {
			from = before.n + 1
			return from, from + bytes.Count(bytes.TrimRight(passage, "\n"), []byte("\n"))
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
	return decodedLines(string(raw), start, end, first, last)
}

// decodedLines is Lines of a source in another encoding than UTF-8.
func decodedLines(raw string, start, end int, first, last string) (from, to int) {
	name, err := charsetOf(raw, "")
	if err != nil || name == utf8Name {
		return 0, 0
	}
	before, err := decodeCharset(raw[:start], name, nil)
	if err != nil {
		return 0, 0
	}
	passage, err := decodeCharset(raw[start:end], name, nil)
	if err != nil || !strings.Contains(passage.text, first) || !strings.Contains(passage.text, last) {
		return 0, 0
	}
	from = strings.Count(before.text, "\n") + 1
	return from, from + strings.Count(strings.TrimRight(passage.text, "\n"), "\n")
}

// lineCount counts the lines that end in what is written to it.
type lineCount struct{ n int }

func (l *lineCount) Write(b []byte) (int, error) {
	l.n += bytes.Count(b, []byte("\n"))
	return len(b), nil
}

// openSource opens a document's source: a file, or one in an archive, of which it reads longestLook bytes at most.
func openSource(ctx context.Context, source string) (io.ReadCloser, error) {
	f, err := regular.Open(source)
	if err == nil {
		return f, nil
	}
	archive := ArchiveOf(source)
	if archive == "" {
		return nil, err
	}
	l := newLoader(ctx, LoadOptions{FileOptions: FileOptions{Hidden: true, NoIgnore: true,
		Archives: ArchiveLimits{MaxBytes: 4 * longestLook}}}, func(*Document, error) bool { return false })
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
