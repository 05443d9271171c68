package pseudo

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// maxLine is the longest line of a file of pseudo-queries; a longer one is a bad line.
const maxLine = 1 << 20

// ReadOptions of Read. The zero value reads everything and passes over bad lines in silence, so a caller
// that does not set Strict wants OnBad.
type ReadOptions struct {
	Strict     bool                      // end with the first bad line instead of passing over it
	OnBad      func(line int, err error) // called for each bad line, numbered from 1; may be nil
	PerContext int                       // keep the first ones of each context; 0 = all
}

// Read reads pseudo-queries from JSON lines {"context_id","text","id"?}; other fields are ignored, blank
// lines passed over. A file without a usable line is ErrQueries, and so is a bad line when Strict.
func Read(r io.Reader, o ReadOptions) ([]Query, error) {
	var queries []Query
	count := map[string]int{}
	br := bufio.NewReader(r)
	for number, bad := 1, 0; ; number++ {
		line, long, readErr := readLine(br)
		if readErr != nil && !errors.Is(readErr, io.EOF) {
			return nil, fmt.Errorf("pseudo: line %d: %w", number, readErr)
		}
		if long || len(line) > 0 {
			q, err := decode(line)
			if long {
				err = fmt.Errorf("longer than %d bytes", maxLine)
			}
			switch {
			case err != nil && o.Strict:
				return nil, fmt.Errorf("%w: line %d: %w", ErrQueries, number, err)
			case err != nil:
				if bad++; o.OnBad != nil {
					o.OnBad(number, err)
				}
			case o.PerContext == 0 || count[q.ContextID] < o.PerContext:
				count[q.ContextID]++
				queries = append(queries, q)
			}
		}
		if errors.Is(readErr, io.EOF) {
			if len(queries) == 0 {
				return nil, fmt.Errorf("%w: no line {\"context_id\",\"text\"} among %d (%d bad)", ErrQueries, number, bad)
			}
			return queries, nil
		}
	}
}

// readLine returns the next line without white space around it. A line that is too long is read to its end
// and not kept.
func readLine(br *bufio.Reader) (line []byte, long bool, err error) {
	for {
		part, err := br.ReadSlice('\n')
		if long = long || len(line)+len(part) > maxLine; long {
			line = nil
		} else {
			line = append(line, part...)
		}
		if err != bufio.ErrBufferFull {
			return bytes.TrimSpace(bytes.TrimPrefix(line, []byte("\xef\xbb\xbf"))), long, err
		}
	}
}

func decode(line []byte) (Query, error) {
	var q Query
	if !utf8.Valid(line) {
		return q, errors.New("not UTF-8")
	}
	if err := json.Unmarshal(line, &q); err != nil {
		return q, err
	}
	switch {
	case q.ContextID == "":
		return q, errors.New(`no "context_id"`)
	case strings.TrimSpace(q.Text) == "":
		return q, errors.New(`no "text"`)
	}
	return q, nil
}
