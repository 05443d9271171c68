package pseudo

import (
	"github.com/sluice-rag/sluice/llm"
	"github.com/sluice-rag/sluice/rag/prompt"
)

// Chat is the Prompter for models that follow instructions: one request for all questions, made of the
// library's template "questions" and formatted with the model's chat template.
type Chat struct{ Library *prompt.Library }

// Requests makes one request for all n questions.
func (c Chat) Requests(passage string, n int) ([]Request, error) {
	p, err := c.Library.Questions(passage, "", n, prompt.Options{})
	if err != nil {
		return nil, err
	}
	return []Request{{Questions: n, Request: llm.Request{Messages: p.Messages, Temperature: temperature}}}, nil
}
