//go:build native

package llm

import (
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/sluice-rag/sluice/internal/test/race"
)

func ask(question string) []Message { return []Message{{Role: User, Content: question}} }

// rendered returns the text of messages by a template, without a vocabulary.
func rendered(source string, msgs []Message) (string, error) {
	return renderChat(new(handle), source, chat{messages: msgs}, nil)
}

// conversations that the golden prompts are of.
var conversations = map[string][]Message{
	"user":   {{Role: User, Content: "Hi there"}},
	"system": {{Role: System, Content: "Be brief."}, {Role: User, Content: "Hi there"}},
	"turns": {{Role: User, Content: "Hi there"}, {Role: Assistant, Content: "Hello."},
		{Role: User, Content: " Bye\n"}},
	"all": {{Role: System, Content: "Be brief."}, {Role: User, Content: "Hi there"},
		{Role: Assistant, Content: "Hello."}, {Role: User, Content: " Bye\n"}},
}

// The prompts of testdata/chat are what Jinja2 3.1.6 makes of the templates beside them with the settings of Hugging
// Face's transformers (trim_blocks, lstrip_blocks, loop controls; tools and documents none; its tojson; no tokens at
// the ends). The templates are the published ones without what formats tools and images; "typed" and "macros" use what
// those do not. Gemma's were given the system message as part of the user's, the typed one its contents as parts.
func TestChatTemplatesAsJinja(t *testing.T) {
	text, err := os.ReadFile("testdata/chat/golden.json")
	if err != nil {
		t.Fatal(err)
	}
	var golden map[string]map[string]string
	if err := json.Unmarshal(text, &golden); err != nil {
		t.Fatal(err)
	}
	chats := map[string][]Message{"thought": {{Role: User, Content: "Größe?"},
		{Role: Assistant, Content: "<think>\nA 🜚?\n</think>\n\nNo."},
		{Role: User, Content: "日本?"},
		{Role: Assistant, Content: "<think>x</think>Yes"}}}
	maps.Copy(chats, conversations)
	if len(golden) < 7 {
		t.Fatal("templates are missing:", len(golden))
	}
	for name, prompts := range golden {
		source, err := os.ReadFile(filepath.Join("testdata/chat", name+".jinja"))
		if err != nil {
			t.Fatal(err)
		}
		for kind, chat := range chats {
			t.Run(name+"/"+kind, func(t *testing.T) {
				before := time.Now()
				got, err := rendered(string(source), chat)
				day := func(at time.Time) string {
					return strings.ReplaceAll(prompts[kind], "@DATE@", at.Format("02 Jan 2006"))
				}
				if err != nil || prompts[kind] == "" || got != day(before) && got != day(time.Now()) {
					t.Errorf("%q, not\n%q, %v", got, prompts[kind], err)
				}
			})
		}
	}
}

// TestChatSelection: tests of attributes need no argument (Mistral Nemo's template has one), and those of items are not
// taken for attributes. Jinja2 gives the same.
func TestChatSelection(t *testing.T) {
	chat := []Message{{Role: User, Content: "A"}, {Role: Assistant, Content: "B"}, {Role: User, Content: "C"}}
	const shown = ` | map(attribute="content") | join }}`
	for source, want := range map[string]string{
		`{{ messages | selectattr("tool_calls", "undefined")` + shown: "ABC",
		`{{ messages | rejectattr("tool_calls", "undefined")` + shown: "",
		`{{ messages | selectattr("content")` + shown:                 "ABC",
		`{{ messages | rejectattr("role", "equalto", "user")` + shown: "B",
		`{{ [1, 2, 3] | select("odd") | join }}`:                      "13",
		`{{ [1, 2, 3] | reject("equalto", 2) | join }}`:               "13",
		`{{ ["", "a"] | select() | join }}`:                           "a",
	} {
		if got, err := rendered(source, chat); err != nil || got != want {
			t.Errorf("%s: %q, not %q, %v", source, got, want, err)
		}
	}
	if _, err := rendered(`{{ messages | selectattr("role", "no test") }}`, chat); !errors.Is(err, ErrTemplate) {
		t.Errorf("an unknown test: %v", err)
	}
}

// System messages of templates without a place for them go before the next user message; all are kept.
func TestChatSystemMessages(t *testing.T) {
	source := `{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no system') }}{% endif %}<{{ m.role }}>{{ m.content }}{% endfor %}`
	for _, c := range []struct {
		chat []Message
		want string
	}{
		{[]Message{{Role: System, Content: "A"}, {Role: User, Content: "B"}}, "<user>A\n\nB"},
		{[]Message{{Role: System, Content: "A"}, {Role: System, Content: "B"}, {Role: User, Content: "C"}},
			"<user>A\n\nB\n\nC"},
		{[]Message{{Role: User, Content: "A"}, {Role: Assistant, Content: "B"}, {Role: System, Content: "C"},
			{Role: User, Content: "D"}}, "<user>A<assistant>B<user>C\n\nD"},
		{[]Message{{Role: System, Content: "A"}, {Role: Assistant, Content: "B"}, {Role: User, Content: "C"}},
			"<assistant>B<user>A\n\nC"},
		{[]Message{{Role: System, Content: "A"}}, "<user>A"},
		{[]Message{{Role: User, Content: "A"}, {Role: System, Content: "B"}}, "<user>A<user>B"},
	} {
		if got, err := rendered(source, c.chat); err != nil || got != c.want {
			t.Errorf("%q, not %q, %v", got, c.want, err)
		}
	}
}

func TestChatErrors(t *testing.T) {
	for source, reason := range map[string]string{
		"{{ raise_exception('roles must\nalternate\x1b[31m') }}": "line 1, column 19: roles must alternate [31m",
		"\n\n  {% if x %}":     "no usable chat template: ",
		"{{ 1 + }}":            "Unexpected token",
		"{{ messages.x.y() }}": "line 1, column 16: Callee is not a function",
		"{{ 'a'|nonsense }}":   "nonsense",
		"{% include 'x' %}":    "Unknown statement: include",
	} {
		_, err := rendered(source, ask("Hi"))
		if !errors.Is(err, ErrTemplate) || !strings.Contains(err.Error(), reason) ||
			strings.ContainsAny(err.Error(), "\n\x1b") {
			t.Errorf("%q: %q, not %q", source, err, reason)
		}
	}
	if err := parseChat("{{ messages.x.y() }}{{ raise_exception('x') }}"); err != nil {
		t.Error("what parses is refused:", err)
	}
	for _, source := range []string{"{{ 1 + }}", "{% if %}", "chat-ml", ""} {
		if err := parseChat(source); !errors.Is(err, ErrTemplate) {
			t.Errorf("%q: %v", source, err)
		}
	}
}

// Contents come through as they are, whatever they hold, and are no template themselves.
func TestChatContents(t *testing.T) {
	race.Skip(t)
	for _, content := range []string{"", "a\x00b", "{{ 1 }}{% x",
		"\xff\xfe", "\r\n\t", "日本 👩‍👩‍👧", strings.Repeat("long ", 1<<20)} {
		for _, source := range []string{"{{ messages[0].content }}", "{{ messages[0]['content'] }}{% set x = 1 %}",
			"{% for m in messages %}{% for p in m.content %}{{ p.text }}{% endfor %}{% endfor %}"} {
			got, err := rendered(source, ask(content))
			if want := strings.ToValidUTF8(content, "\uFFFD"); err != nil || got != want {
				t.Errorf("%.40q comes out of %s as %.40q, %v", want, source, got, err)
			}
		}
	}
	if got, err := rendered("{{ messages[0].content[:1] }}", ask("ö")); err != nil || !utf8.ValidString(got) {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := rendered("{{ 1 }}", ask(strings.Repeat("x", 65<<20))); !errors.Is(err, ErrTemplate) ||
		!strings.Contains(err.Error(), "67108864") {
		t.Error("too much text:", err)
	}
	many := make([]Message, 1<<16)
	for i := range many {
		many[i] = Message{Role: []Role{User, Assistant}[i%2], Content: "Hi"}
	}
	source, err := os.ReadFile("testdata/chat/llama3.1.jinja")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := rendered(string(source), many); err != nil || strings.Count(got, "Hi") != len(many) {
		t.Error("many messages:", len(got), err)
	}
}

func TestChatTogether(t *testing.T) {
	source, err := os.ReadFile("testdata/chat/qwen3.jinja")
	if err != nil {
		t.Fatal(err)
	}
	want, err := rendered(string(source), conversations["all"])
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 20 {
				if got, err := rendered(string(source), conversations["all"]); err != nil || got != want {
					t.Errorf("%q, %v", got, err)
				}
			}
		})
	}
	wg.Wait()
}

func BenchmarkChatTemplate(b *testing.B) {
	source, err := os.ReadFile("testdata/chat/qwen3.jinja")
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := rendered(string(source), conversations["all"]); err != nil {
			b.Fatal(err)
		}
	}
}

// No template ends the process, or makes what is not text.
func FuzzChatTemplate(f *testing.F) {
	sources, err := filepath.Glob("testdata/chat/*.jinja")
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range sources {
		source, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(source), "Hi")
	}
	for _, source := range []string{"chatml", `{{ messages|tojson(indent=2) }}`,
		`{% set ns = namespace(x=[1, 'a', none]) %}{% set ns.y = ns %}{{ ns.x|sort|join('-') }}`,
		`{% macro f(x, y=2) %}{{ x ~ y }}{% endmacro %}{{ f(1, y='b')|upper|replace('B', 'c')|indent(2) }}`,
		`{{ 'a b c'.split(' ')[::-1]|last }}{{ 5 % 2 is odd }}{{ 7 is divisibleby(2) }}{{ {'a': 1}|dictsort }}{{ 'x' * 3 }}`} {
		f.Add(source, "Hi")
	}
	f.Fuzz(func(t *testing.T, source, content string) {
		if len(source) > 1<<12 || len(content) > 1<<12 {
			return
		}
		text, err := rendered(source,
			[]Message{{Role: System, Content: "Be brief."}, {Role: User, Content: content},
				{Role: Assistant, Content: "Hello."},
				{Role: User, Content: "Bye"}})
		switch {
		case err != nil && (!errors.Is(err, ErrTemplate) || strings.ContainsAny(err.Error(), "\n\x1b") || text != ""):
			t.Errorf("%q, %q", text, err)
		case err == nil && !utf8.ValidString(text):
			t.Errorf("not UTF-8: %q", text)
		}
	})
}

// rep returns a template's source n times.
func rep(s string, n int) string { return strings.Repeat(s, n) }

// Templates come with model files, from anywhere. These are after time, memory, the stack, or the process.
func TestChatHostileTemplates(t *testing.T) {
	race.Skip(t)
	double := func(what string) string {
		return `{% set ns = namespace(x=` + what + `) %}{% for i in range(200) %}`
	}
	for name, c := range map[string]struct{ source, reason string }{
		"endless loops": {`{% for i in range(900) %}{% for j in range(1000000) %}x{% endfor %}{% endfor %}`,
			"too"},
		"long range":      {`{% for i in range(1000000000) %}x{% endfor %}`, "too many values"},
		"nested ranges":   {rep(`{% for i in range(2000) %}`, 6) + rep(`{% endfor %}`, 6), "too long"},
		"backward range":  {`{% for i in range(0, -9223372036854775807, -1) %}x{% endfor %}`, "too many values"},
		"long repetition": {`{{ 'abc' * 10000000000 }}`, "too much text"},
		"doubled text":    {double(`'x'`) + `{% set ns.x = ns.x ~ ns.x %}{% endfor %}{{ ns.x }}`, "too much text"},
		"doubled list":    {double(`[1]`) + `{% set ns.x = ns.x + ns.x %}{% endfor %}`, "too much text"},
		"replaced text": {double(`'aa'`) + `{% set ns.x = ns.x.replace('a', ns.x) %}{% endfor %}`,
			"too much text"},
		"replaced nothing": {double(`'aa'`) + `{% set ns.x = ns.x.replace('', ns.x) %}{% endfor %}`,
			"too much text"},
		"joined text": {double(`'aa'`) + `{% set ns.x = [ns.x, ns.x, ns.x]|join(ns.x) %}{% endfor %}`,
			"too much text"},
		"formatted text": {double(`'{}{}'`) + `{% set ns.x = ('{}' * 99).format(` + rep("ns.x,", 99) +
			`) %}{% endfor %}`, "too"},
		"wide indentation":     {`{{ 'x\ny'|indent(100000000000) }}`, "too much text"},
		"negative indentation": {`{{ 'x\ny'|indent(-1) }}`, ""},
		"wide JSON":            {`{{ [[1]]|tojson(indent=2000000000) }}`, "too much text"},
		"kept texts":           {`{% set l = [] %}{% set s = 'x' * 10000000 %}{% for i in range(100000) %}{% set _ = l.append(s ~ i) %}{% endfor %}`, "too much text"},
		"kept copies":          {`{% set l = [] %}{% set s = 'x' * 10000000 %}{% for i in range(100000) %}{% set _ = l.append(s|string) %}{% endfor %}`, "too much text"},
		"split text":           {`{% set s = 'a ' * 10000000 %}{{ s.split(' ')|length }}`, "too"},
		"slow find":            {`{% set a = 'a' * 4000000 %}{% set b = 'a' * 2000000 ~ 'b' %}{% for i in range(100000) %}{{ b in a }}{% endfor %}`, "too"},
		"slow strip":           {`{% set b = 'b' * 9000000 ~ 'a' %}{{ ('a' * 9000000).strip(b) }}`, "too"},
		"shared lists":         {double(`[]`) + `{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x }}`, "too"},
		"shared lists' JSON":   {double(`[]`) + `{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x|tojson }}`, "too"},
		"shared tuples":        {double(`(1, 2)`) + `{% set ns.x = (ns.x, ns.x) %}{% endfor %}{{ {ns.x: 1} }}`, "too"},
		"itself":               {`{% set ns = namespace() %}{% set ns.x = ns %}{{ ns }}`, ""},
		"itself as text":       {`{% set ns = namespace() %}{% set ns.x = ns %}{{ ns|string }}`, "too deeply"},
		"itself as JSON":       {`{% set ns = namespace() %}{% set ns.x = ns %}{{ ns|tojson }}`, "too deeply"},
		"itself as key":        {`{% set ns = namespace(l=[]) %}{% set ns.x = ns %}{{ ns.l.append(y=ns) }}{{ {ns.l[0]: 1} }}`, "unhashable"},
		"list in itself":       {`{% set l = [] %}{{ l.append(l) }}`, "too deeply"},
		"long chain":           {`{% set ns = namespace(x=[]) %}{% for i in range(60000) %}{% set ns.x = [ns.x] %}{% endfor %}`, ""},
		"long chain as text":   {`{% set ns = namespace(x=[]) %}{% for i in range(60000) %}{% set ns.x = [ns.x] %}{% endfor %}{{ ns.x|string }}`, "too"},
		"endless macro":        {`{% macro f(x) %}{{ f(x) }}{% endmacro %}{{ f(1) }}`, "too"},
		"two endless macros":   {`{% macro f(x) %}{{ g(x) }}{% endmacro %}{% macro g(x) %}{{ f(x) }}{% endmacro %}{{ f(1) }}`, "too"},
		"endless call": {`{% macro f() %}{% call f() %}{{ caller() }}{% endcall %}{% endmacro %}{{ f() }}`,
			"too"},
		"wide macro":          {`{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(60) }}`, "too"},
		"parentheses":         {`{{ ` + rep(`(`, 500000) + `1` + rep(`)`, 500000) + ` }}`, "too deeply"},
		"brackets":            {`{{ ` + rep(`[`, 1000000) + ` }}`, "too deeply"},
		"braces":              {`{{ ` + rep(`{1:`, 100000) + ` }}`, "too deeply"},
		"members":             {`{{ a` + rep(`[a`, 100000) + ` }}`, "too deeply"},
		"negations":           {`{{ ` + rep(`not `, 250000) + `1 }}`, "too deeply"},
		"signs":               {`{{ ` + rep(`-`, 900000) + `a }}`, "too deeply"},
		"calls":               {`{{ a` + rep(`()`, 100000) + ` }}`, "too deeply"},
		"conditions":          {rep(`{%if a%}`, 130000), "too deeply"},
		"alternatives":        {`{%if a%}` + rep(`{%elif a%}`, 100000), ""},
		"ternaries":           {`{{ 1` + rep(` if a else 1`, 80000) + ` }}`, ""},
		"sum":                 {`{{ 1` + rep(`+1`, 100000) + ` }}`, "too deeply"},
		"dots":                {`{{ a` + rep(`.a`, 100000) + ` }}`, "too deeply"},
		"filters":             {`{{ 'a'` + rep(`|trim`, 200000) + ` }}`, "too deeply"},
		"line ends":           {rep("\r\n", 500000) + `{{ 1 }}`, ""},
		"division":            {`{{ 5 is divisibleby(0) }}`, "division by zero"},
		"division's overflow": {`{{ (0 - 9223372036854775807 - 1) is divisibleby(-1) }}`, ""},
		"modulo":              {`{{ 5 % 0 }}`, ""},
		"no order":            {`{% set l = [3,'10',2.5,none,'x',[],true] %}{% for i in range(9) %}{% set l = l + l %}{% endfor %}{{ l|sort|length }}`, ""},
		"no order of many":    {`{% set ns = namespace(l=[3,'10',2.5,'9',7,'1e5',11,'2']) %}{% for i in range(9) %}{% set ns.l = ns.l + ns.l %}{% endfor %}{{ ns.l|sort|length }}{{ ns.l|sort(reverse=true)|length }}`, ""},
		"base":                {`{{ 'zz'|int(base=99) }}`, "base"},
		"odd names":           {`{% macro 1() %}{% endmacro %}`, "Macro name"},
		"odd loop":            {`{% for 1 in [1] %}{% endfor %}`, "loop variable"},
		"odd keyword":         {`{{ f(1=2) }}`, ""},
		"odd filter":          {`{{ 1|2 }}`, "filter"},
		"open":                {`{{ 'a`, "end of input"},
		"open comment":        {`{# a`, "end of comment"},
		"open tag":            {`{% if`, ""},
		"date":                {`{{ strftime_now('%100d') }}`, "format time"},
		"too long":            {`{{ 1 }}` + rep(" ", 1<<20), "more than 1048576"},
	} {
		t.Run(name, func(t *testing.T) {
			text, err := rendered(c.source, []Message{{Role: User, Content: "Hi"}})
			if err != nil && (!errors.Is(err, ErrTemplate) || strings.ContainsAny(err.Error(), "\n\x1b") ||
				len(err.Error()) > 600) {
				t.Errorf("not a line of ErrTemplate: %q", err)
			}
			// On a slow machine time runs out before the other bounds are met.
			late := strings.HasPrefix(c.reason, "too") && err != nil && strings.Contains(err.Error(), "too long")
			if c.reason != "" && !late && (err == nil || !strings.Contains(err.Error(), c.reason)) {
				t.Errorf("%d bytes, %v, not %q", len(text), err, c.reason)
			}
		})
	}
}
