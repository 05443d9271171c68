package corpus

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-rag/sluice/rag/corpus/chunk"
)

// outline returns the sections of a source file: the line of each, its heading and its first and last line.
func outline(t *testing.T, name, content string) []string {
	t.Helper()
	d, _ := cut(t, name, content, ChunkOptions{Size: 64})
	var out []string
	for _, s := range d.Sections {
		lines := strings.Split(d.Text[s.Start:s.End], "\n")
		out = append(out, fmt.Sprintf("#%s %s: %s … %s", s.Anchor, strings.Join(s.Heading, " › "),
			strings.TrimSpace(lines[0]), strings.TrimSpace(lines[len(lines)-1])))
	}
	return out
}

func TestSourceFilesAreReadByFunction(t *testing.T) {
	for _, c := range []struct{ name, source, want string }{
		{"next.go", program, `
#L1 next.go: // Package x is short. … package x
#L4 next.go › func (p *Parser) Next: // Next returns the next token of the text that is left, or an error. … }
#L25 next.go › func (p *Parser) Reset: // Reset begins again. … }`},
		{"types.go",
			"package x\n\n// Pair is two.\ntype Pair[T any] struct { a, b T } // here\n\nconst one = 1\n\ntype " +
				"(\n\tA int\n" +
				"\t// B is.\n\tB string\n)\n", `
#L1 types.go: package x … package x
#L3 types.go › type Pair: // Pair is two. … type Pair[T any] struct { a, b T } // here
#L6 types.go: const one = 1 … type (
#L9 types.go › type A: A int … A int
#L10 types.go › type B: // B is. … B string
#L12 types.go: ) … )`},
		{"broken.go", "package x\n\nfunc A() { if }\n\n" +
			"type T struct {\n\ta int\n}\n\nfunc (t *T) B(x int) error {\n\treturn `}`\n}\n", `
#L1 broken.go: package x … package x
#L3 broken.go › func A: func A() { if } … func A() { if }
#L5 broken.go › type T: type T struct { … }
#L9 broken.go › func (t *T) B: func (t *T) B(x int) error { … }`},
		{"shapes.py",
			"import math\n\n# A circle.\n@dataclass\nclass Circle(Shape):\n    \"\"\"def not_this():\"\"\"\n    r: " +
				"int\n\n" +
				"    @property\n    def area(self,\n             unit=None):\n        def inner(): pass\n        " +
				"return " +
				"{\n    'a': 1\n}\n\n" +
				"async def main():\n    pass\nmain()\n", `
#L1 shapes.py: import math … import math
#L3 shapes.py › class Circle: # A circle. … r: int
#L9 shapes.py › class Circle › def area: @property … }
#L17 shapes.py › async def main: async def main(): … pass
#L19 shapes.py: main() … main()`},
		{"a.ts", "import {x} from 'x'\n\n/** Adds. */\nexport const add = (a: number, o = {b: 1}): number => {\n  " +
			"return a // }\n}\n" +
			"export class Stack<T> extends Base {\n  private items: T[] = []\n  push(i: T) { " +
			"f(`${i}}`) }\n" +
			"  get size(): number {\n    return /[}/]/.test('}') ? 1 : 2\n  }\n}\n", `
#L1 a.ts: import {x} from 'x' … import {x} from 'x'
#L3 a.ts › add: /** Adds. */ … }
#L7 a.ts › class Stack<T>: export class Stack<T> extends Base { … private items: T[] = []
#L9 a.ts › class Stack<T> › push(): push(i: T) { f(` + "`${i}}`" + `) } … push(i: T) { f(` + "`${i}}`" + `) }
#L10 a.ts › class Stack<T> › size(): get size(): number { … }
#L13 a.ts › class Stack<T>: } … }`},
		{"q.cpp",
			"#include <x>\nnamespace a {\n\n// Takes one.\ntemplate <typename T>\nint Queue<T>::take(int n) const " +
				"{\n#ifdef A\n" +
				"  if (n) {\n#else\n  if (!n) {\n#endif\n    return '}';\n  }\n}\n\n" +
				"struct P { int x; };\nstatic int table[] = { 1, 2 };\n}\n", `
#L1 q.cpp: #include <x> … #include <x>
#L2 q.cpp › namespace a: namespace a { … namespace a {
#L4 q.cpp › namespace a › Queue<T>::take(): // Takes one. … }
#L16 q.cpp › namespace a › struct P: struct P { int x; }; … struct P { int x; };
#L17 q.cpp › namespace a: static int table[] = { 1, 2 }; … }`},
		{"l.rs", "/// Doc.\n#[derive(Debug)]\npub struct S<'a> { s: &'a str }\n\nimpl<'a> S<'a> {\n    pub fn " +
			"get(&self) -> char { '}' }\n" +
			"    fn raw() -> &'static str { r#\"}\"}\"# }\n}\n", `
#L1 l.rs › struct S<'a>: /// Doc. … pub struct S<'a> { s: &'a str }
#L5 l.rs › impl <'a> S<'a>: impl<'a> S<'a> { … impl<'a> S<'a> {
#L6 l.rs › impl <'a> S<'a> › fn get: pub fn get(&self) -> char { '}' } … pub fn get(&self) -> char { '}' }
#L7 l.rs › impl <'a> S<'a> › fn raw: fn raw() -> &'static str { r#"}"}"# } … fn raw() -> &'static str { r#"}"}"# }
#L8 l.rs › impl <'a> S<'a>: } … }`},
		{"A.java",
			"package a;\n\n@Entity(name = \"x\")\npublic class A extends B {\n  int x = 1;\n  /** Runs. */\n  " +
				"@Override\n" +
				"  public List<String> run(int a) throws E {\n    for (int i = 0; i < a; i++) { }\n  }\n}\n", `
#L1 A.java: package a; … package a;
#L3 A.java › class A: @Entity(name = "x") … int x = 1;
#L6 A.java › class A › run(): /** Runs. */ … }
#L11 A.java › class A: } … }`},
		{"f.php", "<p>It's {</p>\n<?php\nclass F {\n  // It's one.\n  public function a() { return <<<X\n" +
			"}\nX;\n  }\n}\n?>\n<b>'</b>", `
#L1 f.php: <p>It's {</p> … <?php
#L3 f.php › class F: class F { … class F {
#L4 f.php › class F › function a: // It's one. … }
#L9 f.php › class F: } … }
#L10 f.php: ?> … <b>'</b>`},
		{"m.rb", "module M\n  class C < D\n    # Says it.\n    def say(x)\n" +
			"      if x\n      end\n    end\n    def one = 1\n  end\nend\n", `
#L1 m.rb › module M: module M … module M
#L2 m.rb › module M › class C: class C < D … class C < D
#L3 m.rb › module M › class C › def say: # Says it. … end
#L8 m.rb › module M › class C › def one: def one = 1 … def one = 1
#L9 m.rb › module M › class C: end … end
#L10 m.rb › module M: end … end`},
		{"s.sh", "#!/bin/sh\n# Greets.\ngreet()\n{\n\techo \"}\"\n}\nbye() { echo bye; }\ngreet\n", `
#L1 s.sh: #!/bin/sh … #!/bin/sh
#L2 s.sh › greet(): # Greets. … }
#L7 s.sh › bye(): bye() { echo bye; } … bye() { echo bye; }
#L8 s.sh: greet … greet`},
	} {
		if diff := cmp.Diff(strings.TrimSpace(c.want), strings.Join(outline(t, c.name, c.source), "\n")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

// The anchor of a chunk is its first line, anywhere in a function.
func TestCodeChunksNameTheirLine(t *testing.T) {
	_, chunks := cut(t, "next.go", program, ChunkOptions{Size: 64})
	lines := strings.Split(program, "\n")
	for _, c := range chunks {
		first, _, _ := strings.Cut(c.Text, "\n")
		n := 0
		if _, err := fmt.Sscanf(c.Anchor, "L%d", &n); err != nil || n < 1 || lines[n-1] != first {
			t.Errorf("anchor %s of %q", c.Anchor, first)
		}
	}
}

// Generated, minified and binary files in a folder are skipped with the reason; one that is given is read.
func TestSourceFilesThatNobodyWrote(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "a.go", "package a\n\nfunc A() {}\n")
	pb := write(t, dir, "a.pb.go", "// Code generated by protoc-gen-go. DO NOT EDIT.\npackage a\n\nfunc B() {}\n")
	write(t, dir, "a.min.js", "/* x */\n"+strings.Repeat("function a(){return b};", 100))
	write(t, dir, "binary.go", string(must(os.ReadFile(os.Args[0])))[:100_000])
	docs, skips := load(t, LoadOptions{Strict: false}, dir)
	if len(docs) != 1 || docs[0].Meta["code"] != "go" {
		t.Errorf("%d documents", len(docs))
	}
	var got []string
	for _, s := range skips {
		got = append(got,
			fmt.Sprint(filepath.Base(s.Source), " ", errors.Is(s.Err, ErrGenerated), errors.Is(s.Err, ErrFormat)))
	}
	if diff := cmp.Diff([]string{"a.min.js true false", "a.pb.go true false", "binary.go false true"},
		got); diff != "" {
		t.Errorf("skips (-want +got):\n%s", diff)
	}
	if docs, _ := load(t, LoadOptions{}, pb); len(docs) != 1 {
		t.Error("a generated file that is named is not read")
	}
}

// The sources of this package itself: every line is in a chunk of its own function, and anchors are right.
func TestOwnSources(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	docs, _ := load(t, LoadOptions{}, files...)
	functions := 0
	for _, d := range docs {
		source, err := os.ReadFile(d.Path)
		if err != nil {
			t.Fatal(err)
		}
		o := ChunkOptions{Size: 128, Overlap: 2, Count: countTokens}
		chunks, err := chunk.Split(d, o)
		if err != nil {
			t.Fatal(err)
		}
		checkChunks(t, d, o, chunks, nil)
		for _, s := range d.Sections {
			name := s.Heading[len(s.Heading)-1]
			if strings.HasPrefix(name, "func ") {
				functions++
				if at := strings.Index(d.Text[s.Start:s.End], "\n"+name); at < 0 &&
					!strings.HasPrefix(d.Text[s.Start:], name) {
					t.Errorf("%s: section %q is %.80q", d.ID, name, d.Text[s.Start:s.End])
				}
			}
		}
		for _, c := range chunks {
			if !strings.Contains(string(source[c.Start:c.End]), c.Text[len(c.Text)-1:]) {
				t.Errorf("%s: place of %q", c.ID, c.Text)
			}
		}
	}
	if functions < 300 {
		t.Errorf("%d functions", functions)
	}
}
