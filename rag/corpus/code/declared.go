package code

import (
	"regexp"
	"strings"

	"github.com/sluice-rag/sluice/rag/corpus/doc"
)

// Patterns of the beginnings of declarations in languages with braces.
var (
	attributes = regexp.MustCompile(`^(?:\s*(?:@[\w.]+(?:\([^()]*\))?|#!?\[[^\]]*\]|\[\[?[^\]]*\]?\]|` +
		`template\s*<[^{}]*?>\s))+\s*`)
	typeKeyword = regexp.MustCompile(`^((?:(?:public|private|protected|internal|static|final|abstract|sealed|` +
		`partial|export|default|pub(?:\([^)]*\))?|unsafe|open|data|inline|declare|const|readonly|strictfp|` +
		`non-sealed|companion|inner|annotation|value|fileprivate|indirect|typedef)\s+)*` +
		`(?:class|struct|interface|enum(?:\s+class|\s+struct)?|trait|impl|namespace|module|mod|extension|` +
		`protocol|object|union|record|@interface|actor)\b)`)
	function = regexp.MustCompile(`^(?:(?:public|private|protected|internal|static|final|abstract|export|default|` +
		`pub(?:\([^)]*\))?|unsafe|open|inline|override|suspend|async|const|extern(?:\s+"[^"]*")?|mutating|` +
		`operator|fileprivate|required|convenience|class|tailrec|infix|nonisolated)\s+)*` +
		`(func|fn|fun|function|init|deinit|macro_rules!)\b\s*(?:\*\s*)?`)
	assigned = regexp.MustCompile(`^(?:export\s+)?(?:default\s+)?(?:(?:const|let|var)\s+)?([\w$.]+)\s*` +
		`(?::[^=]*)?=\s*(?:async\s*)?(?:function\b.*|(?:\([^{}]*\)|[\w$]+)\s*(?::[^={}]*)?=>)\s*$`)
	method = regexp.MustCompile(`^(?:(?:public|private|protected|static|async|get|set|override|readonly|` +
		`abstract)\s+|\*\s*)*([\w$#]+|\[[\w$.]+\])\s*(?:<[^{}]*>)?\(`)
	lastName = regexp.MustCompile(`((?:[\w~$]+(?:<[^<>()]*>)?::)*(?:operator\s*[^\s\w(]+|operator\s*\(\)|` +
		`operator\s+[\w ]+|~?[\w$]+))\s*$`)
)

// declared returns the name of the function or type that a statement before a brace declares, or "", and whether it has
// members.
func (s syntax) declared(head string) (name string, contains bool) {
	body := head
	if !s.js || strings.HasPrefix(head, "@") {
		body = attributes.ReplaceAllString(head, "")
	}
	if m := typeKeyword.FindString(body); m != "" && s.isType(m, body[len(m):]) {
		if s.c && strings.Contains(body, "(") && !strings.HasPrefix(m, "class") { // a function that returns a struct
			if name = s.called(body); name != "" {
				return name, false
			}
		}
		if s.c && strings.Contains(body, "=") {
			return "", false
		}
		return typeName(m, body[len(m):]), !strings.Contains(m, "enum")
	}
	if m := function.FindStringSubmatchIndex(body); m != nil && !s.c && !s.typed {
		word, rest := body[m[2]:m[3]], strings.TrimSpace(body[m[1]:])
		if word == "func" && strings.HasPrefix(rest, "(") { // a method of Go
			if i := strings.IndexByte(rest, ')'); i > 0 {
				return "func " + rest[:i+1] + " " + doc.FirstWord(strings.TrimSpace(rest[i+1:])), false
			}
		}
		return strings.TrimSpace(word + " " + doc.FirstWord(strings.TrimLeft(rest, "`&"))), false
	}
	switch {
	case s.js:
		if m := assigned.FindStringSubmatch(body); m != nil {
			return m[1], false
		}
		if m := method.FindStringSubmatch(body); m != nil && !doc.OneOf(m[1], statements) {
			return m[1] + "()", false
		}
	case s.c || s.typed:
		return s.called(body), false
	case s.newlines && doc.FirstWord(body) == "type" && !strings.Contains(body, "="): // of Go
		words := strings.Fields(body)
		if len(words) > 1 {
			return "type " + doc.FirstWord(words[1]), false
		}
	}
	return "", false
}

// isType reports whether the keyword of a type is used as a keyword here, not as a name.
func (s syntax) isType(keyword, rest string) bool {
	if strings.HasSuffix(keyword, "object") && !s.newlines || rest != "" && strings.IndexByte(" \n<", rest[0]) < 0 {
		return false
	}
	rest = strings.TrimSpace(rest)
	return rest == "" || strings.IndexByte("=.:?,)", rest[0]) < 0
}

// typeName returns the declaration of a type without what it extends.
func typeName(keyword, rest string) string {
	words := strings.Fields(keyword)
	word := words[len(words)-1]
	rest = strings.TrimSpace(rest)
	if word == "impl" || word == "extension" {
		return word + " " + strings.Join(strings.Fields(rest), " ")
	}
	if i := strings.IndexAny(rest, "{(:,\n"); i >= 0 && !strings.HasPrefix(rest[i:], "::") {
		rest = rest[:i]
	}
	names := strings.Fields(rest)
	for i, n := range names {
		if n == "extends" || n == "implements" || n == "final" || n == "where" || n == "permits" {
			names = names[:i]
			break
		}
	}
	if len(names) > 0 && strings.Contains(keyword, "namespace") || len(names) == 1 {
		return word + " " + names[0]
	}
	if len(names) > 1 { // class MACRO Name
		return word + " " + names[len(names)-1]
	}
	return word
}

// called returns the name of a function by its parentheses: a name stands before them, and after them nothing but words
// such as const, an initialiser, a type or a condition.
func (s syntax) called(body string) string {
	open := strings.IndexByte(body, '(')
	if open <= 0 {
		return ""
	}
	before := body[:open]
	if strings.HasSuffix(strings.TrimSpace(before), "operator") && strings.HasPrefix(body[open:], "()") {
		return lastName.FindString(strings.TrimSpace(before)+"()") + "()"
	}
	m := strings.TrimSpace(lastName.FindString(before[max(0, len(before)-doc.MaxSignature):]))
	if m == "" || doc.OneOf(doc.FirstWord(strings.TrimSpace(before)), statements) || doc.OneOf(m, statements) ||
		strings.Contains(strings.ReplaceAll(before, "operator", ""), "=") && !strings.Contains(before, "operator") {
		return ""
	}
	if c := m[0]; c >= '0' && c <= '9' {
		return ""
	}
	return strings.Join(strings.Fields(m), " ") + "()"
}

// statements are words before parentheses and braces that declare nothing.
const statements = " if for while switch catch do else try with using lock synchronized return new throw foreach " +
	"fixed unless case sizeof typeof delete await yield assert static_assert co_return super this function "
