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

// A template's way to write calls is read off what it makes of some: two calls of these names, arguments and
// identifiers, beside a plain answer.
const (
	probeAnswer   = "Zq, a plain answer."
	probeResult   = "probe result 7"
	probeArgument = "probe_argument"
	probeValue    = "probe_value"
)

var (
	probeCalls = []ToolCall{
		{ID: "prb000001", Name: "probe_first", Arguments: `{"` + probeArgument + `": "` + probeValue + `"}`},
		{ID: "prb000002", Name: "probe_second", Arguments: `{"` + probeArgument + `": "` + probeValue + `"}`},
	}
	probeWritten = regexp.MustCompile(`\{\s*"` + probeArgument + `"\s*:\s*"` + probeValue + `"\s*\}`)
	jsonBegins   = regexp.MustCompile(`\[?\s*\{\s*"`)
	callIDs      = regexp.MustCompile(`prb00000[12]`)
	oneID        = regexp.MustCompile(`^[a-zA-Z0-9]{9}`)
)

// callFormat finds out how the model writes calls. render formats a conversation with its template, ends are the texts
// of the tokens that end a turn. It fails with ErrTools.
func callFormat(render func(chat) (string, error), ends []string) (grammar.Format, error) {
	var f grammar.Format
	probe := func(turn ...Message) (string, error) {
		msgs := append([]Message{{Role: User, Content: "One?"}}, turn...)
		return render(chat{messages: append(msgs, Message{Role: User, Content: "Two?"}), closed: true,
			tools: []Tool{{Name: probeCalls[0].Name, Description: "D"}, {Name: probeCalls[1].Name, Description: "D"}}})
	}
	called := func(n int, answered bool) (string, error) {
		turn := []Message{{Role: Assistant, ToolCalls: probeCalls[:n]}}
		for _, c := range probeCalls[:n] {
			turn = append(turn, Message{Role: ToolRole, ToolCallID: c.ID, Content: probeResult})
		}
		if !answered {
			if text, err := probe(turn[0]); err == nil {
				return text, nil
			} // else it wants results and an answer
		}
		return probe(append(turn, Message{Role: Assistant, Content: probeAnswer})...)
	}
	plain, err := probe(Message{Role: Assistant, Content: probeAnswer})
	if err != nil {
		return f, fmt.Errorf("%w: its chat template fails with some: %w", ErrTools, err)
	}
	at := strings.LastIndex(plain, probeAnswer)
	if at < 0 || !strings.Contains(plain, probeCalls[0].Name) {
		return f, fmt.Errorf("%w: its chat template has no place for them", ErrTools)
	}
	answered, err := called(1, true)
	if err != nil || !strings.Contains(answered, probeResult) {
		return f, fmt.Errorf("%w: its chat template has no place for their results", ErrTools)
	}
	one, err := called(1, false)
	if err != nil {
		return f, fmt.Errorf("%w: its chat template fails with a call: %w", ErrTools, err)
	}
	unknown := fmt.Errorf("%w: its chat template writes calls in a way that is not known here", ErrTools)
	parts, ok := callParts(one, differ(plain, one), plain[at+len(probeAnswer):], ends, 1)
	if !ok {
		return f, unknown
	}
	f.First, f.Middle, f.Last = parts[0], parts[1], parts[2]
	if two, err := called(2, false); err == nil {
		more, ok := callParts(two, differ(plain, two), plain[at+len(probeAnswer):], ends, 2)
		if ok && more[0] == f.First && more[1] == f.Middle && more[3] == f.Middle && more[4] == f.Last {
			f.Next = more[2]
		}
	}
	if f.Trigger, f.AtStart = trigger(f.First); f.Trigger == "" {
		return f, unknown
	}
	return f, nil
}

// trigger is what tells calls that begin with such a text from an answer; empty: nothing does. Where it is but the
// beginning of a JSON object, it may stand in an answer as well, and counts at the start only.
func trigger(first string) (text string, atStart bool) {
	first = strings.TrimLeft(first, " \n")
	if first == "" || !strings.Contains("<[{", first[:1]) {
		return "", false
	}
	at := jsonBegins.FindStringIndex(first)
	if at == nil {
		return first, false
	}
	if at[0] == 0 {
		return first, true
	}
	return strings.TrimRight(first[:at[0]], " \n"), false
}

// differ is where two renderings begin to differ, at the end of a token or a word.
func differ(a, b string) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return strings.LastIndexAny(a[:n], ">] \n") + 1
}

// callParts takes what a template makes of n calls apart, from an offset on: what stands before the first name, between
// name and arguments, and so on, and after the last arguments up to the end of the turn, which is one of ends or begins
// what follows a plain answer.
func callParts(text string, from int, afterAnswer string, ends []string, n int) (parts []string, ok bool) {
	rest := text[from:]
	for _, c := range probeCalls[:n] {
		before, after, ok := strings.Cut(rest, c.Name)
		if !ok {
			return nil, false
		}
		args := probeWritten.FindStringIndex(after)
		if args == nil {
			return nil, false
		}
		parts = append(parts, before, after[:args[0]])
		rest = after[args[1]:]
	}
	end := len(rest)
	if last, ok := strings.CutSuffix(rest, afterAnswer); ok && afterAnswer != "" {
		end = len(last)
	}
	for _, token := range ends {
		if at := strings.Index(rest, token); at >= 0 && token != "" {
			end = min(end, at)
		}
	}
	if end == len(rest) {
		return nil, false
	}
	parts = append(parts, strings.TrimRight(rest[:end], " \n"))
	for i, p := range parts {
		if strings.Contains(p, probeResult) || strings.Contains(p, "Two?") {
			return nil, false // the end of the turn was not found
		}
		parts[i] = callIDs.ReplaceAllString(p, string(grammar.ID))
	}
	return parts, true
}

// callReader takes calls out of a completion as it is made. A nil one leaves it as it is.
type callReader struct {
	format grammar.Format
	must   bool   // there is nothing but calls
	seed   string // of identifiers that the model does not write

	held  string // not given out yet
	begun bool   // the trigger has come, and held begins with it
	plain bool   // it cannot come any more
}

// written is all that the format writes, for the control tokens in it.
func (r *callReader) written() string {
	if r == nil {
		return ""
	}
	f := r.format
	return f.First + f.Middle + f.Next + f.Last
}

// push takes a piece of a completion and returns what of it is known to be no call.
func (r *callReader) push(piece string) string {
	if r == nil || r.plain {
		return piece
	}
	r.held += piece
	if r.begun {
		return ""
	}
	if r.must {
		r.begun = true
		return ""
	}
	at := strings.Index(r.held, r.format.Trigger)
	if r.format.AtStart {
		if at = -1; strings.HasPrefix(r.held, r.format.Trigger) {
			at = 0
		} else if !strings.HasPrefix(r.format.Trigger, r.held) {
			r.plain = true
			return r.release(len(r.held))
		}
	}
	if at >= 0 {
		r.begun = true
		return r.release(len(strings.TrimRight(r.held[:at], " \n\t")))
	}
	keep := len(r.held)
	for n := min(len(r.format.Trigger)-1, len(r.held)); n > 0; n-- {
		if strings.HasSuffix(r.held, r.format.Trigger[:n]) {
			keep = len(r.held) - n
			break
		}
	}
	if r.format.AtStart {
		return "" // it may still be the trigger
	}
	return r.release(len(strings.TrimRight(r.held[:keep], " \n\t")))
}

func (r *callReader) release(n int) string {
	out := r.held[:n]
	r.held = r.held[n:]
	return out
}

// finish takes the last piece. It returns the calls, when all of them are whole, and the rest of what is no call. What
// a limit has cut is neither.
func (r *callReader) finish(piece string) (calls []ToolCall, text string) {
	text = r.push(piece)
	if r == nil {
		return nil, text
	}
	if !r.begun {
		return nil, text + r.release(len(r.held))
	}
	return r.parse(strings.TrimLeft(r.held, " \n\t")), text
}

// parse reads calls, nil if they are not whole.
func (r *callReader) parse(s string) []ToolCall {
	f := r.format
	var calls []ToolCall
	for before := strings.TrimLeft(f.First, " \n"); ; before = f.Next {
		id := ""
		rest, ok := cutPart(s, before, &id)
		if !ok {
			return nil
		}
		at := strings.Index(rest, fixedBegin(f.Middle))
		if at < 0 {
			return nil
		}
		call := ToolCall{Name: rest[:at]}
		if rest, ok = cutPart(rest[at:], f.Middle, &id); !ok || !toolName.MatchString(call.Name) {
			return nil
		}
		dec := json.NewDecoder(strings.NewReader(rest))
		var arguments json.RawMessage
		if dec.Decode(&arguments) != nil || !isObject(arguments) {
			return nil
		}
		s = rest[dec.InputOffset():]
		call.Arguments = string(bytes.TrimSpace(arguments))
		if after, ok := cutPart(s, f.Last, &id); ok && strings.TrimSpace(after) == "" {
			call.ID = r.id(id, len(calls), call)
			return append(calls, call)
		}
		if f.Next == "" {
			return nil
		}
		// An identifier behind the arguments is this call's, one before the next name the next one's.
		before, _, found := strings.Cut(f.Next, string(grammar.ID))
		if found && !strings.ContainsRune(f.First, grammar.ID) {
			if rest, ok := cutPart(s, before+string(grammar.ID), &id); !ok || rest == "" {
				return nil
			}
		}
		call.ID = r.id(id, len(calls), call)
		calls = append(calls, call)
	}
}

// id is a call's identifier: the model's own, or nine letters and digits, which all templates take.
func (r *callReader) id(own string, n int, c ToolCall) string {
	if own != "" {
		return own
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\n%d\n%s\n%s", r.seed, n, c.Name, c.Arguments))
	return fmt.Sprintf("%x", sum[:5])[:9]
}

// fixedBegin is the part of a format up to an identifier.
func fixedBegin(part string) string {
	before, _, _ := strings.Cut(part, string(grammar.ID))
	return before
}

// cutPart cuts a part of a format from the beginning of s. id becomes the last identifier in it, if there is one.
func cutPart(s, part string, id *string) (rest string, ok bool) {
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
