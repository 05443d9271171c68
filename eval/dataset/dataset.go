package dataset

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/sluice-rag/sluice/internal/durable"
	"github.com/sluice-rag/sluice/internal/jsonl"
)

// The files of a folder.
const (
	ContextsFile = "contexts.jsonl"
	QueriesFile  = "queries.jsonl"
)

// ErrData: a file is missing, is not what it should be, or holds nothing that can be used.
var ErrData = errors.New("dataset: not usable")

// Context is a passage of the base.
type Context struct {
	ID    string `json:"id"`
	Topic string `json:"topic,omitempty"`
	Text  string `json:"text"`
}

// Query is a question. Answerable says whether its context answers it; absent means that it does. A query without a
// context is out of scope.
type Query struct {
	ID         string   `json:"id"`
	ContextID  string   `json:"context_id,omitempty"`
	Topic      string   `json:"topic,omitempty"`
	Text       string   `json:"text"`
	Answerable *bool    `json:"answerable,omitempty"`
	Answers    []string `json:"answers,omitempty"`
	History    []Turn   `json:"history,omitempty"` // of the conversation before, oldest first
}

// Turn is a question of a conversation with its answer, which may be empty.
type Turn struct {
	User      string `json:"user"`
	Assistant string `json:"assistant,omitempty"`
}

// CanAnswer reports whether the query's context answers it.
func (q Query) CanAnswer() bool { return q.ContextID != "" && (q.Answerable == nil || *q.Answerable) }

// Faults counts what was left out, with the first of each kind.
type Faults struct {
	BadLines         int      `json:"bad_lines"`
	DuplicateContext int      `json:"duplicate_contexts"` // the first one of an id counts
	DuplicateQuery   int      `json:"duplicate_queries"`
	UnknownContext   int      `json:"unknown_contexts"` // questions whose context is not there
	NoTruth          int      `json:"no_truth"`         // answerable questions without an answer: kept
	Examples         []string `json:"examples,omitempty"`
}

// Total is how many lines were left out.
func (f Faults) Total() int {
	return f.BadLines + f.DuplicateContext + f.DuplicateQuery + f.UnknownContext
}

// add counts a fault, and keeps the first three of each kind.
func (f *Faults) add(kind *int, format string, args ...any) {
	if *kind++; *kind <= 3 {
		f.Examples = append(f.Examples, fmt.Sprintf(format, args...))
	}
}

// String returns a sentence, "" if nothing is wrong.
func (f Faults) String() string {
	var parts []string
	for _, x := range []struct {
		n    int
		what string
	}{{f.BadLines, "bad lines"}, {f.DuplicateContext, "contexts with an id that was there"},
		{f.DuplicateQuery, "questions with an id that was there"}, {f.UnknownContext,
			"questions whose context is missing"}, {f.NoTruth, "answerable questions without an answer (kept)"}} {
		if x.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", x.n, x.what))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return strings.Join(parts, ", ") + ": " + strings.Join(f.Examples, "; ")
}

// Set is the content of a folder.
type Set struct {
	Contexts []Context
	Queries  []Query
	Faults   Faults
}

// Open reads a folder. Without a usable context it is ErrData; questions may be missing.
func Open(dir string) (*Set, error) {
	s := &Set{}
	ids := map[string]bool{}
	err := readLines(filepath.Join(dir, ContextsFile), &s.Faults, func(c Context, where string) error {
		switch {
		case c.ID == "" || strings.TrimSpace(c.Text) == "":
			return errors.New("a context needs an id and a text")
		case ids[c.ID]:
			s.Faults.add(&s.Faults.DuplicateContext, "%s: context %q", where, c.ID)
			return nil
		}
		ids[c.ID] = true
		s.Contexts = append(s.Contexts, c)
		return nil
	})
	if err == nil && len(s.Contexts) == 0 {
		err = fmt.Errorf("%w: %s has no context; %s", ErrData, filepath.Join(dir, ContextsFile), s.Faults)
	}
	if err != nil {
		return nil, err
	}
	err = s.readQueries(filepath.Join(dir, QueriesFile), ids)
	if errors.Is(err, os.ErrNotExist) {
		err = nil
	}
	return s, err
}

func (s *Set) readQueries(path string, contexts map[string]bool) error {
	seen := map[string]bool{}
	return readLines(path, &s.Faults, func(q Query, where string) error {
		f := &s.Faults
		switch {
		case q.ID == "" || strings.TrimSpace(q.Text) == "":
			return errors.New("a question needs an id and a text")
		case seen[q.ID]:
			f.add(&f.DuplicateQuery, "%s: question %q", where, q.ID)
			return nil
		case q.ContextID != "" && !contexts[q.ContextID]:
			f.add(&f.UnknownContext, "%s: context %q", where, q.ContextID)
			return nil
		}
		if q.CanAnswer() && len(q.Answers) == 0 {
			f.add(&f.NoTruth, "%s: question %q", where, q.ID)
		}
		seen[q.ID] = true
		s.Queries = append(s.Queries, q)
		return nil
	})
}

// readLines calls each with the values of a file of JSON lines; its errors are counted as bad lines.
func readLines[T any](path string, f *Faults, each func(v T, where string) error) error {
	file, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrData, err)
	}
	defer file.Close()
	for line, err := range jsonl.Lines(file, jsonl.MaxLineBytes) {
		if err != nil && !errors.Is(err, jsonl.ErrLong) {
			return fmt.Errorf("%w: %s: %w", ErrData, path, err)
		}
		text := line.Text()
		if err == nil && len(text) == 0 {
			continue
		}
		where := fmt.Sprintf("%s:%d", filepath.Base(path), line.Number)
		var v T
		if err == nil {
			err = json.Unmarshal(text, &v)
		}
		if err == nil {
			err = each(v, where)
		}
		if err != nil {
			f.add(&f.BadLines, "%s: %v", where, err)
		}
	}
	return nil
}

// Save writes the set to a folder, which is made.
func (s *Set) Save(dir string) error {
	if err := durable.MkdirAll(dir); err != nil {
		return fmt.Errorf("dataset: %w", err)
	}
	if err := WriteLines(filepath.Join(dir, ContextsFile), s.Contexts); err != nil {
		return err
	}
	return WriteLines(filepath.Join(dir, QueriesFile), s.Queries)
}

// WriteLines writes values as JSON lines, whole or not at all.
func WriteLines[T any](path string, values []T) error {
	err := durable.Replace(path, func(w io.Writer) error {
		e := json.NewEncoder(w)
		e.SetEscapeHTML(false)
		for _, v := range values {
			if err := e.Encode(v); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("dataset: %w", err)
	}
	return nil
}
