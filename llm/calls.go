package llm

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"github.com/sluice-rag/sluice/llm/grammar"
)

var (
	oneID         = regexp.MustCompile(`^[a-zA-Z0-9]{9}`)
	toolNameStart = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}`)
)

// callReader extracts calls from a completion while it is generated. A nil one leaves the completion unchanged.
type callReader struct {
	format grammar.Format
	must   bool                       // the completion has calls only
	seed   string                     // of identifiers that the model does not write
	texts  map[string]map[string]bool // by tool and parameter: whether its value is plain text, not JSON

	held  string          // text that is not released yet
	begun bool            // the trigger was read, and held begins with it
	call  strings.Builder // what follows held then
	plain bool            // no trigger can follow
}

func newCallReader(f grammar.Format, must bool, seed string, tools []Tool) *callReader {
	r := &callReader{format: f, must: must, seed: seed, texts: map[string]map[string]bool{}}
	for _, t := range tools {
		if len(t.Parameters) > 0 {
			r.texts[t.Name] = grammar.TextParameters(t.Parameters)
		}
	}
	return r
}

// readsHeader reports whether a completion begins with a header, which this reader reads.
func (r *callReader) readsHeader() bool { return r != nil && r.format.Headers != nil }

// written returns all fixed texts of the format, whose control tokens are to be shown.
func (r *callReader) written() string {
	if r == nil {
		return ""
	}
	f := r.format
	if p := f.Parameters; p != nil {
		f.Middle += p.Begin + p.Middle + p.End + p.Between + p.Quote
	}
	if h := f.Headers; h != nil {
		f.Middle += h.Answer + h.First + h.Middle
	}
	return f.First + f.Middle + f.Next + f.Last
}

// push takes a piece of a completion and returns the text that is known not to be part of a call.
func (r *callReader) push(piece string) string {
	if r == nil || r.plain {
		return piece
	}
	if r.begun {
		r.call.WriteString(piece)
		return ""
	}
	r.held += piece
	if h := r.format.Headers; h != nil && !r.must {
		answer, ok := strings.CutPrefix(r.held, h.Answer)
		if r.plain = ok; ok {
			r.held = ""
			return answer
		}
		r.begun = !strings.HasPrefix(h.Answer, r.held)
		return ""
	}
	if r.must {
		r.begun = true
		return ""
	}
	trigger := r.format.Trigger
	if r.format.AtStart {
		r.begun = strings.HasPrefix(r.held, trigger)
		r.plain = !r.begun && !strings.HasPrefix(trigger, r.held)
		if r.plain {
			return r.release(len(r.held))
		}
		return "" // it is the trigger, or may still be
	}
	at, end := cutAt(r.held, []string{trigger})
	if r.begun = at >= 0; r.begun {
		end = at
	}
	return r.release(len(strings.TrimRight(r.held[:end], " \n\t")))
}

func (r *callReader) release(n int) string {
	out := r.held[:n]
	r.held = r.held[n:]
	return out
}

// finish takes the last piece. It returns the complete calls and the rest of the text. A call that a limit has cut is
// dropped, and cut is true then.
func (r *callReader) finish(piece string) (calls []ToolCall, cut bool, text string) {
	text = r.push(piece)
	if r == nil {
		return nil, false, text
	}
	switch {
	case !r.begun && r.format.Headers != nil: // a limit has cut the header
		return nil, true, text
	case !r.begun:
		return nil, false, text + r.release(len(r.held))
	}
	calls, cut = r.parse(strings.TrimLeft(r.held+r.call.String(), " \n\t"))
	return calls, cut, text
}

// parse reads calls and returns the complete ones: what follows their arguments is there as well.
func (r *callReader) parse(s string) (complete []ToolCall, cut bool) {
	f := r.format
	var calls []ToolCall
	firsts, middles := []string{strings.TrimLeft(f.First, " \n")}, []string{f.Middle}
	if h := f.Headers; h != nil {
		firsts, middles = append(firsts, h.First), append(middles, h.Middle)
	}
	for before := firsts; ; before = []string{f.Next} {
		id := ""
		rest, ok := cutPart(s, before, &id)
		if !ok {
			return complete, true
		}
		complete = calls
		call := ToolCall{Name: toolNameStart.FindString(rest)}
		at := len(call.Name)
		if rest, ok = cutPart(rest[at:], middles, &id); !ok || call.Name == "" {
			return complete, true
		}
		if call.Arguments, s, ok = r.arguments(call.Name, rest); !ok {
			return complete, true
		}
		after, ended := cutPart(s, []string{f.Last}, &id)
		if ended && strings.TrimSpace(after) == "" {
			call.ID = r.id(id, len(calls), call)
			return append(calls, call), false
		}
		if f.Next == "" {
			return complete, true
		}
		// An identifier behind the arguments belongs to this call, one before the next name to the next call.
		end, _, found := strings.Cut(f.Next, string(grammar.ID))
		if found && !strings.ContainsRune(f.First, grammar.ID) {
			if rest, ok := cutPart(s, []string{end + string(grammar.ID)}, &id); !ok || rest == "" {
				return complete, true
			}
		}
		call.ID = r.id(id, len(calls), call)
		if calls = append(calls, call); ended {
			complete = calls
		}
	}
}

func (r *callReader) arguments(name, s string) (arguments, rest string, ok bool) {
	p := r.format.Parameters
	if p == nil {
		object, rest, ok := cutJSON(s)
		return object, rest, ok && isObject([]byte(object))
	}
	var out strings.Builder
	for begin := p.Begin; ; begin = p.Between + p.Begin {
		after, more := strings.CutPrefix(s, begin)
		key, after, named := strings.Cut(after, p.Middle)
		plain, known := r.texts[name][key]
		if !more || !named || !known {
			return "{" + out.String() + "}", s, true
		}
		quoted, err := plainJSON(key)
		value, after, ended := cutValue(p, after, plain)
		if !ended || err != nil {
			return "", "", false
		}
		if out.Len() > 0 {
			out.WriteString(", ")
		}
		fmt.Fprintf(&out, "%s: %s", quoted, value)
		s = after
	}
}

// cutValue cuts a parameter's value with its end from the beginning of s, and returns it as JSON.
func cutValue(p *grammar.Parameters, s string, plain bool) (value, rest string, ok bool) {
	if after, quoted := strings.CutPrefix(s, p.Quote); plain && quoted {
		if value, rest, ok = strings.Cut(after, p.Quote+p.End); !ok {
			return "", "", false
		}
		text, err := plainJSON(value)
		return string(text), rest, err == nil
	}
	if value, rest, ok = cutJSON(s); ok {
		rest, ok = strings.CutPrefix(rest, p.End)
	}
	return value, rest, ok
}

func cutJSON(s string) (value, rest string, ok bool) {
	dec := json.NewDecoder(strings.NewReader(s))
	var raw json.RawMessage
	if dec.Decode(&raw) != nil {
		return "", "", false
	}
	return string(bytes.TrimSpace(raw)), s[dec.InputOffset():], true
}

// id returns a call's identifier: the model's own, or nine letters and digits, which all templates accept.
func (r *callReader) id(own string, n int, c ToolCall) string {
	if own != "" {
		return own
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\n%d\n%s\n%s", r.seed, n, c.Name, c.Arguments))
	return fmt.Sprintf("%x", sum[:5])[:9]
}

// cutPart cuts one of the parts of a format from the beginning of s and sets id to the last identifier in it, if it has
// one.
func cutPart(s string, parts []string, id *string) (rest string, ok bool) {
	for _, part := range parts {
		if rest, ok = cutOne(s, part, id); ok {
			break
		}
	}
	return rest, ok
}

func cutOne(s, part string, id *string) (rest string, ok bool) {
	for i, fixed := range strings.Split(part, string(grammar.ID)) {
		if i > 0 {
			found := oneID.FindString(s)
			if found == "" {
				return s, false
			}
			*id, s = found, s[len(found):]
		}
		if s, ok = strings.CutPrefix(s, fixed); !ok {
			return s, false
		}
	}
	return s, true
}
