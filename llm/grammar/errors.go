package grammar

import (
	"errors"
	"fmt"
	"strings"
)

var (
	// ErrGrammar: a text is not a grammar that llama.cpp can follow; see SyntaxError.
	ErrGrammar = errors.New("invalid grammar")
	// ErrSchema: a JSON Schema is malformed, cannot be satisfied or says what a grammar cannot; see SchemaError.
	ErrSchema = errors.New("unusable JSON schema")
)

// SyntaxError says where and why a grammar was refused. It unwraps to ErrGrammar.
type SyntaxError struct {
	Line, Column int    // from 1; columns count characters
	Rule         string // the rule it is about; empty outside of one
	Reason       string
}

func (e *SyntaxError) Error() string {
	in := ""
	if e.Rule != "" {
		in = fmt.Sprintf(", rule %q", e.Rule)
	}
	return fmt.Sprintf("grammar: %v: line %d, column %d%s: %s", ErrGrammar, e.Line, e.Column, in, e.Reason)
}

func (e *SyntaxError) Unwrap() error { return ErrGrammar }

// SchemaError says which part of a schema was refused and why. It unwraps to ErrSchema.
type SchemaError struct {
	Path    string // JSON pointer to the schema within the document; "" is the whole document
	Keyword string // of that schema; empty when it is about the schema itself
	Reason  string
}

func (e *SchemaError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "grammar: %v: at %q", ErrSchema, "#"+e.Path)
	if e.Keyword != "" {
		fmt.Fprintf(&b, ", keyword %q", e.Keyword)
	}
	return b.String() + ": " + e.Reason
}

func (e *SchemaError) Unwrap() error { return ErrSchema }

// caught is deferred, and turns a panic whose value is an E into an error. The parser and the compiler are recursive,
// and a panic leaves them from any depth.
func caught[E error](err *error) {
	switch r := recover().(type) {
	case nil:
	case E:
		*err = r
	default:
		panic(r)
	}
}
