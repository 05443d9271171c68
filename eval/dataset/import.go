package dataset

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// Formats returns the names that Import knows.
func Formats() []string { return []string{"squad", "crsb", "scibench"} }

// Import reads a file of another format:
//
//   - squad: SQuAD's JSON, version 1.1 or 2.0. Contexts are named by article and number.
//   - crsb: JSON lines or an array of contexts with pseudo-queries: "context" or "text", "topic", and "pseudo_queries",
//     "queries" or "questions" as a list of texts.
//   - scibench: an array of problems with "problem_text", "answer_number", "unit", "source", "problemid", or JSON lines
//     with "id", "text", "subject", "answer". Problems are questions without a context.
//
// What is no such file is ErrData; entries that lack something are counted.
func Import(format string, text []byte) (*Set, error) {
	s := &Set{}
	var err error
	switch format {
	case "squad":
		err = s.squad(text)
	case "crsb":
		err = s.each(text, s.crsb)
	case "scibench":
		err = s.each(text, s.scibench)
	default:
		return nil, fmt.Errorf("%w: format %q (known: %s)", ErrData, format, strings.Join(Formats(), ", "))
	}
	if err == nil && len(s.Contexts)+len(s.Queries) == 0 {
		err = fmt.Errorf("nothing in it can be used; %s", s.Faults)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: as %s: %w", ErrData, format, err)
	}
	return s, nil
}

func (s *Set) squad(text []byte) error {
	var file struct {
		Data []struct {
			Title      string
			Paragraphs []struct {
				Context string
				QAs     []struct {
					ID, Question string
					Impossible   *bool `json:"is_impossible"`
					Answers      []struct{ Text string }
				}
			}
		}
	}
	if err := json.Unmarshal(text, &file); err != nil {
		return err
	}
	seen := map[string]bool{}
	articles := map[string]int{}
	for _, a := range file.Data {
		name := a.Title
		if articles[a.Title]++; articles[a.Title] > 1 {
			name += "~" + strconv.Itoa(articles[a.Title])
		}
		for i, p := range a.Paragraphs {
			c := Context{ID: fmt.Sprintf("%s-%03d", name, i), Topic: a.Title, Text: p.Context}
			if strings.TrimSpace(p.Context) == "" {
				s.Faults.add(&s.Faults.BadLines, "context %q is empty", c.ID)
				continue
			}
			s.Contexts = append(s.Contexts, c)
			for _, q := range p.QAs {
				answerable := q.Impossible == nil || !*q.Impossible
				out := Query{ID: q.ID, ContextID: c.ID, Topic: a.Title, Text: q.Question, Answerable: &answerable}
				known := map[string]bool{}
				for _, x := range q.Answers {
					if answerable && !known[x.Text] {
						known[x.Text] = true
						out.Answers = append(out.Answers, x.Text)
					}
				}
				s.add(out, seen)
			}
		}
	}
	return nil
}

// add adds a question unless it lacks something, or its id was there.
func (s *Set) add(q Query, seen map[string]bool) {
	f := &s.Faults
	switch {
	case q.ID == "" || strings.TrimSpace(q.Text) == "":
		f.add(&f.BadLines, "question %q of context %q lacks id or text", q.ID, q.ContextID)
		return
	case seen[q.ID]:
		f.add(&f.DuplicateQuery, "question %q", q.ID)
		return
	case q.CanAnswer() && len(q.Answers) == 0:
		f.add(&f.NoTruth, "question %q", q.ID)
	}
	seen[q.ID] = true
	s.Queries = append(s.Queries, q)
}

// each reads an array, or one value after another.
func (s *Set) each(text []byte, entry func(raw json.RawMessage, n int, seen map[string]bool) error) error {
	var all []json.RawMessage
	if t := bytes.TrimSpace(text); len(t) > 0 && t[0] == '[' {
		if err := json.Unmarshal(t, &all); err != nil {
			return err
		}
	} else {
		for line := range bytes.Lines(text) {
			if line = bytes.TrimSpace(line); len(line) > 0 {
				all = append(all, line)
			}
		}
	}
	seen := map[string]bool{}
	for i, raw := range all {
		if err := entry(raw, i, seen); err != nil {
			s.Faults.add(&s.Faults.BadLines, "entry %d: %v", i+1, err)
		}
	}
	return nil
}

func (s *Set) crsb(raw json.RawMessage, n int, seen map[string]bool) error {
	var e struct {
		ID, Topic, Context, Text string
		Pseudo                   []string `json:"pseudo_queries"`
		Queries, Questions       []string
	}
	if err := json.Unmarshal(raw, &e); err != nil {
		return err
	}
	c := Context{ID: e.ID, Topic: e.Topic, Text: e.Context}
	c.ID = cmp.Or(c.ID, fmt.Sprintf("crsb-%05d", n))
	c.Text = cmp.Or(c.Text, e.Text)
	if strings.TrimSpace(c.Text) == "" {
		return fmt.Errorf("context %q is empty", c.ID)
	}
	if seen["context "+c.ID] {
		s.Faults.add(&s.Faults.DuplicateContext, "context %q", c.ID)
		return nil
	}
	seen["context "+c.ID] = true
	s.Contexts = append(s.Contexts, c)
	for i, list := range [][]string{e.Pseudo, e.Queries, e.Questions} {
		for j, q := range list {
			s.add(Query{ID: fmt.Sprintf("%s-q%d", c.ID, 100*i+j+1), ContextID: c.ID, Topic: c.Topic, Text: q}, seen)
		}
	}
	return nil
}

func (s *Set) scibench(raw json.RawMessage, n int, seen map[string]bool) error {
	var e struct {
		ID, Text, Subject, Answer, Source, Unit string
		Problem                                 string          `json:"problem_text"`
		Number                                  json.RawMessage `json:"answer_number"`
		ProblemID                               string          `json:"problemid"`
	}
	if err := json.Unmarshal(raw, &e); err != nil {
		return err
	}
	q := Query{ID: e.ID, Topic: e.Subject, Text: e.Text}
	if e.Problem != "" {
		q.ID = strings.Join(strings.Fields(e.Source+"-"+e.ProblemID), "")
		if e.ProblemID == "" {
			q.ID = fmt.Sprintf("%s-%d", e.Source, n)
		}
		q.Text, q.Topic = strings.TrimSpace(e.Problem), subject(e.Source)
		e.Answer = strings.TrimSpace(strings.Trim(string(e.Number), `"`) + " " + e.Unit)
	}
	if e.Answer != "" {
		q.Answers = []string{e.Answer}
	}
	s.add(q, seen)
	return nil
}

// subject of a SciBench book.
func subject(source string) string {
	switch source {
	case "atkins", "chemmc", "quan", "matter":
		return "chemistry"
	case "fund", "class", "thermo":
		return "physics"
	case "calculus", "diff", "stat":
		return "mathematics"
	}
	return source
}
