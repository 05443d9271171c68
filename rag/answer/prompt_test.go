package answer_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/internal/testmodels/overlay"
	"github.com/sluice-rag/sluice/rag/answer"
	"github.com/sluice-rag/sluice/rag/knowledge"
	"github.com/sluice-rag/sluice/rag/prompt"
	"github.com/sluice-rag/sluice/rag/retrieve"
)

// Template, order and compression reach the model, and the trace says them.
func TestPromptOptions(t *testing.T) {
	w := newWorld(t)
	const question = "Why do lighthouses warn ships of rocks?"
	a, err := w.ask(t, question,
		overlay.On(answer.DefaultOptions(),
			answer.Options{Gate: answer.GateOpen, Template: "tutor", Order: prompt.Ends, Compress: 1,
				Retrieve: retrieve.Options{K: 3, Sentences: true}}))
	if err != nil {
		t.Fatal(err)
	}
	c := a.Trace.Compression
	if a.Trace.Template != "context/tutor" || a.Trace.Order != prompt.Ends || c == nil || c.Budget != 1 ||
		c.Kept != 3 ||
		c.Sentences != 3 || a.Trace.Language != "" {
		t.Errorf("%+v, %+v", a.Trace, c)
	}
	request := w.Model.Requests()[0]
	text := request.Messages[1].Content
	if one, two := strings.Index(text, "[1] Lighthouses"), strings.Index(text, "[2]"); one < 0 ||
		two < strings.Index(text,
			"[3]") || !strings.Contains(request.Messages[0].Content, "tutor") {
		t.Errorf("%q", request.Messages)
	}
	if a.Citations[0].Sentence == nil || !strings.HasPrefix(a.Citations[0].Sentence.Text, "Lighthouses") {
		t.Errorf("%+v", a.Citations[0])
	}

	a, err = w.ask(t, question, overlay.On(answer.DefaultOptions(),
		answer.Options{Gate: answer.GateOpen, Template: "marked"}))
	if err != nil {
		t.Fatal(err)
	}
	request = w.Model.Requests()[1]
	if len(request.Messages) > 0 || !strings.Contains(request.Prompt, "<|context|>") || len(request.Stop) != 4 ||
		a.Trace.Compression != nil {
		t.Errorf("%+v", request)
	}
}

func TestBadPromptOptions(t *testing.T) {
	w := newWorld(t)
	for _, o := range []answer.Options{{Template: "loud"}, {Order: "random"}, {Compress: -1}} {
		if a, err := w.ask(t, "Why do lighthouses warn?", overlay.On(answer.DefaultOptions(),
			o)); !errors.Is(err, knowledge.ErrOption) || a != nil {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

// The answer is asked for in the question's language, unless that is English and so are the passages, or another one is
// asked for.
func TestAnswersLanguage(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct{ question, language, want string }{
		{"Warum warnen Leuchttürme Schiffe vor Felsen?", "", "German"},
		{"Why do lighthouses warn ships of rocks?", "", ""},
		{"Why do lighthouses warn ships of rocks?", "fr", "French"},
		{"Lighthouses?", "", ""},
	} {
		a, err := w.ask(t, c.question, overlay.On(answer.DefaultOptions(),
			answer.Options{Gate: answer.GateOpen, Language: c.language}))
		if err != nil {
			t.Fatal(err)
		}
		requests := w.Model.Requests()
		system := requests[len(requests)-1].Messages[0].Content
		if said := strings.Contains(system, "Answer in "); said != (c.want != "") || !strings.Contains(system, c.want) {
			t.Errorf("%q: %q", c.question, system)
		}
		if (a.Trace.Language == "") != (c.want == "") {
			t.Errorf("%q: %q", c.question, a.Trace.Language)
		}
	}
}
