package route

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/sluice-rag/sluice/internal/jsonl"
)

// The errors of this package.
var (
	ErrData     = errors.New("route: nothing can be learned from these data")
	ErrOption   = errors.New("route: bad option")
	ErrArtifact = errors.New("route: not a usable router")
	ErrEncoder  = errors.New("route: the router was made with another encoder")
)

// Example is a text with its labels.
type Example struct {
	ID     string
	Text   string
	Labels []string // sorted, each once
	// Group, if not empty, names texts that are evaluated together, because they share content: a chunk and the
	// questions about it.
	Group string
	// Probe is a text of the kind that the router is for. Where there are some, only they are measured.
	Probe bool
}

// Examples are labelled texts.
type Examples struct {
	Source string
	Digest string // "sha256:…" of the file; "" if the examples come from no file
	Multi  bool   // a text may have several labels, or none
	List   []Example
	Left   Left
}

// Left counts the texts that were left out.
type Left struct {
	Empty      int `json:"empty"`      // texts without a letter
	Duplicates int `json:"duplicates"` // ids that occurred on an earlier line
}

// badShown is how many bad lines an error names.
const badShown = 5

// ReadExamples reads {"text","label"} or {"text","labels":[…]} lines, all of one kind, optionally with "id"; other
// fields are ignored. field names another field than "label" or "labels"; "" is these. Lines that are no such thing are
// ErrData with their numbers; empty texts, and ids that were there before, are left out and counted.
func ReadExamples(r io.Reader, source, field string) (*Examples, error) {
	e := &Examples{Source: source}
	hash := sha256.New()
	var bad []error
	count, first := 0, 0
	ids := map[string]bool{}
	for line, err := range jsonl.Lines(io.TeeReader(r, hash), jsonl.MaxLineBytes) {
		if err != nil && !errors.Is(err, jsonl.ErrLong) {
			return nil, fmt.Errorf("%s: reading line %d: %w", source, line.Number, err)
		}
		raw := line.Text()
		if err == nil && len(raw) == 0 {
			continue
		}
		var x Example
		var multi bool
		if err == nil {
			x, multi, err = parseExample(raw, field)
		}
		if err == nil && first > 0 && multi != e.Multi {
			err = fmt.Errorf("it has %s, line %d has %s: a file has one kind", kindOf(multi), first, kindOf(e.Multi))
		}
		if err != nil {
			if count++; count <= badShown {
				bad = append(bad, &jsonl.LineError{Source: source, Line: line.Number, Err: err})
			}
			continue
		}
		if first == 0 {
			e.Multi, first = multi, line.Number
		}
		e.add(x, ids)
	}
	if count > badShown {
		bad = append(bad, fmt.Errorf("… and %d more", count-badShown))
	}
	if count > 0 {
		return nil, fmt.Errorf("%w: bad lines: %d\n%w", ErrData, count, errors.Join(bad...))
	}
	if len(e.List) == 0 {
		return nil, fmt.Errorf("%w: %s: no labelled texts in it (%d were empty)", ErrData, source, e.Left.Empty)
	}
	e.Digest = "sha256:" + hex.EncodeToString(hash.Sum(nil))
	return e, nil
}

func (e *Examples) add(x Example, ids map[string]bool) {
	switch {
	case strings.TrimSpace(x.Text) == "":
		e.Left.Empty++
	case x.ID != "" && ids[x.ID]:
		e.Left.Duplicates++
	default:
		ids[x.ID] = true
		e.List = append(e.List, x)
	}
}

func kindOf(multi bool) string {
	if multi {
		return "a list of labels"
	}
	return "one label"
}

// parseExample reads a line.
func parseExample(raw []byte, field string) (x Example, multi bool, err error) {
	if !utf8.Valid(raw) {
		return x, false, errors.New("not valid UTF-8")
	}
	var v map[string]json.RawMessage
	if err := json.Unmarshal(raw, &v); err != nil || v == nil {
		return x, false, errors.New("not a JSON object")
	}
	text, ok := v["text"]
	if !ok {
		return x, false, errors.New(`"text" is missing`)
	}
	if err := json.Unmarshal(text, &x.Text); err != nil || string(text) == "null" {
		return x, false, errors.New(`"text" is no string`)
	}
	if id, ok := v["id"]; ok {
		if err := json.Unmarshal(id, &x.ID); err != nil {
			return x, false, errors.New(`"id" is no string`)
		}
	}
	names := []string{field}
	if field == "" {
		names = []string{"label", "labels"}
	}
	var found []json.RawMessage
	for _, name := range names {
		if l, ok := v[name]; ok {
			found = append(found, l)
		}
	}
	switch {
	case len(found) == 0:
		return x, false, fmt.Errorf("%q is missing", strings.Join(names, `" or "`))
	case len(found) > 1:
		return x, false, errors.New(`it has "label" and "labels": one of them is expected`)
	}
	x.Labels, multi, err = parseLabels(found[0])
	return x, multi, err
}

func parseLabels(raw json.RawMessage) (labels []string, multi bool, err error) {
	var one *string
	if json.Unmarshal(raw, &one) == nil && one != nil {
		labels = []string{*one}
	} else {
		var list []*string
		if err := json.Unmarshal(raw, &list); err != nil || list == nil {
			return nil, false, errors.New("the label is neither a string nor a list of strings")
		}
		multi = true
		for _, l := range list {
			if l == nil {
				return nil, false, errors.New("a label is null")
			}
			labels = append(labels, *l)
		}
	}
	for _, l := range labels {
		if strings.TrimSpace(l) == "" || len(l) > maxLabelBytes {
			return nil, false, fmt.Errorf("a label is empty or longer than %d bytes", maxLabelBytes)
		}
	}
	slices.Sort(labels)
	return slices.Compact(labels), multi, nil
}

const maxLabelBytes = 1 << 10
