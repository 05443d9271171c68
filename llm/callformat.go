package llm

import (
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/sluice-rag/sluice/llm/grammar"
)

// The way in which a template writes calls is found by rendering two calls with these names, arguments and
// identifiers, and comparing them with a plain answer.
const (
	probeAnswer = "Zq, a plain answer."
	probeResult = "probe result 7"
	probeKey    = "probe_argument"
	probeValue  = "probe_value"
	probeKey2   = "second_argument"
	probeValue2 = "second_value"
	probeNext   = "Two?"
	probeBoth   = `{"` + probeKey + `": "` + probeValue + `", "` + probeKey2 + `": "` + probeValue2 + `"}`
)

var (
	probeCalls = []ToolCall{
		{ID: "prb000001", Name: "probe_first", Arguments: probeBoth},
		{ID: "prb000002", Name: "probe_second", Arguments: probeBoth},
	}
	probeJSON = regexp.MustCompile(`\{\s*"` + probeKey + `"\s*:\s*"` + probeValue + `"\s*,\s*"` + probeKey2 +
		`"\s*:\s*"` + probeValue2 + `"\s*\}`)
	jsonBegins = regexp.MustCompile(`\[?\s*\{\s*"`)
	callIDs    = regexp.MustCompile(`prb00000[12]`)
)

// prober renders conversations with a template.
type prober struct {
	render func(chat) (string, error)
	ends   []string // texts of the tokens that end a turn
	plain  string   // a conversation with a plain answer
	after  string   // text after the plain answer
}

// turn renders a conversation that contains an assistant's turn.
func (p *prober) turn(turn ...Message) (string, error) {
	msgs := append([]Message{{Role: User, Content: "One?"}}, turn...)
	return p.render(chat{messages: append(msgs, Message{Role: User, Content: probeNext}), closed: true,
		tools: []Tool{{Name: probeCalls[0].Name, Description: "D"}, {Name: probeCalls[1].Name, Description: "D"}}})
}

// called renders a conversation with calls, and with their results if answered is set or the template requires it.
func (p *prober) called(answered bool, calls ...ToolCall) (string, error) {
	turn := []Message{{Role: Assistant, ToolCalls: calls}}
	for _, c := range calls {
		turn = append(turn, Message{Role: ToolRole, ToolCallID: c.ID, Content: probeResult})
	}
	if !answered {
		if text, err := p.turn(turn[0]); err == nil {
			return text, nil
		}
	}
	return p.turn(append(turn, Message{Role: Assistant, Content: probeAnswer})...)
}

// callFormat determines how the model writes calls. render formats a conversation with its template; ends holds the
// texts of the tokens that end a turn. Errors wrap ErrTools.
func callFormat(render func(chat) (string, error), ends []string) (f grammar.Format, err error) {
	fail := func(what string) (grammar.Format, error) {
		return f, fmt.Errorf("%w: its chat template %s", ErrTools, what)
	}
	p := &prober{render: render, ends: ends}
	if p.plain, err = p.turn(Message{Role: Assistant, Content: probeAnswer}); err != nil {
		return fail("fails with some: " + err.Error())
	}
	at := strings.LastIndex(p.plain, probeAnswer)
	if at < 0 || !strings.Contains(p.plain, probeCalls[0].Name) {
		return fail("has no place for them")
	}
	p.after = p.plain[at+len(probeAnswer):]
	if text, err := p.called(true, probeCalls[0]); err != nil || !strings.Contains(text, probeResult) {
		return fail("has no place for their results")
	}
	one, err := p.called(false, probeCalls[0])
	if err != nil {
		return fail("fails with a call: " + err.Error())
	}
	const unknown = "writes calls in a way that is not known here"
	written := probeJSON
	parts, ok := p.parts(one, written, 1)
	if !ok {
		if f.Parameters, written = p.parameters(one); f.Parameters == nil {
			return fail(unknown)
		}
		if parts, ok = p.parts(one, written, 1); !ok {
			return fail(unknown)
		}
	}
	f.First, f.Middle, f.Last = parts[0], parts[1], parts[2]
	if two, err := p.called(false, probeCalls...); err == nil {
		more, ok := p.parts(two, written, 2)
		if ok && more[0] == f.First && more[1] == f.Middle && more[3] == f.Middle && more[4] == f.Last {
			f.Next = more[2]
		}
	}
	if first, ok := strings.CutPrefix(f.First, "assistant"); ok && strings.Contains(f.Middle, channelHeader) {
		f.First, f.Headers = first, harmonyHeaders()
	} else if f.Trigger, f.AtStart = trigger(f.First); f.Trigger == "" {
		return fail(unknown)
	}
	if tooLong(f) {
		return fail(unknown)
	}
	return f, nil
}

// harmonyHeaders returns the headers that gpt-oss writes beside the one of its template, which names the function first
// (https://developers.openai.com/cookbook/articles/openai-harmony).
func harmonyHeaders() *grammar.Headers {
	return &grammar.Headers{Answer: "<|channel|>final<|message|>", First: "<|channel|>commentary to=functions.",
		Middle: " <|constrain|>json<|message|>"}
}

// Bounds of a format's texts, in bytes: a grammar has a state for each character of the words that end a text.
const (
	maxWord = 128
	maxPart = 1024
)

func tooLong(f grammar.Format) bool {
	if q := f.Parameters; q != nil && (len(q.Quote+q.End) > maxWord || len(q.Begin+q.Middle+q.Between) > maxPart) {
		return true
	}
	return len(f.Trigger) > maxWord || len(f.First)+len(f.Middle)+len(f.Next)+len(f.Last) > maxPart
}

// trigger returns the text that distinguishes calls that begin with first from an answer, or "" if there is no such
// text. The beginning of a JSON object may occur in an answer, so it counts at the start only.
func trigger(first string) (text string, atStart bool) {
	first = strings.TrimLeft(first, " \n")
	if first == "" || !strings.Contains("<[{", first[:1]) {
		return "", false
	}
	at := jsonBegins.FindStringIndex(first)
	if at == nil {
		if tag, _, _ := strings.Cut(first, "\n"); strings.HasSuffix(tag, ">") || strings.HasSuffix(tag, "]") {
			first = tag
		}
		return first, false
	}
	if at[0] == 0 {
		return first, true
	}
	return strings.TrimRight(first[:at[0]], " \n"), false
}

// begin returns the offset at which a rendering starts to differ from the plain answer's, at a token or word boundary.
func (p *prober) begin(text string) int {
	return strings.LastIndexAny(common(text, p.plain), ">] \n") + 1
}

// common returns the longest common prefix of two texts.
func common(a, b string) string {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return a[:n]
}

// parts splits a rendering of n calls, whose arguments match written: the text before the first name, the text between
// name and arguments, and so on, and the text from the last arguments to the end of the turn. The turn ends with one
// of ends or with what follows a plain answer.
func (p *prober) parts(text string, written *regexp.Regexp, n int) (parts []string, ok bool) {
	rest := text[p.begin(text):]
	for _, c := range probeCalls[:n] {
		before, after, ok := strings.Cut(rest, c.Name)
		args := written.FindStringIndex(after)
		if !ok || args == nil {
			return nil, false
		}
		parts = append(parts, before, after[:args[0]])
		rest = after[args[1]:]
	}
	end := len(rest)
	if last, ok := strings.CutSuffix(rest, p.after); ok && p.after != "" {
		end = len(last)
	}
	for _, token := range p.ends {
		if at := strings.Index(rest, token); at >= 0 && token != "" {
			end = min(end, at)
		}
	}
	if end == len(rest) {
		return nil, false
	}
	parts = append(parts, strings.TrimRight(rest[:end], " \n"))
	for i, part := range parts {
		if strings.Contains(part, probeResult) || strings.Contains(part, probeNext) {
			return nil, false // the end of the turn is missing
		}
		parts[i] = callIDs.ReplaceAllString(part, string(grammar.ID))
	}
	return parts, true
}

// parameters determines how arguments are written one by one, and returns a pattern for those of the probe. It returns
// nil if arguments are not written one by one, or if numbers are written differently from strings.
func (p *prober) parameters(one string) (*grammar.Parameters, *regexp.Regexp) {
	_, rest, _ := strings.Cut(one[p.begin(one):], probeCalls[0].Name)
	var between [4]string
	for i, word := range []string{probeKey, probeValue, probeKey2, probeValue2} {
		var ok bool
		if between[i], rest, ok = strings.Cut(rest, word); !ok {
			return nil, nil
		}
	}
	n := 0 // what comes before both keys
	for a, b := between[0], between[2]; n < len(a) && n < len(b) && a[len(a)-1-n] == b[len(b)-1-n]; {
		n++
	}
	for n > 0 && !utf8.RuneStart(between[0][len(between[0])-n]) {
		n--
	}
	q := &grammar.Parameters{Begin: between[0][len(between[0])-n:], Middle: between[1],
		End: between[2][:len(between[2])-n]}
	number := probeCalls[0]
	number.Arguments = `{"` + probeKey + `": 7}`
	text, err := p.called(false, number)
	if err != nil || q.Middle != between[3] {
		return nil, nil
	}
	_, text, _ = strings.Cut(text, q.Begin+probeKey)
	if middle, _, ok := strings.Cut(text, "7"); ok && middle != q.Middle { // only strings have quotes
		q.Quote, ok = strings.CutPrefix(q.Middle, middle)
		q.Between = strings.TrimPrefix(q.End, q.Quote)
		if q.Middle, q.End = middle, ""; !ok || q.Quote == "" || q.Between == "" || q.Begin != "" {
			return nil, nil
		}
	} else if q.Begin == "" || !strings.ContainsAny(q.End, "<[|") {
		return nil, nil
	}
	if q.Middle == "" || !strings.HasPrefix(text, q.Middle+"7"+q.End) || !strings.HasPrefix(rest, q.Quote+q.End) {
		return nil, nil
	}
	one = q.Begin + probeKey + q.Middle + q.Quote + probeValue + q.Quote + q.End
	return q, regexp.MustCompile(regexp.QuoteMeta(one + q.Between +
		q.Begin + probeKey2 + q.Middle + q.Quote + probeValue2 + q.Quote + q.End))
}
