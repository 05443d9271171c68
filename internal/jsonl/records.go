package jsonl

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"unicode/utf8"
)

// Ranking is a line of a batch of queries with the documents to put in order.
type Ranking struct {
	ID        string   `json:"id"`
	Query     string   `json:"query"`
	Documents []string `json:"documents"`
}

// Rankings reads {"id","query","documents":[…]} lines, as Items reads {"id","text"}. A document may be empty, the query
// may not; there may be no document.
func Rankings(r io.Reader, source string) iter.Seq2[Ranking, error] {
	return records(r, source, decodeRanking)
}

func decodeRanking(line []byte) (Ranking, error) {
	var v struct {
		ID        *string    `json:"id"`
		Query     *string    `json:"query"`
		Documents *[]*string `json:"documents"`
	}
	if err := object(line, &v, `{"id","query","documents"}`); err != nil {
		return Ranking{}, err
	}
	switch {
	case v.ID == nil || *v.ID == "":
		return Ranking{}, errors.New(`"id" is missing`)
	case v.Query == nil:
		return Ranking{}, fmt.Errorf(`"query" is missing (id %q)`, *v.ID)
	case strings.TrimSpace(*v.Query) == "":
		return Ranking{}, fmt.Errorf(`"query" is empty (id %q)`, *v.ID)
	case v.Documents == nil:
		return Ranking{}, fmt.Errorf(`"documents" are missing (id %q)`, *v.ID)
	}
	out := Ranking{ID: *v.ID, Query: *v.Query, Documents: make([]string, len(*v.Documents))}
	for i, d := range *v.Documents {
		if d == nil {
			return Ranking{}, fmt.Errorf(`document %d is null where a string is wanted (id %q)`, i, *v.ID)
		}
		out.Documents[i] = *d
	}
	return out, nil
}

// object decodes a line that is to be an object with certain fields.
func object(line []byte, to any, fields string) error {
	if !utf8.Valid(line) {
		return errors.New("not valid UTF-8")
	}
	err := json.Unmarshal(line, to)
	var typed *json.UnmarshalTypeError
	if !errors.As(err, &typed) {
		return err
	}
	if typed.Field == "" {
		return fmt.Errorf("a JSON %s where an object %s is wanted", typed.Value, fields)
	}
	want := "a string"
	if typed.Field == "documents" && typed.Type.Kind().String() == "slice" {
		want = "a list of strings"
	}
	return fmt.Errorf("%q is a JSON %s where %s is wanted", typed.Field, typed.Value, want)
}

// records decodes the lines of r that are not blank. A bad line yields a *LineError and the sequence goes on; a read
// error of r ends it.
func records[T any](r io.Reader, source string, decode func([]byte) (T, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for line, err := range Lines(r, MaxLineBytes) {
			var v T
			if err != nil && !errors.Is(err, ErrLong) {
				yield(v, fmt.Errorf("%s: reading line %d: %w", source, line.Number, err))
				return
			}
			if err == nil {
				text := line.Text()
				if len(text) == 0 {
					continue
				}
				v, err = decode(text)
			}
			if err != nil {
				err = &LineError{Source: source, Line: line.Number, Err: err}
			}
			if !yield(v, err) {
				return
			}
		}
	}
}
