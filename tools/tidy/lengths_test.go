package tidy

import (
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// What one can hold in the head: lines of a file, of a test file and of a function, columns of a line.
const fileMax, testMax, funcMax, widthMax = 520, 820, 80, 120

// A line may be longer when it holds a string literal or an address that is this long by itself.
const unbreakable = 80

// TestFilesAndFunctionsAreShort checks Go, C and C++.
func TestFilesAndFunctionsAreShort(t *testing.T) {
	goFiles, cFiles := 0, 0
	walk(t, func(file string) {
		if !isGo(file) && !isC(file) {
			return
		}
		src, test := read(t, file), strings.HasSuffix(file, "_test.go")
		limit := fileMax
		if test {
			limit = testMax
		}
		if n := strings.Count(src, "\n"); n > limit {
			t.Errorf("%s has %d lines, more than %d", file, n, limit)
		}
		functions := cFunctions
		if isGo(file) {
			goFiles++
			functions = goFunctions
		} else {
			cFiles++
		}
		if test {
			return
		}
		for _, f := range functions(t, src) {
			if f.lines > funcMax {
				t.Errorf("%s: function %s has %d lines, more than %d", file, f.name, f.lines, funcMax)
			}
		}
	})
	if goFiles < 100 || cFiles < 20 {
		t.Errorf("only %d files of Go and %d of C were looked at", goFiles, cFiles)
	}
}

type function struct {
	name  string
	lines int
}

func goFunctions(t *testing.T, src string) (list []function) {
	t.Helper()
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, "", src, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range f.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok && fn.Body != nil {
			n := fset.Position(fn.End()).Line - fset.Position(fn.Pos()).Line + 1
			list = append(list, function{fn.Name.Name, n})
		}
	}
	return list
}

var (
	// cScope opens a block that functions lie in; nothing in it is indented but the members of a type.
	cScope = regexp.MustCompile(`^(template <.*> )?(namespace|extern "C"|struct|class|union|enum|typedef)\b`)
	cName  = regexp.MustCompile(`[\w:~]+ ?\(`)
)

// cFunctions finds functions by their indentation: a file's begin in its first column and end with a brace there, a
// type's have four blanks before both.
func cFunctions(t *testing.T, src string) (list []function) {
	t.Helper()
	var name string
	var start, indent int // of the function that is open
	head := 0             // where the declaration begins that a brace may come after
	for i, line := range strings.Split(src, "\n") {
		code := strings.TrimSpace(line)
		blanks := len(line) - len(strings.TrimLeft(line, " "))
		if name != "" {
			if blanks == indent && strings.HasPrefix(code, "}") {
				list = append(list, function{name, i - start + 1})
				name = ""
			}
			head = i + 1
			continue
		}
		if code == "" || strings.HasPrefix(code, "//") || strings.HasPrefix(code, "#") ||
			strings.HasPrefix(code, "}") || strings.HasSuffix(code, ";") || strings.HasSuffix(code, "}") ||
			strings.HasSuffix(code, ":") {
			head = i + 1
			continue
		}
		if !strings.HasSuffix(code, "{") {
			continue // a declaration over several lines
		}
		first := strings.Split(src, "\n")[head]
		blanks = len(first) - len(strings.TrimLeft(first, " "))
		declaration := strings.Join(strings.Split(src, "\n")[head:i+1], " ")
		if !cScope.MatchString(strings.TrimSpace(declaration)) && (blanks == 0 || blanks == 4) &&
			!strings.Contains(strings.Split(declaration, "(")[0], "=") && cName.MatchString(declaration) {
			name, start, indent = strings.TrimSuffix(cName.FindString(declaration), "("), head, blanks
		}
		head = i + 1
	}
	return list
}

func TestCFunctions(t *testing.T) {
	got := cFunctions(t, `#include <a>

namespace x {

struct S {
    int a = 0;
    explicit S(int b) : a(b) {
        a++;
    }
    template <int n>
    static void add(int c,
                    int d) {
        if (c) {
            d++;
        }
    }
};

// A comment (with a brace) {
static const int table[] = {
    f(1),
};

template <typename T> T * find(
    T * t) {
    return t;
}

int one() { return 1; }
SLC_TARGET("avx2")
int two(void) {
    return 2;
}
} // namespace x
`)
	want := []function{{"S", 3}, {"add", 7}, {"find", 4}, {"SLC_TARGET", 4}}
	if len(got) != len(want) {
		t.Fatalf("%+v", got)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("%+v, not %+v", got[i], want[i])
		}
	}
}

// TestLinesAreNarrow checks the width of lines in Go, C and C++; a tab is four columns. A generated file, a text
// between back quotes, and a line with a literal or an address that cannot be broken may be wider.
func TestLinesAreNarrow(t *testing.T) {
	walk(t, func(file string) {
		if !isGo(file) && !isC(file) {
			return
		}
		for _, n := range wideLines(file, read(t, file)) {
			t.Errorf("%s:%d is wider than %d columns", file, n, widthMax)
		}
	})
}

var (
	generated   = regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)
	cLiteral    = regexp.MustCompile(`"(\\.|[^"\\])*"`)
	httpAddress = regexp.MustCompile(`https?://\S+`)
)

// wideLines returns the numbers of the lines that are too wide.
func wideLines(file, src string) (numbers []int) {
	if generated.MatchString(src) {
		return nil
	}
	free := map[int]bool{}
	if isGo(file) {
		free = linesOfLongStrings(src)
	}
	for i, line := range strings.Split(src, "\n") {
		width := utf8.RuneCountInString(line) + 3*strings.Count(line, "\t")
		if width <= widthMax || free[i+1] {
			continue
		}
		pieces := httpAddress.FindAllString(line, -1)
		if isC(file) {
			pieces = append(pieces, cLiteral.FindAllString(line, -1)...)
		}
		if !slices.ContainsFunc(pieces, isLong) {
			numbers = append(numbers, i+1)
		}
	}
	return numbers
}

func isLong(piece string) bool { return utf8.RuneCountInString(piece) > unbreakable }

// linesOfLongStrings returns the lines of Go code with a string literal that is long or goes over several lines.
func linesOfLongStrings(src string) map[int]bool {
	fset := token.NewFileSet()
	var s scanner.Scanner
	s.Init(fset.AddFile("", fset.Base(), len(src)), []byte(src), nil, 0)
	free := map[int]bool{}
	for {
		pos, tok, lit := s.Scan()
		if tok == token.EOF {
			return free
		}
		lines := strings.Count(lit, "\n")
		if tok != token.STRING || lines == 0 && !isLong(lit) {
			continue
		}
		first := fset.Position(pos).Line
		for n := first; n <= first+lines; n++ {
			free[n] = true
		}
	}
}

func TestWideLines(t *testing.T) {
	long := strings.Repeat("x", unbreakable)
	filler := strings.Repeat("y", widthMax-10)
	src := "package p\n\n" +
		"// " + filler + " is " + "wide\n" + // 3: wide
		"// " + filler + "\n" + // 4: narrow
		"\t\t\tx := \"" + filler[:100] + "\"\n" + // 5: a long literal
		"\t\t\tx, y := \"" + long[:60] + "\", \"" + long[:60] + "\"\n" + // 6: wide
		"var s = `\n" + filler + filler + "\n`\n" + // 8: between back quotes
		"// see https://example.org/" + long + " for " + filler[:20] + "\n" // 10: an address
	if got := wideLines("a.go", src); len(got) != 2 || got[0] != 3 || got[1] != 6 {
		t.Errorf("wide: %v", got)
	}
	if got := wideLines("a.c", "f(\""+long+"\", "+filler+");\nf(\""+long[:9]+"\", "+filler+");\n"); len(got) != 1 ||
		got[0] != 2 {
		t.Errorf("wide in C: %v", got)
	}
	if got := wideLines("a.go", "// Code generated by x. DO NOT EDIT.\n"+src); len(got) > 0 {
		t.Errorf("wide in generated code: %v", got)
	}
}
