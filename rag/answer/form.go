package answer

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/sluice-rag/sluice/llm"
	"github.com/sluice-rag/sluice/rag/knowledge"
	"github.com/sluice-rag/sluice/rag/prompt"
)

// Form is what a program demands of the form of an answer, as OpenAI's API names it.
type Form struct {
	Stop []string // the answer ends before the first of these
	// Schema, a JSON Schema, is followed by the answer, which the language model writes. Such an answer has no
	// citations, and its sentences are not checked. Where the passages do not answer, the answer is IDontKnow.
	Schema json.RawMessage
	// Tools are what the language model may call instead of answering, and ToolChoice says whether it must. They need
	// FlowAsk: the graders of longer flows judge texts.
	Tools      []llm.Tool
	ToolChoice string
	// Called holds the calls of tools since the question and their results.
	Called []llm.Message
}

// calls reports whether the answer may be a call of a tool, or follows one.
func (f Form) calls() bool { return len(f.Tools)+len(f.Called) > 0 }

// written reports whether only a language model can write the answer.
func (f Form) written() bool { return len(f.Schema) > 0 || f.calls() }

// check returns an error if other options contradict the form.
func (f Form) check(o Options) error {
	switch {
	case f.written() && o.Style == Quote:
		return fmt.Errorf("%w: style %q: a quote follows no schema and calls no tools; set the style to %q or %q",
			knowledge.ErrOption, Quote, Auto, Write)
	case f.calls() && (o.Graph != nil || o.Flow != FlowAsk):
		return fmt.Errorf("%w: flow %q: an answer with tools takes the flow %q", knowledge.ErrOption, o.Flow, FlowAsk)
	}
	return nil
}

// tokens returns how many tokens of the prompt the tools, their calls and results take.
func (f Form) tokens(count func(string) (int, error)) (int, error) {
	if !f.calls() {
		return 0, nil
	}
	var b strings.Builder
	for _, part := range []any{f.Tools, f.Called} {
		if err := json.NewEncoder(&b).Encode(part); err != nil {
			return 0, err
		}
	}
	return count(b.String())
}

// fits returns an error if the prompt has no place for tools.
func (f Form) fits(p prompt.Prompt) error {
	if f.calls() && len(p.Messages) == 0 {
		return fmt.Errorf("%w: template %q is one text, which has no place for tools", knowledge.ErrOption, p.Template)
	}
	return nil
}

// ends returns the text before the first of the strings that end an answer.
func (f Form) ends(text string) string {
	for _, s := range f.Stop {
		text, _, _ = strings.Cut(text, s)
	}
	return text
}
