package corpus

import (
	"fmt"
	"iter"
	"strings"

	"github.com/sluice-rag/sluice/rag/corpus/doc"
	"github.com/sluice-rag/sluice/rag/corpus/mail"
)

// mailbox reads the messages of an mbox file (RFC 4155), a document each: a message begins with a line "From …" with a
// date, at the beginning or after an empty line. A document's id is the file's, then the Message-ID.
func (l *loader) mailbox(file found) error {
	path, id := file.path, file.name
	raw, _, _, err := l.readText(file, format{})
	if err != nil {
		return l.unread(file, err)
	}
	n := 0
	for at, line := range messages(raw) {
		if err := l.cancelled(); err != nil {
			return err
		}
		n++
		from := place{path: path, line: line}
		d := &Document{Digest: "sha256:" + doc.TextDigest(at)}
		limit := l.limited(int64(len(at)))
		message := strings.ReplaceAll(at, "\n>From ", "\nFrom ") // as the mailbox escapes such lines
		err := limit.parsing(func() error { return mail.Parse(d, message, limit.Pulse) })
		limit.end()
		if err != nil {
			if stop := l.cancelled(); stop != nil {
				return stop
			}
			if err := l.skip(from.String(), err, true); err != nil {
				return err
			}
			continue
		}
		d.ID = fmt.Sprintf("%s#%d", id, n)
		if name := d.Meta.Text("message-id"); name != "" {
			d.ID = id + "#" + name
		}
		d.Shorten(l.o.MaxTextBytes)
		if err := l.emit(d, from); err != nil {
			return err
		}
	}
	if n == 0 {
		return l.skip(path, fmt.Errorf("%w: no message begins with a line \"From \"", ErrFormat), true)
	}
	return nil
}

// messages yields each message of a mailbox with the line that it begins on.
func messages(raw string) iter.Seq2[string, int] {
	return func(yield func(string, int) bool) {
		begin, number, at, n, empty, dated := -1, 0, 0, 0, true, false
		for line := range strings.Lines(raw) {
			n++
			next := at + len(line)
			switch {
			case !empty || !strings.HasPrefix(line, "From "):
			case begin < 0:
				begin, number, dated = next, n, isDated(line)
			case dated && isDated(line) || !dated && isHeaderLine(raw[next:]):
				if !yield(raw[begin:at], number) {
					return
				}
				begin, number = next, n
			}
			empty = strings.TrimRight(line, "\r\n") == ""
			at = next
		}
		if begin >= 0 {
			yield(raw[begin:], number)
		}
	}
}

// isDated reports whether a line has a day, a month and a time in this order, as the separator of a mailbox has: other
// lines that begin with "From " are text.
func isDated(line string) bool {
	fields := strings.Fields(line[:min(len(line), maxSeparator)])
	for i := 2; i+3 < len(fields); i++ {
		day, month, date, hour := fields[i], fields[i+1], fields[i+2], fields[i+3]
		if oneOf("MonTueWedThuFriSatSun", strings.TrimRight(day, ",")) && len(date) <= 2 && date[0] >= '0' &&
			date[0] <= '9' && oneOf("JanFebMarAprMayJunJulAugSepOctNovDec", month) && strings.Contains(hour, ":") {
			return true
		}
	}
	return false
}

// maxSeparator bounds the line that separates two messages, in bytes.
const maxSeparator = 1000

// oneOf reports whether a word is in a list of words of three letters.
func oneOf(list, word string) bool { return len(word) == 3 && strings.Index(list, word)%3 == 0 }

// isHeaderLine reports whether a text begins with a header line of a message.
func isHeaderLine(text string) bool {
	name, _, ok := strings.Cut(text[:min(len(text), maxSeparator)], ":")
	return ok && name != "" && !strings.ContainsAny(name, " \t\r\n")
}
