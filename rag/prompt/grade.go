package prompt

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Grader is a prompt that asks for one of several choices about a question.
type Grader string

// The graders of an answer graph.
const (
	Router        Grader = "router"        // where an answer is looked for
	Documents     Grader = "documents"     // whether passages are relevant
	Hallucination Grader = "hallucination" // whether passages back an answer
	AnswerGrader  Grader = "answer"        // whether an answer resolves the question
)

// Graders lists them.
func Graders() []Grader { return []Grader{Router, Documents, Hallucination, AnswerGrader} }

// Choice is a verdict that a grader may give.
type Choice struct {
	Name  string
	Means string
}

// Graded is what a grader is shown.
type Graded struct {
	Question, Answer string
	Passages         []Passage
	Choices          []Choice
}

// delimiter is what parts passages in the prompts of graders.
var delimiter = regexp.MustCompile(`(?i)<(/?)\s*passage`)

// delimited is a text that cannot end the passage that it stands in.
func delimited(s string) string { return delimiter.ReplaceAllString(readable(s), "< ${1}passage") }

// Grade asks for one of the choices. Passages that do not fit are shortened or dropped, as for Context; they and the
// answer are never in the system's message.
func (l *Library) Grade(g Grader, in Graded, o Options) (Prompt, error) {
	if !slices.Contains(Graders(), g) {
		return Prompt{}, fmt.Errorf("%w: grader %q is not one of %v", ErrTemplate, g, Graders())
	}
	all := make([]shown, len(in.Passages))
	for i, p := range in.Passages {
		text := p.Text
		if text == "" {
			text = p.Chunk.Text
		}
		all[i] = shown{i + 1, oneLine(delimited(p.Chunk.Heading)), strings.TrimSpace(delimited(text))}
	}
	f := fitter{l: l, name: "flow/" + string(g), o: o, v: values{Question: delimited(in.Question),
		Text: delimited(in.Answer), Choices: in.Choices}}
	p, err := f.fit(all)
	p.Dropped = len(in.Passages) - len(p.Citations)
	return p, err
}
