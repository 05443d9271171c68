package llm

import (
	"strings"

	"github.com/sluice-rag/sluice/llm/grammar"
)

// bareCalls finds calls that a model writes without the marks of its format, as Qwen2.5-Coder does: lines that begin
// with {"name": "NAME", "arguments", perhaps behind ```json. A nil *bareCalls returns all text.
type bareCalls struct {
	format grammar.Format
	names  map[string]bool

	held   string // of a line that may be such a call
	inLine bool   // held is not the beginning of a line
	near   string // where the format's own trigger may stand: the end of the text, or its beginning with AtStart
	off    bool   // a call in the format's own way has begun
}

const maxBare = 256 // bytes that are held back at the beginning of a line

func newBareCalls(f grammar.Format, tools []Tool) *bareCalls {
	b := &bareCalls{format: f, names: map[string]bool{}}
	for _, t := range tools {
		b.names[t.Name] = true
	}
	return b
}

// push takes a piece of a completion. It returns the text that is not such a call, and the name of the function once
// one is called.
func (b *bareCalls) push(piece string) (text, called string) {
	if b == nil || b.off {
		return piece, ""
	}
	b.held += piece
	if b.off = b.triggered(piece); b.off {
		return b.finish(), ""
	}
	var out strings.Builder
	for b.held != "" {
		if b.inLine {
			end := strings.IndexByte(b.held, '\n') + 1
			b.inLine = end == 0
			if b.inLine {
				end = len(b.held)
			}
			out.WriteString(b.held[:end])
			b.held = b.held[end:]
			continue
		}
		name, partly := bareCall(b.held)
		if partly && len(b.held) <= maxBare || b.names[name] {
			return out.String(), name
		}
		b.inLine = true
	}
	return out.String(), ""
}

// triggered reports whether the text has come to the format's own trigger.
func (b *bareCalls) triggered(piece string) bool {
	trigger := b.format.Trigger
	b.near += piece
	if b.format.AtStart {
		b.near = b.near[:min(len(b.near), len(trigger))]
		return b.near == trigger
	}
	if strings.Contains(b.near, trigger) {
		return true
	}
	b.near = b.near[max(0, len(b.near)-len(trigger)):]
	return false
}

func (b *bareCalls) finish() string {
	if b == nil {
		return ""
	}
	held := b.held
	b.held = ""
	return held
}

// bareCall returns the name of the function that a line calls, or whether it may still become a call.
func bareCall(line string) (name string, partly bool) {
	c := cutter{rest: line}
	if c.optional("```") {
		c.rest = strings.TrimLeft(c.rest, "abcdefghijklmnopqrstuvwxyz_")
	}
	c.one("{")
	c.optional("{")
	c.one(`"name"`)
	c.one(":")
	c.one(`"`)
	name = toolNameStart.FindString(c.rest)
	c.rest = c.rest[len(name):]
	c.one(`"`)
	c.one(",")
	c.one(`"arguments"`, `"parameters"`)
	if c.partly || c.failed {
		return "", c.partly
	}
	return name, false
}

// cutter cuts words from the beginning of a text that may go on.
type cutter struct {
	rest   string
	partly bool // the text ends before all words were cut
	failed bool // it has other words
}

// one cuts white space and one of some words.
func (c *cutter) one(words ...string) {
	c.failed = !c.optional(words...) && !c.partly || c.failed
}

func (c *cutter) optional(words ...string) bool {
	if c.failed || c.partly {
		return false
	}
	c.rest = strings.TrimLeft(c.rest, " \t\n")
	for _, word := range words {
		if after, ok := strings.CutPrefix(c.rest, word); ok {
			c.rest = after
			return true
		}
		c.partly = c.partly || strings.HasPrefix(word, c.rest)
	}
	return false
}
