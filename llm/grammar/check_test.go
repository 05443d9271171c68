package grammar

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// grammars that llama.cpp takes, with texts that they have and have not.
func grammars() []struct {
	name, source string
	yes, no      []string
} {
	return []struct {
		name, source string
		yes, no      []string
	}{
		{"literal", `root ::= "yes" | "no"`, []string{"yes", "no"}, []string{"", "ye", "yesno"}},
		{"escapes", `root ::= "\x41é\U0001F600\n\t\r\\\"\[\]\-"`, []string{"Aé😀\n\t\r\\\"[]-"}, []string{"A"}},
		{"class", `root ::= [a-z0-9_-] [^a-z\]] [\x30-\u0039] [-a] [a-]`, []string{"-A5-a", "_\n0a-"},
			[]string{"aa0aa", "A!0aa"}},
		{"any", "root ::= . .", []string{"ab", "\n😀"}, []string{"a", "abc"}},
		{"repeat", `root ::= "a"* "b"+ "c"? "d"{2} "e"{1,} "f"{0,2}`, []string{"bdde", "aabbcddeeff"},
			[]string{"dde", "bdd", "bddefff"}},
		{"spaced bounds", `root ::= "a"{ 1 , 2 }`, []string{"a", "aa"}, []string{"", "aaa"}},
		{"nothing", `root ::= | "a" ""`, []string{"", "a"}, []string{"b"}},
		{"group over lines", "root ::= (\n  \"a\" # one\n | \"b\"\n)+ # end\n\n# done", []string{"abba"},
			[]string{"", "c"}},
		{"alternatives over lines", "root ::= \"a\" |\n  \"b\" |\r\n \"c\"\r\nx ::= \"y\"", []string{"b", "c"},
			[]string{"y"}},
		{"rules", "root ::= item (\",\" item)*\nitem ::= [0-9]+ | \"(\" root \")\"", []string{"1,(2,3),4"},
			[]string{"1,", "(1"}},
		{"repeated repetition", `root ::= ("a"{2}){2} | "b"*{2}`, []string{"aaaa", "", "bbb"}, []string{"aaa", "ab"}},
		{"repeated after a repetition", `root ::= "ab"{2}{2}`, []string{"abababab"}, []string{"abab"}},
		{"may be empty, repeated", "root ::= ws* \"x\"\nws ::= [ ]*", []string{"x", "   x"}, []string{" "}},
		{"unused rule that never ends", "root ::= \"a\"\nb ::= \"b\" b", []string{"a"}, []string{"b"}},
		{"most repetitions", `root ::= [a]{2000}`, []string{strings.Repeat("a", 2000)},
			[]string{strings.Repeat("a", 1999)}},
		{"right recursion", "root ::= \"a\" root | \"b\"", []string{"b", "aab"}, []string{"a"}},
		{"recursion behind a literal", "root ::= \"[\" (root (\",\" root)*)? \"]\"", []string{"[]", "[[],[[]]]"},
			[]string{"[", "[,]"}},
		{"hyphens and digits in names", "root ::= 1-a\n1-a ::= \"x\"", []string{"x"}, []string{"1"}},
		{"negated range", `root ::= [^\x00-\x1F"\\]+`, []string{"aé"}, []string{"", "a\"", "a\n"}},
	}
}

func TestCheckTakesWhatLlamaCppTakes(t *testing.T) {
	for _, g := range grammars() {
		m, err := newMatcher(g.source)
		if err != nil {
			t.Errorf("%s: %v", g.name, err)
			continue
		}
		for _, text := range g.yes {
			if !m.match(text) {
				t.Errorf("%s: %.40q is not matched", g.name, text)
			}
		}
		for _, text := range g.no {
			if m.match(text) {
				t.Errorf("%s: %.40q is matched", g.name, text)
			}
		}
	}
}

// refusals are grammars with the place, the rule and a word of the reason.
func refusals() []struct {
	source       string
	line, column int
	rule, reason string
} {
	var chain strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&chain, "r%d ::= r%d\n", i, i+1)
	}
	var fan strings.Builder
	for i := range 20 {
		fmt.Fprintf(&fan, "r%d ::= r%d \"x\" | r%d \"y\"\n", i, i+1, i+1)
	}
	return []struct {
		source       string
		line, column int
		rule, reason string
	}{
		{"", 1, 1, "", `no rule "root"`},
		{"a ::= \"x\"\n", 2, 1, "", `no rule "root"`},
		{"root ::= \"a\n\"b", 2, 2, "b", "not defined"},
		{"root ::= \"é\" \"abc", 1, 14, "root", "literal is not closed"},
		{"root ::= [abc", 1, 10, "root", "class is not closed"},
		{"root ::= \"a\\", 1, 12, "root", "unknown escape"},
		{`root ::= "\q"`, 1, 11, "root", "unknown escape: a backslash before 'q'"},
		{`root ::= "\x4"`, 1, 11, "root", "2 hexadecimal digits"},
		{`root ::= "\u12"`, 1, 11, "root", "4 hexadecimal digits"},
		{`root ::= "\x00"`, 1, 11, "root", "no text has the character 0x0"},
		{`root ::= "\uD800"`, 1, 11, "root", "0xD800"},
		{`root ::= "\U00110000"`, 1, 11, "root", "0x110000"},
		{`root ::= "\UFFFFFFFF"`, 1, 11, "root", "0xFFFFFFFF"},
		{`root ::= []`, 1, 10, "root", "at least one character"},
		{`root ::= [^]`, 1, 10, "root", "at least one character"},
		{`root ::= [z-a]`, 1, 11, "root", "reversed"},
		{`root ::= [\x00]`, 1, 10, "root", "no character"},
		{`root ::= [^\x00-\U0010FFFF]`, 1, 10, "root", "no character"},
		{`root ::= [\uD800-\uDFFF]`, 1, 10, "root", "no character"},
		{"root ::= \"a\"\nroot ::= \"b\"", 2, 1, "root", "defined twice"},
		{"root ::= \"a\" b\nc ::= d", 1, 14, "b", "not defined"},
		{"root = \"a\"", 1, 6, "root", `expected "::="`},
		{"::= \"a\"", 1, 1, "", "expected a rule's name"},
		{"root ::= \"a\"\n | \"b\"", 2, 2, "", "expected a rule's name"},
		{"root ::= \"a\" & \"b\"", 1, 14, "root", "unexpected '&'"},
		{"root ::= \"a\" a_b\na ::= \"a\"", 1, 15, "root", "unexpected '_'"},
		{"root ::= (\"a\"", 1, 10, "root", "'(' without ')'"},
		{"root ::= (\"a\" & )", 1, 15, "root", "unexpected '&' in a group"},
		{"root ::= \"a\")", 1, 13, "root", "')' without '('"},
		{"root ::= *", 1, 10, "root", "nothing to repeat"},
		{`root ::= ""*`, 1, 12, "root", "nothing to repeat"},
		{`root ::= "a"{0}+`, 1, 16, "root", "nothing to repeat"},
		{`root ::= "a"{`, 1, 14, "root", "expected a number"},
		{`root ::= "a"{,2}`, 1, 14, "root", "expected a number"},
		{`root ::= "a"{2`, 1, 15, "root", "expected '}'"},
		{`root ::= "a"{2;}`, 1, 15, "root", "expected '}'"},
		{`root ::= "a"{3,2}`, 1, 13, "root", "at least 3 and at most 2"},
		{`root ::= "a"{2001}`, 1, 14, "root", "limit of 2000"},
		{`root ::= "a"{1,2001}`, 1, 16, "root", "limit of 2000"},
		{`root ::= "a"{99999999999999999999999}`, 1, 14, "root", "limit of 2000"},
		{`root ::= "a"{50}{50}`, 1, 17, "root", "limit of 2000"},
		{`root ::= ("a"?){1001}`, 1, 16, "root", "limit of 2000"},
		{"root ::= (a b c){667}\na::=\"a\"\nb::=\"b\"\nc::=\"c\"", 1, 17, "root", "limit of 2000"},
		{"root ::= <think>", 1, 10, "root", "token references"},
		{"root ::= !<[5]>", 1, 10, "root", "token references"},
		{"root ::= \"a\x00\"", 1, 12, "", "NUL"},
		{"root ::= \"é\xff\"", 1, 12, "", "invalid UTF-8: byte 0xFF"},
		{"root ::= root \"a\" | \"b\"", 1, 1, "root", "left recursion: root → root"},
		{"root ::= \"(\" a\na ::= b \"x\" | \"y\"\nb ::= a | \"z\"", 2, 1, "a", "left recursion: a → b → a"},
		{"root ::= \"x\" (\"a\"* a)?\na ::= e root | \"b\"\ne ::= | \"e\"\n", 0, 0, "", ""},
		{"root ::= e root \"b\" | \"c\"\ne ::= \"e\"? \"f\"?", 1, 1, "root", "left recursion: root → root"},
		{"root ::= (|\"a\")*", 1, 16, "root", "left recursion"},
		{"root ::= \"a\" root", 1, 1, "root", "never ends"},
		{"root ::= \"a\" | b\nb ::= \"b\" c\nc ::= \"c\" b", 2, 1, "b", "never ends"},
		{"root ::= \"" + strings.Repeat("a", 3000) + "\"{1000}", 1, 3012, "root", "symbols"},
		{"root ::= " + strings.Repeat("(", 501), 1, 510, "root", "inside each other"},
		{strings.Repeat("#", maxSource+1), 1, 1, "", "at most 1048576"},
		{chain.String() + "r5000 ::= \"x\"\nroot ::= r0", 1000, 1, "r999", "4000 rules begin with one another"},
		{fan.String() + "r20 ::= \"x\"\nroot ::= r0", 7, 1, "r6", "ways to begin"},
	}
}

func TestCheckSaysWhereAndWhy(t *testing.T) {
	for _, r := range refusals() {
		err := Check(r.source)
		if r.reason == "" {
			if err != nil {
				t.Errorf("%.60q: %v", r.source, err)
			}
			continue
		}
		syntax, ok := errors.AsType[*SyntaxError](err)
		if !ok || !errors.Is(err, ErrGrammar) {
			t.Errorf("%.60q: %v", r.source, err)
			continue
		}
		if syntax.Line != r.line || syntax.Column != r.column || syntax.Rule != r.rule ||
			!strings.Contains(syntax.Reason, r.reason) {
			t.Errorf("%.60q: %v; want line %d, column %d, rule %q, %q",
				r.source, err, r.line, r.column, r.rule, r.reason)
		}
	}
}

// FuzzCheck looks for panics, and for grammars that pass but have no text that they match.
func FuzzCheck(f *testing.F) {
	for _, g := range grammars() {
		f.Add(g.source)
	}
	for _, r := range refusals() {
		if len(r.source) < 200 {
			f.Add(r.source)
		}
	}
	f.Fuzz(func(t *testing.T, source string) {
		if len(source) > 400 {
			return
		}
		p, err := check(source)
		if err != nil {
			syntax, ok := errors.AsType[*SyntaxError](err)
			if !ok || syntax.Line < 1 || syntax.Column < 1 || syntax.Reason == "" {
				t.Fatalf("%#v", err)
			}
			return
		}
		if len(p.rules) > 2000 {
			return
		}
		m, err := newMatcher(source)
		if err != nil {
			t.Fatal(err)
		}
		if text := m.derive(newRand(source), 100); len(text) < 200 && !m.match(text) {
			t.Fatalf("%q derives %q but does not match it", source, text)
		}
	})
}
