// Package code reads source code: a section for each function and type.
package code

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/sluice-rag/sluice/rag/corpus/charset"
	"github.com/sluice-rag/sluice/rag/corpus/doc"
)

// declaration is a function or type of a source file: a byte range of its text, from the comment above it to the end of
// its last line. Two declarations are nested or disjoint.
type declaration struct {
	start, end int
	name       string // as a heading: "func (p *Parser) Next", "class Circle"
}

// Language finds the functions and types of a programming language.
type Language struct {
	name    string
	outline func(text, name string, p *doc.Pulse) []declaration
}

// languages are the programming languages by the extensions of their files.
var languages = func() map[string]Language {
	braces := func(name string, s syntax) Language {
		return Language{name, func(text, _ string, p *doc.Pulse) []declaration { return braceOutline(text, s, p) }}
	}
	lines := func(name string, s lineSyntax) Language {
		return Language{name, func(text, _ string, p *doc.Pulse) []declaration { return lineOutline(text, s, p) }}
	}
	python := func(text, _ string, p *doc.Pulse) []declaration { return pythonOutline(text, p) }
	all := map[string]Language{}
	for endings, l := range map[string]Language{
		".go":                {"go", goOutline},
		".py .pyi":           {"python", python},
		".js .mjs .cjs .jsx": braces("javascript", syntax{js: true}),
		".ts .mts .cts .tsx": braces("typescript", syntax{js: true}),
		".java":              braces("java", syntax{typed: true}),
		".cs":                braces("c#", syntax{typed: true, verbatim: true}),
		".c":                 braces("c", syntax{c: true}),
		".h .cc .cpp .cxx .hh .hpp .hxx .cu .cuh": braces("c++", syntax{c: true, rawString: true}),
		".rs":            braces("rust", syntax{rust: true}),
		".kt":            braces("kotlin", syntax{newlines: true}),
		".swift":         braces("swift", syntax{newlines: true}),
		".php":           braces("php", syntax{php: true}),
		".rb":            lines("ruby", rubySyntax),
		".sh .bash .zsh": lines("shell", shellSyntax),
		".lua":           lines("lua", luaSyntax),
		".pl .pm":        lines("perl", perlSyntax),
	} {
		for ending := range strings.FieldsSeq(endings) {
			all[ending] = l
		}
	}
	return all
}()

// Of returns the language of files with an extension, such as ".go".
func Of(ending string) (l Language, ok bool) {
	l, ok = languages[ending]
	return l, ok
}

// ErrGenerated is a file that a program has written.
var ErrGenerated = errors.New("corpus: generated or minified code")

// Names lists the usual extensions, for messages.
const Names = "go, py, js, ts, java, c, h, cpp, cs, rs, rb, php, sh, kt, swift, lua and pl"

// Parse reads a source file into a section for each function and type, with the comment above it, below the file's
// name. A file that a parser cannot read is one section. Files marked as generated, or with the long lines of minified
// code, are ErrGenerated unless all is set.
func Parse(d *doc.Document, in charset.Text, l Language, all bool, p *doc.Pulse) error {
	if !all {
		if why := generated(in.Text); why != "" {
			return fmt.Errorf("%w: %s; name the file itself to have it read", ErrGenerated, why)
		}
	}
	name := path.Base(d.ID)
	d.Text, d.Offsets, d.Title = in.Text, in.Map, name
	d.SetMeta(doc.CodeKey, l.name)
	d.Blocks = []doc.Block{{Span: doc.Span{End: len(in.Text)}, Code: true}}
	d.Sections = codeSections(in.Text, name, l.outline(in.Text, name, p))
	for i := range d.Sections {
		d.Sections[i].Source = in.Map.Start(d.Sections[i].Start)
	}
	d.Normalise(p)
	return nil
}

// codeSections splits a file at its declarations. Text outside of them is in a section of the file's name, text in a
// type but in none of its methods in a section of the type's.
func codeSections(text, file string, list []declaration) []doc.Section {
	slices.SortFunc(list, func(a, b declaration) int {
		if a.start != b.start {
			return a.start - b.start
		}
		return b.end - a.end
	})
	var out []doc.Section
	line, counted := 1, 0
	add := func(start, end int, within []declaration) {
		s := doc.WholeLines(text, doc.Span{Start: start, End: end})
		if s.Start >= s.End {
			return
		}
		heading := []string{file}
		for _, d := range within {
			heading = append(heading, d.name)
		}
		line += strings.Count(text[counted:s.Start], "\n")
		counted = s.Start
		out = append(out, doc.Section{Heading: heading, Anchor: doc.LineAnchor(line), Start: s.Start, End: s.End,
			Line: line})
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

// maxScopes bounds the nesting of types as headings.
const maxScopes = 8

const (
	minifiedLine = 1000 // bytes; a longer line marks minified code
	generatedIn  = 4 << 10
)

// generatedMark matches the mark of a generated file.
var generatedMark = regexp.MustCompile(
	`(?mi)^\W{0,8}(Code generated .*DO NOT EDIT|@generated\b|Generated by .*DO NOT EDIT)`)

// generated returns why a file counts as generated, or "".
func generated(text string) string {
	if mark := generatedMark.FindString(text[:min(len(text), generatedIn)]); mark != "" {
		return fmt.Sprintf("it says %q", strings.TrimSpace(doc.CutRunes(mark, 80)))
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
