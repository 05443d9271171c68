package train

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// Question is a question about a context.
type Question struct {
	Text, Context string
	Answers       []Answer // none: the context does not answer it
}

// Answer is a part of a context: Context[Start:][:len(Text)].
type Answer struct {
	Text  string
	Start int // byte
}

// maxQuestions is the largest file of questions that is read.
const maxQuestions = 1 << 30

// rawAnswer is an answer in a file. Its start counts characters (code points), as in SQuAD.
type rawAnswer struct {
	Text  *string `json:"text"`
	Start *int    `json:"answer_start"`
	Own   *int    `json:"start"` // in lines
}

// ReadQuestions reads a file of SQuAD 1.1 or 2.0, or lines of the form {"question","context","answers":[{"text",
// "start"}]}, whose answers are empty where the context does not answer the question. Starts count characters. Bad
// questions are an error that says where the first few are.
func ReadQuestions(r io.Reader, source string) (*Questions, error) {
	raw, err := io.ReadAll(io.LimitReader(r, maxQuestions+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", source, err)
	}
	if len(raw) > maxQuestions {
		return nil, fmt.Errorf("%w: %s: more than %d bytes", ErrData, source, maxQuestions)
	}
	if !isSQuAD(raw) {
		return readData(bytes.NewReader(raw), source, "questions", addLine)
	}
	sum := sha256.Sum256(raw)
	q := &Questions{Source: source, Digest: "sha256:" + hex.EncodeToString(sum[:])}
	err = addSQuAD(q, bytes.TrimPrefix(raw, []byte("\ufeff")))
	if err == nil && len(q.List) == 0 {
		err = fmt.Errorf("%w: %s: no questions in it", ErrData, source)
	}
	return q, err
}

// isSQuAD reports whether a file is one JSON object with "data", or seems to have been one.
func isSQuAD(raw []byte) bool {
	raw = bytes.TrimSpace(bytes.TrimPrefix(raw, []byte("\ufeff")))
	var v struct {
		Data json.RawMessage `json:"data"`
	}
	err := json.Unmarshal(raw, &v)
	if err == nil {
		return v.Data != nil
	}
	first, _, _ := bytes.Cut(raw, []byte("\n"))
	return !json.Valid(first) && bytes.Contains(raw, []byte(`"paragraphs"`))
}

// addLine reads one of our lines.
func addLine(q *Questions, _ int, raw []byte) error {
	var v struct {
		Question *string      `json:"question"`
		Context  *string      `json:"context"`
		Answers  *[]rawAnswer `json:"answers"`
	}
	if err := decodeLine(raw, &v); err != nil {
		return err
	}
	if v.Answers == nil {
		return errors.New(`"answers" is missing; it is an empty list where the context does not answer the question`)
	}
	if err := needText("context", v.Context); err != nil {
		return err
	}
	for i, a := range *v.Answers {
		(*v.Answers)[i].Start = a.Own
	}
	return addQuestion(q, v.Question, newContext(*v.Context), *v.Answers, "start")
}

// addSQuAD reads a file of SQuAD.
func addSQuAD(q *Questions, raw []byte) error {
	if at := invalidAt(raw); at >= 0 {
		return fmt.Errorf("%w: %s:%d: not valid UTF-8", ErrData, q.Source, lineAt(raw, int64(at)))
	}
	var v struct {
		Data []struct {
			Paragraphs []struct {
				Context *string `json:"context"`
				QAs     []struct {
					ID         string      `json:"id"`
					Question   *string     `json:"question"`
					Answers    []rawAnswer `json:"answers"`
					Impossible bool        `json:"is_impossible"`
				} `json:"qas"`
			} `json:"paragraphs"`
		} `json:"data"`
	}
	if err := json.Unmarshal(raw, &v); err != nil {
		return fmt.Errorf("%w: %s:%d: %w", ErrData, q.Source, lineAt(raw, offsetOf(err)), err)
	}
	var bad badData
	for i, d := range v.Data {
		for j, p := range d.Paragraphs {
			at := fmt.Sprintf("%s: data[%d].paragraphs[%d]", q.Source, i, j)
			if err := needText("context", p.Context); err != nil {
				bad.add(fmt.Errorf("%s: %w", at, err))
				continue
			}
			c := newContext(*p.Context)
			for k, x := range p.QAs {
				err := error(nil)
				if x.Impossible && len(x.Answers) > 0 {
					err = errors.New(`"is_impossible" is true, but it has "answers"`)
				}
				if err == nil {
					err = addQuestion(q, x.Question, c, x.Answers, "answer_start")
				}
				if err != nil {
					bad.add(fmt.Errorf("%s.qas[%d] (%q): %w", at, k, x.ID, err))
				}
			}
		}
	}
	return bad.err("questions")
}

// addQuestion checks a question and appends it. start is the name of the field.
func addQuestion(q *Questions, question *string, c *contextText, answers []rawAnswer, start string) error {
	if err := needText("question", question); err != nil {
		return err
	}
	x := Question{Text: *question, Context: c.text}
	for i, a := range answers {
		if err := needText("text", a.Text); err != nil {
			return fmt.Errorf("answers[%d]: %w", i, err)
		}
		if a.Start == nil {
			return fmt.Errorf("answers[%d]: %q is missing", i, start)
		}
		if *a.Start < 0 || *a.Start >= len(c.at)-1 {
			return fmt.Errorf("answers[%d]: %q is %d, the context has %d characters", i, start, *a.Start, len(c.at)-1)
		}
		at := c.at[*a.Start]
		if !strings.HasPrefix(c.text[at:], *a.Text) {
			return fmt.Errorf("answers[%d]: the context has %q at character %d, where %q is expected%s", i,
				c.part(*a.Start, utf8.RuneCountInString(*a.Text)), *a.Start, short(*a.Text), c.hint(*a.Text))
		}
		x.Answers = append(x.Answers, Answer{*a.Text, at})
	}
	q.List = append(q.List, x)
	return nil
}

// contextText is a context with the byte of each character and of its end.
type contextText struct {
	text string
	at   []int
}

func newContext(text string) *contextText {
	c := &contextText{text: text, at: make([]int, 0, len(text)+1)}
	for i := range text {
		c.at = append(c.at, i)
	}
	c.at = append(c.at, len(text))
	return c
}

// part returns some characters of the context, for a message.
func (c *contextText) part(from, count int) string {
	return short(c.text[c.at[from]:c.at[min(from+count, len(c.at)-1)]])
}

// hint says where the first occurrence of an answer is.
func (c *contextText) hint(answer string) string {
	at := strings.Index(c.text, answer)
	if at < 0 {
		return "; it is nowhere in the context"
	}
	return fmt.Sprintf("; the first one is at %d", utf8.RuneCountInString(c.text[:at]))
}

// short returns the beginning of a text, for a message.
func short(text string) string {
	const most = 40
	for i := range text {
		if i > most {
			return text[:i] + "…"
		}
	}
	return text
}

// invalidAt returns the first byte that is not valid UTF-8, or −1.
func invalidAt(raw []byte) int {
	if utf8.Valid(raw) {
		return -1
	}
	for i := 0; i < len(raw); {
		r, n := utf8.DecodeRune(raw[i:])
		if r == utf8.RuneError && n == 1 {
			return i
		}
		i += n
	}
	return -1
}

// lineAt returns the number of the line with a byte.
func lineAt(raw []byte, at int64) int {
	return 1 + bytes.Count(raw[:min(max(at, 0), int64(len(raw)))], []byte("\n"))
}

// offsetOf returns the byte that an error of encoding/json is about.
func offsetOf(err error) int64 {
	var syntax *json.SyntaxError
	var typed *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		return syntax.Offset
	case errors.As(err, &typed):
		return typed.Offset
	}
	return 0
}
