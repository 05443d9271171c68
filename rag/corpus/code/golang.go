package code

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strings"

	"github.com/sluice-rag/sluice/rag/corpus/doc"
)

// Limits for the parser of Go, whose tree takes many times the size of the text and whose stack grows with nested
// brackets.
const (
	maxGoBytes = 4 << 20
	maxGoDepth = 1000
)

// goOutline finds the declarations of a Go file; a file with syntax errors is read like other languages with braces.
func goOutline(text, name string, p *doc.Pulse) []declaration {
	if len(text) > maxGoBytes || tooDeep(text) {
		return braceOutline(text, syntax{newlines: true, raw: true}, p)
	}
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil || file == nil {
		return braceOutline(text, syntax{newlines: true, raw: true}, p)
	}
	base := set.File(file.FileStart).Base()
	var out []declaration
	add := func(doc *ast.CommentGroup, n ast.Node, name string) {
		from := n.Pos()
		if doc != nil {
			from = min(from, doc.Pos())
		}
		start, end := int(from)-base, int(n.End())-base
		if start < 0 || end > len(text) || start >= end {
			return
		}
		out = append(out, declaration{lineStart(text, start), lineEnd(text, end), name})
	}
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			add(d.Doc, d, goFunction(text, d, base))
		case *ast.GenDecl:
			if d.Tok != token.TYPE {
				continue
			}
			for _, s := range d.Specs {
				t, ok := s.(*ast.TypeSpec)
				switch {
				case ok && d.Lparen.IsValid():
					add(t.Doc, t, "type "+t.Name.Name)
				case ok:
					add(d.Doc, d, "type "+t.Name.Name)
				}
			}
		}
	}
	return out
}

// goFunction returns "func Name" or "func (r Receiver) Name".
func goFunction(text string, d *ast.FuncDecl, base int) string {
	if d.Recv == nil {
		return "func " + d.Name.Name
	}
	from, to := int(d.Recv.Pos())-base, int(d.Recv.End())-base
	if from < 0 || to > len(text) || from > to {
		return "func " + d.Name.Name
	}
	return "func " + strings.Join(strings.Fields(text[from:to]), " ") + " " + d.Name.Name
}

// tooDeep reports whether brackets are nested, or operators chained, deeper than in any code that people write.
func tooDeep(text string) bool {
	depth, run := 0, 0
	for i := range len(text) {
		switch c := text[i]; {
		case c == '(' || c == '[' || c == '{':
			if depth++; depth > maxGoDepth {
				return true
			}
		case (c == ')' || c == ']' || c == '}') && depth > 0:
			depth--
		}
		if strings.IndexByte("*&!+-^<~[]", text[i]) >= 0 {
			if run++; run > maxGoDepth {
				return true
			}
		} else if text[i] != ' ' {
			run = 0
		}
	}
	return false
}

// lineStart returns the start of the line that holds at, if only a little white space precedes at in it; else at.
func lineStart(text string, at int) int {
	for i := at; i >= max(0, at-maxCodeLine); i-- {
		if i == 0 || text[i-1] == '\n' {
			return i
		}
		if c := text[i-1]; c != ' ' && c != '\t' && c != '\r' {
			break
		}
	}
	return at
}

// lineEnd returns the end of the line in which a declaration ends at at, if only a comment or a semicolon follows; else
// at.
func lineEnd(text string, at int) int {
	rest := text[at:min(len(text), at+maxCodeLine)]
	if i := strings.IndexByte(rest, '\n'); i >= 0 {
		rest = rest[:i]
	} else if at+len(rest) < len(text) {
		return at
	}
	switch t := strings.TrimLeft(strings.TrimSpace(rest), ";, \t"); {
	case t == "", strings.HasPrefix(t, "//"), strings.HasPrefix(t, "#"), strings.HasPrefix(t, "--"):
		return at + len(rest)
	}
	return at
}
