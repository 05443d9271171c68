package corpus

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
)

// declaration is a function or type of a source file: bytes of its text, from the comment above it to the end of its
// last line. Declarations are nested or apart.
type declaration struct {
	start, end int
	name       string // as a heading: "func (p *Parser) Next", "class Circle"
}

// codeKey is where a document's metadata name its programming language.
const codeKey = "code"

// language is how the functions and types of a programming language are found.
type language struct {
	name    string
	outline func(text, name string, p *pulse) []declaration
}

// languages are the programming languages by the endings of their files.
func languages() map[string]language {
	braces := func(name string, s syntax) language {
		return language{name, func(text, _ string, p *pulse) []declaration { return braceOutline(text, s, p) }}
	}
	lines := func(name string, s lineSyntax) language {
		return language{name, func(text, _ string, p *pulse) []declaration { return lineOutline(text, s, p) }}
	}
	python := language{"python", func(text, _ string, p *pulse) []declaration { return pythonOutline(text, p) }}
	c, cpp := braces("c", syntax{c: true}), braces("c++", syntax{c: true, rawString: true})
	js, ts := braces("javascript", syntax{js: true}), braces("typescript", syntax{js: true})
	shell := lines("shell", shellSyntax())
	return map[string]language{
		".go": {"go", goOutline}, ".py": python, ".pyi": python,
		".js": js, ".mjs": js, ".cjs": js, ".jsx": js, ".ts": ts, ".mts": ts, ".cts": ts, ".tsx": ts,
		".java": braces("java", syntax{typed: true}), ".cs": braces("c#", syntax{typed: true, verbatim: true}),
		".c": c, ".h": cpp, ".cc": cpp, ".cpp": cpp, ".cxx": cpp, ".hh": cpp, ".hpp": cpp, ".hxx": cpp, ".cu": cpp,
		".cuh": cpp, ".rs": braces("rust", syntax{rust: true}), ".kt": braces("kotlin", syntax{newlines: true}),
		".swift": braces("swift", syntax{newlines: true}), ".php": braces("php", syntax{php: true}),
		".rb": lines("ruby", rubySyntax()), ".sh": shell, ".bash": shell, ".zsh": shell,
		".lua": lines("lua", luaSyntax()), ".pl": lines("perl", perlSyntax()), ".pm": lines("perl", perlSyntax()),
	}
}

// codeNames are those endings, for messages.
const codeNames = "go, py, js, ts, java, c, h, cpp, cs, rs, rb, php, sh, kt, swift, lua and pl"

// parseCode reads a source file: a section for each function and type, with the comment above it, below the file's
// name. What a parser does not understand is one section. Files that say they are generated, or have the long lines of
// minified ones, are ErrGenerated unless all is asked for.
func parseCode(d *Document, raw string, l language, all bool, p *pulse) error {
	in := decode(raw, p)
	if !all {
		if why := generated(in.text); why != "" {
			return fmt.Errorf("%w: %s; name the file itself to have it read", ErrGenerated, why)
		}
	}
	name := path.Base(d.ID)
	d.Text, d.offsets, d.Repaired = in.text, in.m, in.repaired
	d.Title, d.Meta = name, map[string]string{codeKey: l.name}
	d.blocks = []block{{end: len(in.text), code: true}}
	d.Sections = codeSections(in.text, name, l.outline(in.text, name, p))
	for i := range d.Sections {
		d.Sections[i].source = in.m.start(d.Sections[i].Start)
	}
	d.normalise(p)
	return nil
}

// codeSections parts a file between its declarations. What is outside of them stands below the file's name, what is in
// a type but in none of its methods below the type's.
func codeSections(text, file string, list []declaration) []Section {
	slices.SortFunc(list, func(a, b declaration) int {
		if a.start != b.start {
			return a.start - b.start
		}
		return b.end - a.end
	})
	var out []Section
	line, counted := 1, 0
	add := func(start, end int, within []declaration) {
		s := wholeLines(text, span{start, end})
		if s.start >= s.end {
			return
		}
		heading := []string{file}
		for _, d := range within {
			heading = append(heading, d.name)
		}
		line += strings.Count(text[counted:s.start], "\n")
		counted = s.start
		out = append(out, Section{Heading: heading, Anchor: lineAnchor(line), Start: s.start, End: s.end, line: line})
	}
	var within []declaration
	at := 0
	leave := func(to int) {
		for n := len(within); n > 0 && within[n-1].end <= to; n = len(within) {
			add(at, within[n-1].end, within)
			at = max(at, within[n-1].end)
			within = within[:n-1]
		}
	}
	for _, d := range list {
		leave(d.start)
		if d.start < at || d.start >= d.end || len(within) > 0 && d.end > within[len(within)-1].end ||
			len(within) > maxScopes {
			continue
		}
		add(at, d.start, within)
		at = d.start
		within = append(within, d)
	}
	leave(len(text))
	add(at, len(text), nil)
	return out
}

// maxScopes is how many types may be within each other as headings.
const maxScopes = 8

const (
	minifiedLine = 1000 // bytes of a line that nobody writes
	generatedIn  = 4 << 10
)

// generatedMark is what a generated file says.
var generatedMark = regexp.MustCompile(
	`(?mi)^\W{0,8}(Code generated .*DO NOT EDIT|@generated\b|Generated by .*DO NOT EDIT)`)

// generated says why a file was not written by people, or "".
func generated(text string) string {
	if mark := generatedMark.FindString(text[:min(len(text), generatedIn)]); mark != "" {
		return fmt.Sprintf("it says %q", strings.TrimSpace(cutRunes(mark, 80)))
	}
	long := 0
	for line := range strings.Lines(text) {
		if len(line) > minifiedLine {
			long += len(line)
		}
	}
	if long > len(text)/2 {
		return fmt.Sprintf("%d of its %d bytes are in lines of more than %d bytes", long, len(text), minifiedLine)
	}
	return ""
}
