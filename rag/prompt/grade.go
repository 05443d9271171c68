package prompt

import (
	"cmp"
	"fmt"
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

// Verdicts returns the key of a grader's JSON and the choices that it has, the careful one last.
func Verdicts(g Grader) (key string, choices []Choice) {
	switch g {
	case Router:
		return "source", []Choice{
			{"own_knowledge", "common knowledge or small talk, which needs no document"},
			{"web_search", "recent events, and all that the documents do not cover"},
			{"vectorstore", "the documents of the knowledge base"}}
	case Documents:
		return "relevant", []Choice{{"yes", "some of the passages are about the question"}, {"no", "none of them is"}}
	case Hallucination:
		return "grounded", []Choice{{"yes", "the passages back the answer"},
			{"no", "the answer says something that the passages do not"}}
	}
	return "resolves", []Choice{{"yes", "the answer resolves the question"},
		{"no", "it does not, or says that it cannot"}}
}

// Graded is the input of a grader.
type Graded struct {
	Question, Answer string
	Passages         []Passage
	Choices          []Choice
	Seed             int64 // of marks and order
}

// Grade asks for one of the choices. Passages that do not fit are shortened or dropped, as for Context, and the others
// stand in an order that is drawn. They and the answer stand between the marks of a Fence and are never in the system's
// message. The fence is drawn from the passages and the seed: what was read of them is found in the cache when another
// answer is graded.
func (l *Library) Grade(g Grader, in Graded, o Options) (Prompt, error) {
	if !slices.Contains(Graders(), g) {
		return Prompt{}, fmt.Errorf("%w: grader %q is not one of %v", ErrTemplate, g, Graders())
	}
	material := func(text string) string { return withoutVerdicts(delimited(text), in.Choices) }
	all, texts := make([]shown, len(in.Passages)), []string{}
	for i, p := range in.Passages {
		all[i] = shown{i + 1, oneLine(material(p.Chunk.Heading)),
			strings.TrimSpace(material(cmp.Or(p.Text, p.Chunk.Text)))}
		texts = append(texts, all[i].Heading, all[i].Text)
	}
	if len(texts) == 0 {
		texts = append(texts, in.Answer)
	}
	fence := NewFence(in.Seed, texts...)
	f := fitter{l: l, name: "flow/" + string(g), o: o, drawn: fence.Order(len(all)),
		v: values{Question: delimited(in.Question), Text: material(in.Answer), Choices: in.Choices, Mark: fence.mark}}
	p, err := f.fit(all)
	p.Dropped = len(in.Passages) - len(p.Citations)
	return p, err
}
