package pseudo

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/sluice-rag/sluice/internal/jsonl"
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
	lines, bad := 0, 0
	for line, err := range jsonl.Lines(r, maxLine) {
		if err != nil && !errors.Is(err, jsonl.ErrLong) {
			return nil, fmt.Errorf("pseudo: line %d: %w", line.Number, err)
		}
		lines = line.Number
		var q Query
		if err == nil {
			text := line.Text()
			if len(text) == 0 {
				continue
			}
			q, err = decode(text)
		}
		switch {
		case err != nil && o.Strict:
			return nil, fmt.Errorf("%w: line %d: %w", ErrQueries, line.Number, err)
		case err != nil:
			if bad++; o.OnBad != nil {
				o.OnBad(line.Number, err)
			}
		case o.PerContext == 0 || count[q.ContextID] < o.PerContext:
			count[q.ContextID]++
			queries = append(queries, q)
		}
	}
	if len(queries) == 0 {
		return nil, fmt.Errorf("%w: no line {\"context_id\",\"text\"} among %d (%d bad)", ErrQueries, lines, bad)
	}
	return queries, nil
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
