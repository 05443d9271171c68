package code

import (
	"strings"

	"github.com/sluice-rag/sluice/rag/corpus/doc"
)

// syntax describes strings and declarations of a language with braces.
type syntax struct {
	c         bool // lines that begin with # are the preprocessor's; functions are known by their parentheses
	typed     bool // functions are known by their parentheses
	js        bool // template strings, regular expressions, functions as values
	rust      bool // raw strings, lifetimes, attributes
	php       bool // text outside of <?php ?>, # comments, heredocs
	newlines  bool // statements end with lines
	raw       bool // `strings` of several lines
	rawString bool // R"x(…)x"
	verbatim  bool // @"…"
}

// scope is the region that an open brace begins.
type scope struct {
	declaration
	named    bool // it is a declaration
	contains bool // its members are looked for

	within bool // within brackets, as in f(x = {}): the statement continues after it
	head   string
	from   int
	lead   int
	parens int
}

const (
	maxWithin    = 512     // bytes of a statement that continues after braces
	maxStatement = 4 << 10 // bytes of a statement that are examined
	maxNesting   = 1 << 16 // of braces
)

// braceScanner goes through a text once. It recognises strings and comments, but no grammar.
type braceScanner struct {
	text   string
	s      syntax
	p      *doc.Pulse
	at     int
	out    []declaration
	scopes []scope
	saved  []int // len(scopes) at each #if

	head   []byte // the statement so far, without comments, white space as one space, line breaks kept
	start  int    // position of the statement in the text; -1: it has not begun
	lead   int    // position of the comments above it; -1: no comment
	parens int
	last   byte // the last character that is not white space
}

// braceOutline finds the functions and types of a language with braces. A function within a function is a part of it.
func braceOutline(text string, s syntax, p *doc.Pulse) []declaration {
	b := &braceScanner{text: text, s: s, p: p, start: -1, lead: -1}
	if s.php {
		b.php()
	}
	for b.at < len(text) {
		b.step()
	}
	return b.out
}

// reset begins a statement.
func (b *braceScanner) reset() { b.head, b.start, b.lead, b.parens = b.head[:0], -1, -1, 0 }

// take adds text up to at to the statement.
func (b *braceScanner) take(at int) {
	if b.start < 0 {
		b.start = b.at
	}
	if len(b.head) < maxStatement {
		b.head = append(b.head, b.text[b.at:min(at, b.at+maxStatement)]...)
	}
	b.last = b.text[at-1]
	b.at = at
}

func (b *braceScanner) space(c byte) {
	if n := len(b.head); n > 0 && b.head[n-1] != '\n' {
		if c == '\n' && b.head[n-1] == ' ' {
			b.head[n-1] = '\n'
		} else if c == '\n' || b.head[n-1] != ' ' {
			b.head = append(b.head, c)
		}
	}
}

func (b *braceScanner) step() {
	b.p.Beat()
	rest := b.text[b.at:]
	c := rest[0]
	switch {
	case c == '\n':
		b.newline()
	case doc.IsSpace(c):
		b.space(' ')
		b.at++
	case strings.HasPrefix(rest, "//"), b.s.php && c == '#' && !strings.HasPrefix(rest, "#["):
		b.comment(until(rest, "\n", 0))
	case strings.HasPrefix(rest, "/*"):
		b.comment(until(rest, "*/", 2))
	case b.s.c && c == '#' && (b.at == 0 || b.text[b.at-1] == '\n' || lineStart(b.text, b.at) != b.at):
		b.preprocessor()
	case b.s.php && strings.HasPrefix(rest, "?>"):
		b.reset()
		b.php()
	case c == '(' || c == '[':
		b.parens++
		b.take(b.at + 1)
	case c == ')' || c == ']':
		b.parens = max(b.parens-1, 0)
		b.take(b.at + 1)
	case c == '{':
		b.open()
	case c == '}':
		b.close()
	case c == ';' && b.parens == 0:
		b.at++
		b.last = c
		b.reset()
	case c == ':' && b.s.c && isAccess(string(b.head)):
		b.at++
		b.reset()
	default:
		if n := b.literal(rest); n > 0 {
			b.take(b.at + n)
			return
		}
		n := 1
		for n < len(rest) && (doc.IsAlnum(rest[n]) && doc.IsAlnum(c) || rest[n] == '_') {
			n++
		}
		b.take(b.at + n)
	}
}

// isAccess reports whether head stands before a colon between the members of a class.
func isAccess(head string) bool {
	switch strings.TrimSpace(head) {
	case "public", "private", "protected", "signals", "public slots", "private slots", "default":
		return true
	}
	return false
}

// newline ends a statement in languages where lines do, and detaches comments from what follows a blank line.
func (b *braceScanner) newline() {
	b.at++
	if b.start < 0 {
		if i := strings.IndexByte(b.text[b.at:], '\n'); i >= 0 && strings.TrimSpace(b.text[b.at:b.at+i]) == "" {
			b.lead = -1
		}
		return
	}
	if (b.s.newlines || b.s.js) && b.parens == 0 && !b.goesOn() {
		b.reset()
		return
	}
	b.space('\n')
}

// goesOn reports whether the statement continues in the next line: an operator or an opening brace stands there, or the
// statement is an annotation.
func (b *braceScanner) goesOn() bool {
	next := strings.TrimLeft(b.text[b.at:min(len(b.text), b.at+200)], " \t\r\n")
	return b.head[0] == '@' || next != "" && strings.IndexByte("{:.,)=?&|", next[0]) >= 0 ||
		strings.IndexByte(",=(|&+", b.last) >= 0 || strings.HasPrefix(next, "where ") ||
		strings.HasPrefix(next, "extends ") || strings.HasPrefix(next, "implements ")
}

// comment skips a comment of n bytes.
func (b *braceScanner) comment(n int) {
	if b.start < 0 && b.lead < 0 {
		b.lead = b.at
	}
	b.at += n
}

// until returns the length of s up to the end of mark, searched for from the offset from; all of s if it is missing. A
// line break at the end is not included.
func until(s, mark string, from int) int {
	i := strings.Index(s[min(from, len(s)):], mark)
	switch {
	case i < 0:
		return len(s)
	case mark == "\n":
		return from + i
	}
	return from + i + len(mark)
}

// preprocessor skips a preprocessor line. Each branch of an #if begins with the braces that were open before it.
func (b *braceScanner) preprocessor() {
	n := 0
	for {
		line := until(b.text[b.at+n:], "\n", 0)
		n += line
		if line == 0 || b.text[b.at+n-1] != '\\' || b.at+n+1 >= len(b.text) {
			break
		}
		n++
	}
	switch word := doc.FirstWord(strings.TrimLeft(b.text[b.at+1:b.at+n], " \t")); {
	case strings.HasPrefix(word, "if") && len(b.saved) < maxNesting:
		b.saved = append(b.saved, len(b.scopes))
	case (word == "else" || strings.HasPrefix(word, "elif")) && len(b.saved) > 0:
		b.scopes = b.scopes[:min(len(b.scopes), b.saved[len(b.saved)-1])]
		b.reset()
	case word == "endif" && len(b.saved) > 0:
		b.saved = b.saved[:len(b.saved)-1]
	case word == "define" || word == "include":
		b.reset()
	}
	b.at += n
}

// open begins a scope: a declaration if the statement before the brace is one whose members are looked for.
func (b *braceScanner) open() {
	s := scope{}
	if b.parens == 0 && b.start >= 0 && (len(b.scopes) == 0 || b.scopes[len(b.scopes)-1].contains) {
		if name, contains := b.s.declared(string(b.head)); name != "" {
			s.named, s.contains, s.name = true, contains, doc.Signature(name)
			s.start = b.start
			if b.lead >= 0 {
				s.start = b.lead
			}
			s.start = lineStart(b.text, s.start)
		}
	}
	if !s.named && b.parens == 0 && isExternC(string(b.head)) {
		s.contains = true
	}
	if b.parens > 0 && b.start >= 0 && len(b.head) <= maxWithin && len(b.scopes) < maxWithin {
		s.within, s.head, s.parens, s.from, s.lead = true, string(b.head), b.parens, b.start, b.lead
	}
	if len(b.scopes) < maxNesting {
		b.scopes = append(b.scopes, s)
	}
	b.last = '{'
	b.at++
	b.reset()
}

// isExternC reports whether a brace begins a block that is not a scope: extern "C" {, or a block of a module.
func isExternC(head string) bool {
	return strings.HasPrefix(head, "extern \"") || head == "declare global " || head == "export "
}

// close ends a scope.
func (b *braceScanner) close() {
	b.at++
	b.last = '}'
	if n := len(b.scopes); n > 0 {
		if s := b.scopes[n-1]; s.named {
			s.end = lineEnd(b.text, b.at)
			b.out = append(b.out, s.declaration)
		}
		s := b.scopes[n-1]
		b.scopes = b.scopes[:n-1]
		b.reset()
		if s.within {
			b.head, b.parens, b.start, b.lead = append(b.head, s.head...), s.parens, s.from, s.lead
		}
		return
	}
	b.reset()
}

// php skips text up to the start of a program.
func (b *braceScanner) php() {
	i := strings.Index(b.text[b.at:], "<?")
	if i < 0 {
		b.at = len(b.text)
		return
	}
	b.at += i + 2
	for _, tag := range []string{"php", "="} {
		if strings.HasPrefix(b.text[b.at:], tag) {
			b.at += len(tag)
			return
		}
	}
}

// literal returns the length of the string, character or regular expression that rest begins with; 0 if it begins with
// none of them.
func (b *braceScanner) literal(rest string) int {
	switch c := rest[0]; {
	case b.s.rawString && strings.HasPrefix(rest, "R\""):
		if i := strings.IndexByte(rest[:min(len(rest), 20)], '('); i > 1 {
			return until(rest, ")"+rest[2:i]+"\"", i)
		}
	case b.s.rust && (strings.HasPrefix(rest, "r\"") || strings.HasPrefix(rest, "r#")) && !doc.IsAlnum(b.before()):
		marks := len(rest[1:]) - len(strings.TrimLeft(rest[1:], "#"))
		if marks < 64 && strings.HasPrefix(rest[1+marks:], "\"") {
			return until(rest, "\""+strings.Repeat("#", marks), marks+2)
		}
	case b.s.verbatim &&
		(strings.HasPrefix(rest, "@\"") || strings.HasPrefix(rest, "$@\"") || strings.HasPrefix(rest, "@$\"")):
		for n := strings.IndexByte(rest, '"') + 1; ; n++ {
			if n += until(rest[n:], "\"", 0); n >= len(rest) || rest[n] != '"' {
				return min(n, len(rest))
			}
		}
	case b.s.php && strings.HasPrefix(rest, "<<<"):
		return heredoc(rest)
	case strings.HasPrefix(rest, `"""`) && !b.s.c:
		return until(rest, `"""`, 3)
	case c == '"':
		return quoted(rest, !(b.s.rust || b.s.php))
	case c == '\'':
		return b.character(rest)
	case c == '`' && b.s.js:
		return template(rest)
	case c == '`' && b.s.raw:
		return until(rest, "`", 1)
	case c == '/' && b.s.js && (strings.IndexByte("(,=:[!&|?{};+-*%~^<>\x00", b.last) >= 0 || b.afterWord()):
		return expression(rest)
	}
	return 0
}

// afterWord reports whether the position follows a word after which no operator can stand.
func (b *braceScanner) afterWord() bool {
	head := strings.TrimRight(string(b.head[max(0, len(b.head)-12):]), " \n")
	return strings.HasSuffix(head, "return") || strings.HasSuffix(head, "case") || strings.HasSuffix(head, "typeof")
}

func (b *braceScanner) before() byte {
	if b.at == 0 {
		return 0
	}
	return b.text[b.at-1]
}

// character returns the length of a character, or of a string in single quotes; 0 for the mark of a lifetime and a
// separator between digits.
func (b *braceScanner) character(rest string) int {
	switch {
	case b.s.js || b.s.php:
		return quoted(rest, b.s.js)
	case doc.IsAlnum(b.before()):
		return 0
	}
	end := quoted(rest[:min(len(rest), 16)], true)
	if b.s.rust && (end == 1 || rest[end-1] != '\'' || end > 6 && rest[1] != '\\') {
		return 0
	}
	return max(end, 1)
}

// quoted returns the length of a string that ends with the mark it begins with, or, with oneLine, at the end of its
// line.
func quoted(s string, oneLine bool) int {
	for i := 1; i < len(s); i++ {
		switch {
		case s[i] == '\\':
			i++
		case s[i] == s[0]:
			return i + 1
		case s[i] == '\n' && oneLine:
			return i
		}
	}
	return len(s)
}

// template returns the length of a template string, with strings and braces within it.
func template(s string) int {
	depth := 0
	for i := 1; i < len(s); i++ {
		switch {
		case s[i] == '\\':
			i++
		case depth == 0 && s[i] == '`':
			return i + 1
		case strings.HasPrefix(s[i:], "${"), depth > 0 && s[i] == '{':
			if depth++; s[i] == '$' {
				i++
			}
		case depth > 0 && s[i] == '}':
			depth--
		}
	}
	return len(s)
}

// expression returns the length of a regular expression, 0 if it does not end within the line.
func expression(s string) int {
	class := false
	for i := 1; i < min(len(s), maxCodeLine) && s[i] != '\n'; i++ {
		switch {
		case s[i] == '\\':
			i++
		case s[i] == '[':
			class = true
		case s[i] == ']':
			class = false
		case s[i] == '/' && !class:
			return i + 1
		}
	}
	return 0
}

// heredoc returns the length of a text between a word and the same word on a line of its own.
func heredoc(s string) int {
	line := until(s, "\n", 0)
	word := strings.Trim(strings.TrimSpace(s[3:line]), `"'`)
	if word == "" || len(word) > 80 || !doc.IsAlnum(word[0]) && word[0] != '_' {
		return 0
	}
	at := line
	for l := range strings.Lines(s[min(line+1, len(s)):]) {
		at += len(l)
		if t := strings.TrimSpace(l); strings.HasPrefix(t, word) {
			return min(at, len(s))
		}
	}
	return len(s)
}
