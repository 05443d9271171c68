package experiment

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
)

// Answered is an answer of a journal.
type Answered struct {
	Asked
	ID     string             // of the question
	Answer string             // "": the generator wrote nothing
	Judged map[string]float64 // by measure: what the judge says of it
	MS     map[string]float64 // milliseconds by stage
}

// IsJournal reports whether a file that begins with the text is the journal of an experiment.
func IsJournal(text []byte) bool {
	var h journalHead
	line, _, _ := bytes.Cut(text, []byte("\n"))
	return json.Unmarshal(line, &h) == nil && h.Version > 0
}

// ReadAnswers reads the answers of a journal, whose run may still be under way. unnamed counts those of an older
// version of the program, which do not say what was asked. Combinations of the same name that differ in other settings
// are told apart by their digests. Another file is ErrJournal.
func ReadAnswers(r io.Reader) (list []Answered, unnamed int, err error) {
	text, err := io.ReadAll(r)
	if err != nil {
		return nil, 0, fmt.Errorf("experiment: journal: %w", err)
	}
	if !IsJournal(text) {
		return nil, 0, fmt.Errorf("%w: it is not the journal of an experiment", ErrJournal)
	}
	cells := map[string]string{} // by part and name: the first digest
	text = text[:bytes.LastIndexByte(text, '\n')+1]
	n := 0
	for line := range bytes.Lines(text) {
		var l journalLine
		if n++; n == 1 {
			continue
		}
		if err := json.Unmarshal(line, &l); err != nil {
			return nil, 0, fmt.Errorf("%w: line %d is damaged: %w", ErrJournal, n, err)
		}
		if l.Item.Asked == nil {
			if l.Item.Answer != "" {
				unnamed++
			}
			continue
		}
		a := Answered{Asked: *l.Item.Asked, ID: l.ID, Answer: l.Item.Answer, Judged: map[string]float64{},
			MS: l.Item.MS}
		key := a.Part + "\x00" + a.Cell
		if cells[key] == "" {
			cells[key] = l.Cell
		}
		if cells[key] != l.Cell {
			a.Cell += fmt.Sprintf(" (%.6s)", l.Cell)
		}
		for m, s := range l.Item.Scores {
			if Judged(m) && s.Unscored == "" {
				a.Judged[m] = s.Value
			}
		}
		list = append(list, a)
	}
	return list, unnamed, nil
}
