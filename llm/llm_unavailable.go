//go:build !native

package llm

import "context"

// Available reports whether this program can run models.
const Available = false

// ISA returns "": nothing is linked.
func ISA() string { return "" }

// NativeDigest returns "": nothing is linked.
func NativeDigest() string { return "" }

// OwnOperations returns zeros: nothing runs.
func OwnOperations() (attention, products int64) { return 0, 0 }

// Model is a loaded model; a program built without the tag native never has one.
type Model struct{}

var _ Generator = (*Model)(nil)

// Open returns ErrUnavailable.
func Open(context.Context, string, Options) (*Model, error) { return nil, ErrUnavailable }

// Generate returns ErrUnavailable.
func (*Model) Generate(context.Context, Request, func(string) error) (Result, error) {
	return Result{}, ErrUnavailable
}

// CountTokens returns ErrUnavailable.
func (*Model) CountTokens(string) (int, error) { return 0, ErrUnavailable }

// Tokenize returns ErrUnavailable.
func (*Model) Tokenize(string) ([]int32, error) { return nil, ErrUnavailable }

// TextOf returns ErrUnavailable.
func (*Model) TextOf([]int32) (string, error) { return "", ErrUnavailable }

// TokenizeMessages returns ErrUnavailable.
func (*Model) TokenizeMessages([]Message, ...Tool) ([]int32, error) { return nil, ErrUnavailable }

// CountMessages returns ErrUnavailable.
func (*Model) CountMessages([]Message, ...Tool) (int, error) { return 0, ErrUnavailable }

// CountContent returns ErrUnavailable.
func (*Model) CountContent(string) (int, error) { return 0, ErrUnavailable }

// LiteralContents returns false.
func (*Model) LiteralContents() bool { return false }

// Ready returns ErrUnavailable.
func (*Model) Ready() error { return ErrUnavailable }

// HasTools returns ErrUnavailable.
func (*Model) HasTools() error { return ErrUnavailable }

// ApplyTemplate returns ErrUnavailable.
func (*Model) ApplyTemplate([]Message) (string, error) { return "", ErrUnavailable }

// Pin returns ErrUnavailable.
func (*Model) Pin(context.Context, []Message) (*Pin, error) { return nil, ErrUnavailable }

// PinPrompt returns ErrUnavailable.
func (*Model) PinPrompt(context.Context, string) (*Pin, error) { return nil, ErrUnavailable }

// Pin is a prompt's beginning that stays in the KV cache; a program built without the tag native never has one.
type Pin struct {
	Tokens int
}

// Release does nothing.
func (*Pin) Release() {}

// ContextSize returns 0.
func (*Model) ContextSize() int { return 0 }

// Info returns nothing.
func (*Model) Info() Info { return Info{} }

// Stats returns nothing.
func (*Model) Stats() Stats { return Stats{} }

// Close does nothing.
func (*Model) Close() error { return nil }

// ExitOnAbort does nothing: there is no native code that could abort.
func ExitOnAbort() error { return nil }

// Requantise returns ErrUnavailable.
func Requantise(string, string, string) error { return ErrUnavailable }
