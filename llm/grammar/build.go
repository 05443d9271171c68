package grammar

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// builder collects the rules of a grammar under construction.
type builder struct {
	order []string
	body  map[string]string
	path  map[string]string // of the schema that a rule stands for
	tries map[string]int    // how often a name was asked for
}

func newBuilder() *builder {
	return &builder{body: map[string]string{}, path: map[string]string{}, tries: map[string]int{}}
}

// reserve returns a new rule name made of a hint.
func (b *builder) reserve(hint, path string) string {
	clean := strings.Map(func(r rune) rune {
		if r < 0x80 && isWord(byte(r)) {
			return r
		}
		return '-'
	}, hint)
	clean = strings.Trim(clean[:min(len(clean), 40)], "-")
	if clean == "" || strings.HasPrefix(clean, sharedPrefix) {
		clean = "part" + clean
	}
	name := clean
	for taken := true; taken; {
		if b.tries[clean]++; b.tries[clean] > 1 {
			name = clean + "-" + strconv.Itoa(b.tries[clean])
		}
		_, taken = b.body[name]
	}
	b.body[name], b.path[name] = "", path
	b.order = append(b.order, name)
	return name
}

func (b *builder) add(hint, path, body string) string {
	name := b.reserve(hint, path)
	b.body[name] = body
	return name
}

// sharedPrefix begins the names of the rules that shared makes, and of no others.
const sharedPrefix = "json-"

// shared returns the name of a rule that any other may refer to, and adds the rule at the first call.
func (b *builder) shared(name, body string) string {
	name = sharedPrefix + name
	if _, ok := b.body[name]; !ok {
		b.body[name] = body
		b.order = append(b.order, name)
	}
	return name
}

func (b *builder) String() string {
	var s strings.Builder
	for _, name := range b.order {
		fmt.Fprintf(&s, "%s ::= %s\n", name, b.body[name])
	}
	return s.String()
}

// literal writes text as GBNF.
func literal(text string) string {
	if text == "" {
		return `""`
	}
	var s strings.Builder
	s.WriteByte('"')
	for _, r := range text {
		switch {
		case r == '"' || r == '\\':
			s.WriteByte('\\')
			s.WriteRune(r)
		case r < 0x20 || r == 0x7F:
			fmt.Fprintf(&s, `\x%02X`, r)
		default:
			s.WriteRune(r)
		}
	}
	s.WriteByte('"')
	return s.String()
}

// write returns the set as a class of GBNF, or as a literal when it is one character.
func (s set) write() string {
	if len(s) == 1 && s[0][0] == s[0][1] {
		return literal(string(s[0][0]))
	}
	var b strings.Builder
	char := func(r rune) {
		switch {
		case strings.ContainsRune(`\[]"-`, r):
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '^' || r <= 0x20 || r >= 0x7F && r <= 0xFF:
			fmt.Fprintf(&b, `\x%02X`, r)
		case r < 0x7F:
			b.WriteRune(r)
		case r <= 0xFFFF:
			fmt.Fprintf(&b, `\u%04X`, r)
		default:
			fmt.Fprintf(&b, `\U%08X`, r)
		}
	}
	b.WriteByte('[')
	for _, r := range s {
		char(r[0])
		if r[0] == r[1] {
			continue
		}
		if r[1] > r[0]+1 {
			b.WriteByte('-')
		}
		char(r[1])
	}
	b.WriteByte(']')
	return b.String()
}

// choice joins alternatives, in a group if there is more than one.
func choice(alts ...string) string {
	if len(alts) <= 1 {
		return strings.Join(alts, "")
	}
	return "(" + strings.Join(alts, " | ") + ")"
}

// join puts items in a row, without the empty ones.
func join(items ...string) string {
	return strings.Join(slices.DeleteFunc(slices.Clone(items), func(s string) bool { return s == "" }), " ")
}

// repeat writes lower to upper (or unlimited) repetitions of an item that is one rule, class or character. Counts above
// llama.cpp's limit become several repetitions, such that a text can be read in few ways at a time:
//
//	R(0,n)  →  item{0,1999} | item{2000} R(0,n-2000)
func (b *builder) repeat(item string, lower, upper int) string {
	if upper == 0 {
		return ""
	}
	if lower > maxRepeat {
		rest := b.repeat(item, lower-maxRepeat, plus(upper, -maxRepeat))
		return join(fmt.Sprintf("%s{%d}", item, maxRepeat), rest)
	}
	switch {
	case lower == 1 && upper == 1:
		return item
	case lower == 0 && upper == 1:
		return item + "?"
	case upper == unlimited && lower == 0:
		return item + "*"
	case upper == unlimited && lower == 1:
		return item + "+"
	case upper == unlimited:
		return fmt.Sprintf("%s{%d,}", item, lower)
	case lower == upper:
		return fmt.Sprintf("%s{%d}", item, lower)
	case upper <= maxRepeat:
		return fmt.Sprintf("%s{%d,%d}", item, lower, upper)
	case lower > 0:
		return join(fmt.Sprintf("%s{%d}", item, lower), b.repeat(item, 0, upper-lower))
	}
	return b.add("repeat", "", fmt.Sprintf("%s{0,%d} | %s", item, maxRepeat-1,
		join(fmt.Sprintf("%s{%d}", item, maxRepeat), b.repeat(item, 0, upper-maxRepeat))))
}
