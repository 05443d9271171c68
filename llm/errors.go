package llm

import (
	"errors"
	"fmt"

	"github.com/sluice-rag/sluice/llm/gguf"
)

var (
	// ErrUnavailable: this program was built without the tag "native", hence without llama.cpp.
	ErrUnavailable = errors.New("built without llama.cpp: run `make build`, which does the set-up and sets the build tag native")
	// ErrModel: the file is missing, not a GGUF, damaged, or not a model that generates text.
	ErrModel = gguf.ErrModel
	// ErrOptions: an option or a request's setting is out of range.
	ErrOptions = errors.New("invalid option")
	// ErrPromptTooLong: the prompt leaves no room in the context; see PromptTooLongError.
	ErrPromptTooLong = errors.New("prompt too long")
	// ErrTemplate: the messages cannot be formatted with the model's chat template.
	ErrTemplate = errors.New("no usable chat template")
	// ErrTokens: the tokens do not come from any text; the error says why.
	ErrTokens = errors.New("not the tokens of a text")
	// ErrTools: the model's chat template fails with messages that have to do with tools.
	ErrTools = errors.New("the model has no tools")
	// ErrBusy: as many requests wait for a slot as may (Options.Queue).
	ErrBusy = errors.New("too many requests are waiting")
	// ErrGrammar: a request's grammar needs more work for a token than it may; see GrammarLimitError.
	ErrGrammar = errors.New("the grammar takes too long")
	// ErrCPU: the processor lacks instructions that llama.cpp needs.
	ErrCPU = errors.New("llama.cpp needs a processor with AVX2, FMA, F16C and BMI2, and this one lacks some of them")
	// ErrGPU: layers are to be offloaded, and there is no back-end or no GPU for it; the error says why.
	ErrGPU = errors.New("no layer can be offloaded")
	// ErrGenerate: llama.cpp failed while it generated.
	ErrGenerate = errors.New("generation failed")
	// ErrClosed: the model was closed.
	ErrClosed = errors.New("the model is closed")
)

// PromptTooLongError says by how much a prompt is too long. It unwraps to ErrPromptTooLong.
type PromptTooLongError struct {
	Tokens int // of the prompt
	Limit  int // most tokens of a prompt: one less than the context
}

func (e *PromptTooLongError) Error() string {
	return fmt.Sprintf("llm: %v: it has %d tokens, at most %d fit; shorten it or open the model with a larger context",
		ErrPromptTooLong, e.Tokens, e.Limit)
}

func (e *PromptTooLongError) Unwrap() error { return ErrPromptTooLong }

// GrammarLimitError says how much work a grammar took for one token, in stack elements compared and candidates checked.
// It unwraps to ErrGrammar. A grammar is ambiguous when it can read the same text in many ways; llama.cpp follows each.
type GrammarLimitError struct {
	Steps int64 // when it was stopped
	Limit int64
}

func (e *GrammarLimitError) Error() string {
	return fmt.Sprintf("llm: %v: %d steps for one token, at most %d are taken; "+
		"write it so that a text can be read in one way only", ErrGrammar, e.Steps, e.Limit)
}

func (e *GrammarLimitError) Unwrap() error { return ErrGrammar }
