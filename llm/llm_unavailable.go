//go:build !native

package llm

import "context"

// Available reports whether this program can run models.
const Available = false

// Without the tag native nothing is linked: functions and methods return ErrUnavailable or zero values.

func ISA() string                                           { return "" }
func NativeDigest() string                                  { return "" }
func OwnOperations() (attention, products int64)            { return 0, 0 }
func ExitOnAbort() error                                    { return nil } // no native code could abort
func Requantise(string, string, string) error               { return ErrUnavailable }
func Open(context.Context, string, Options) (*Model, error) { return nil, ErrUnavailable }

// Model is a loaded model; a program built without the tag native never has one.
type Model struct{}

var _ Generator = (*Model)(nil)

func (*Model) Generate(context.Context, Request, func(string) error) (Result, error) {
	return Result{}, ErrUnavailable
}
func (*Model) CountTokens(string) (int, error)                      { return 0, ErrUnavailable }
func (*Model) Tokenize(string) ([]int32, error)                     { return nil, ErrUnavailable }
func (*Model) TextOf([]int32) (string, error)                       { return "", ErrUnavailable }
func (*Model) TokenizeMessages([]Message, ...Tool) ([]int32, error) { return nil, ErrUnavailable }
func (*Model) CountContent(string) (int, error)                     { return 0, ErrUnavailable }
func (*Model) LiteralContents() bool                                { return false }
func (*Model) Ready() error                                         { return ErrUnavailable }
func (*Model) Thinks() bool                                         { return false }
func (*Model) HasTools() error                                      { return ErrUnavailable }
func (*Model) ApplyTemplate([]Message) (string, error)              { return "", ErrUnavailable }
func (*Model) Pin(context.Context, []Message) (*Pin, error)         { return nil, ErrUnavailable }
func (*Model) PinPrompt(context.Context, string) (*Pin, error)      { return nil, ErrUnavailable }
func (*Model) ContextSize() int                                     { return 0 }
func (*Model) Info() Info                                           { return Info{} }
func (*Model) Stats() Stats                                         { return Stats{} }
func (*Model) Close() error                                         { return nil }

// Pin is a prompt's beginning that stays in the KV cache; a program built without the tag native never has one.
type Pin struct {
	Tokens int
}

func (*Pin) Release() {}

// Encoder gives vectors of texts by a GGUF model; a program built without the tag native never has one.
type Encoder struct{}

func OpenEncoder(context.Context, string, EncoderOptions) (*Encoder, error) {
	return nil, ErrUnavailable
}
func (*Encoder) Info() Info                                         { return Info{} }
func (*Encoder) Dim() int                                           { return 0 }
func (*Encoder) Options() EncoderOptions                            { return EncoderOptions{} }
func (*Encoder) Tokenize(string) ([]int32, error)                   { return nil, ErrUnavailable }
func (*Encoder) Encode(context.Context, [][]int32, []float32) error { return ErrUnavailable }
func (*Encoder) Close() error                                       { return nil }
