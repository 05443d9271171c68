package llm

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// mark is inserted behind the first character of what would be a special token in a literal text. Templates carry it
// along; the tokenizer finds no token there and removes the mark (llm/binding/literal.h). It is a noncharacter of
// Unicode, which is not used in texts.
const mark = "\uFDD0"

// literals finds the texts of a model's special tokens: a tree with a branch for each byte.
type literals struct {
	branch map[literalBranch]int32
	ends   []bool // by node: a token's text ends here
	first  [256]bool
}

type literalBranch struct {
	node int32
	b    byte
}

func newLiterals() *literals {
	return &literals{branch: map[literalBranch]int32{}, ends: []bool{false}}
}

// add adds a token's text. A single character cannot be broken, and no chat format uses one.
func (l *literals) add(text string) {
	if utf8.RuneCountInString(text) < 2 {
		return
	}
	l.first[text[0]] = true
	node := int32(0)
	for i := range len(text) {
		at := literalBranch{node, text[i]}
		next, ok := l.branch[at]
		if !ok {
			next = int32(len(l.ends))
			l.ends = append(l.ends, false)
			l.branch[at] = next
		}
		node = next
	}
	l.ends[node] = true
}

// begins reports whether s begins with a token's text.
func (l *literals) begins(s string) bool {
	node := int32(0)
	for i := range len(s) {
		next, ok := l.branch[literalBranch{node, s[i]}]
		if !ok {
			return false
		}
		if node = next; l.ends[node] {
			return true
		}
	}
	return false
}

// mark returns s with a mark in every token's text. A mark that s already has becomes U+FFFD, as invalid UTF-8 does.
func (l *literals) mark(s string) string {
	s = strings.ReplaceAll(s, mark, "\uFFFD")
	var b strings.Builder
	from := 0
	for i := range len(s) {
		if !l.first[s[i]] || !l.begins(s[i:]) {
			continue
		}
		_, n := utf8.DecodeRuneInString(s[i:])
		b.WriteString(s[from : i+n])
		b.WriteString(mark)
		from = i + n
	}
	if from == 0 {
		return s
	}
	b.WriteString(s[from:])
	return b.String()
}

// markJSON is mark for the strings of a JSON text.
func (l *literals) markJSON(text []byte) (json.RawMessage, error) {
	var out bytes.Buffer
	for {
		begin := bytes.IndexByte(text, '"') // JSON has quotes around strings only
		if begin < 0 {
			out.Write(text)
			return out.Bytes(), nil
		}
		out.Write(text[:begin])
		dec := json.NewDecoder(bytes.NewReader(text[begin:]))
		var s string
		if err := dec.Decode(&s); err != nil {
			return nil, fmt.Errorf("llm: %w: %w", ErrOptions, err)
		}
		quoted, err := plainJSON(l.mark(s))
		if err != nil {
			return nil, err
		}
		out.Write(quoted)
		text = text[begin+int(dec.InputOffset()):]
	}
}

// plainJSON returns JSON in which <, > and & are not escaped.
func plainJSON(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("llm: %w: %w", ErrOptions, err)
	}
	return bytes.TrimRight(b.Bytes(), "\n"), nil
}

// ContentCounter returns a function that counts the tokens of a message's content as g does, and whether g takes
// contents literally, so that nothing in them counts as a mark of the chat format. A generator that wraps another one
// has a method Unwrap() Generator.
func ContentCounter(g Generator) (count func(text string) (int, error), literal bool) {
	if l, ok := unwrapped[interface {
		CountContent(text string) (int, error)
		LiteralContents() bool
	}](g); ok && l.LiteralContents() {
		return l.CountContent, true
	}
	return g.CountTokens, false
}

// unwrapped returns the outermost generator in a chain of wrappers that implements T.
func unwrapped[T any](g Generator) (T, bool) {
	for {
		if t, ok := g.(T); ok {
			return t, true
		}
		w, ok := g.(interface{ Unwrap() Generator })
		if !ok {
			return *new(T), false
		}
		g = w.Unwrap()
	}
}

// special is a token that a tokenizer finds written out in a text.
type special struct {
	text    string
	defined bool // by the user: a word of the training texts, not a control token
	end     bool // of a turn
}

// formatMarks matches what chat formats write around contents; most of it is control tokens.
var formatMarks = regexp.MustCompile(`<\|[^<>|\s]{1,64}\|>|<｜[^<>｜\s]{1,64}｜>|\[/?[A-Z][A-Z_]{2,}\]|<</?SYS>>|` +
	`</?(?:s|start_of_turn|end_of_turn|bos|eos|turn|tool_call|tool_response|think)>`)

// plainMarks returns a template's marks that are not tokens: Llama 2's [INST] is ordinary text, which contents may
// hold.
func plainMarks(specials []special, template string) []string {
	tokens := map[string]bool{}
	for _, s := range specials {
		tokens[s.text] = true
	}
	return slices.DeleteFunc(formatMarks.FindAllString(template, -1), func(m string) bool { return tokens[m] })
}

// literalsOf returns the texts to mark in an assistant's messages and in all others: control tokens and, but for what
// the assistant wrote, which templates read, user-defined tokens of the chat template (<tool_call>, <think>).
func literalsOf(specials []special, template string) (assistant, others *literals) {
	assistant, others = newLiterals(), newLiterals()
	for _, s := range specials {
		if !s.defined {
			assistant.add(s.text)
			others.add(s.text)
		} else if strings.ContainsAny(s.text, "<>[]|") && strings.Contains(template, s.text) {
			others.add(s.text)
		}
	}
	return assistant, others
}
