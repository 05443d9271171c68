package doubling_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/sluice-rag/sluice/eval/dataset"
	"github.com/sluice-rag/sluice/eval/experiment"
	"github.com/sluice-rag/sluice/internal/config"
	"github.com/sluice-rag/sluice/internal/jsonl"
	"github.com/sluice-rag/sluice/internal/language"
	"github.com/sluice-rag/sluice/internal/manifest"
	"github.com/sluice-rag/sluice/internal/npy"
	"github.com/sluice-rag/sluice/internal/printable"
	"github.com/sluice-rag/sluice/internal/test/doubling"
	"github.com/sluice-rag/sluice/llm/grammar"
	"github.com/sluice-rag/sluice/rag/entities"
	"github.com/sluice-rag/sluice/rag/excerpt"
	"github.com/sluice-rag/sluice/rag/postings"
	"github.com/sluice-rag/sluice/rag/prompt"
	"github.com/sluice-rag/sluice/rag/pseudo"
	"github.com/sluice-rag/sluice/rag/retrieve"
	"github.com/sluice-rag/sluice/serve/openai"
)

var (
	jsonSyntax = []string{"{", "}", "[", "]", "\"", ":", ",", "\"a\"", "1", "\\u00e9", "\\n", "\\", " ", "\n", "null",
		"true", "-1e9",
		"\"a\":", "{\"a\":", "[[", "\"input\":", "\"messages\":[", "{\"role\":\"user\",\"content\":\"", "\"}",
		"\"type\":\"text\"", "},{"}
	yamlSyntax = []string{"a: ", "- ", "? ", ": ", "\n", "  ", "    ", "[", "]", "{", "}", ",", "&a ", "*a", "*a\n",
		"!!str ", "!", "\"", "'", "|\n", ">\n",
		"#", "---\n", "...\n", "%", "@", "`", "a", "1", "<<: *a\n", "\t", "a:\n", "a: &a [", "\\", "é", "~",
		"? a\n: "}
	schemaSyntax = []string{`{"type":"object","properties":{`, `"a":{`, `"type":"string"`, `"type":"array","items":{`,
		`}`, `,`, `"enum":["a"]`, `"b":`, `{`,
		`"anyOf":[`, `{"type":"null"},`, `]`, `"pattern":"`, `a*`, `(a|b)`, `[a-z]{1,9}`, `"`, `"minimum":1`,
		`"maximum":99999`, `"$ref":"#/$defs/a"`,
		`"$defs":{"a":{`, `"minLength":9`, `"maxItems":9`, `"required":["a"]`, `"const":"x"`, `"format":"date"`, `[`,
		`(`, `)`, `|`, `+`, `?`, `.`, `\\d`, `^`, `$`}
	gbnfSyntax = []string{"root ::= ", "a ::= ", "b ::= ", "a ", "b ", "\"x\"", "[a-z]", "[^a]", "(", ")", "|", "*",
		"+", "?", "{1,9}", "{9}", "\n", " ", "#", ".", "\\x41",
		"\"", "root ::= a\n", "a ::= b\n", "b ::= \"c\"\n", "a ::= a\n", "root"}
	proseSyntax = []string{"a", "b ", "The ", "1999", " 1999 ", "3.5.98", "12 ", "km", " million ", "A", "A ", "A-",
		"Dr. ", "John ", "John Smith ", "van ", "of ", "University ",
		"(", ")", "[1]", "[1-9999]", "[1, 2]", "[", "]", "`", "```", ".", ", ", "\n", "January ", "$", "€ ",
		"20th century ", "and ", "é", "ß", "漢", "  ", "-", "'s",
		"\x1b[", "m", "\u202e", "**", "word ", "Berlin ", "U.S. ", "I."}
)

// TestDoubling generates inputs for parsers that do not read files; those of rag/corpus, of the tokenizers and of the
// server are tested in their packages.
func TestDoubling(t *testing.T) {
	dir := t.TempDir()
	finder, detector := entities.New(nil), language.New()
	prose := map[string]func(string){
		"entities": func(s string) {
			_, _, _ = finder.Find(context.Background(), []string{s, s}, []string{"en",
				"de"})
		},
		"language": func(s string) { detector.Of(s); detector.OfQuestion(s) },
		"terms":    func(s string) { postings.For("en").Terms(s); postings.For("de").Terms(s) },
		"cite":     func(s string) { prompt.Cite(s, []prompt.Citation{{Number: 1}}) },
		"snippet": func(s string) {
			excerpt.Snippet(s, &excerpt.Sentence{Start: len(s) / 3, End: len(s) / 2}, 200)
		},
		"printable": func(s string) { printable.Text(s); printable.Line(s) },
	}
	for name, p := range prose {
		t.Run(name, func(t *testing.T) { doubling.Search(t, proseSyntax, p) })
	}
	for name, p := range map[string]struct {
		syntax []string
		parse  func(string)
	}{
		"schema": {schemaSyntax, func(s string) { _, _ = grammar.FromSchema([]byte(balanced(s))) }},
		"gbnf":   {gbnfSyntax, func(s string) { _ = grammar.Check(s) }},
		"yaml":   {yamlSyntax, func(s string) { _ = yaml.Unmarshal([]byte(s), &map[string]any{}) }},
		"config": {yamlSyntax, func(s string) {
			_, _ = config.Load(config.Source{Path: file(t, dir, "sluice.yaml",
				s)})
		}},
		"study": {append(yamlSyntax, "dataset: a\n", "parts:\n"), func(s string) {
			_, _ = experiment.Parse([]byte(s))
		}},
		"manifest": {yamlSyntax, func(s string) { _, _ = manifest.Parse(s) }},
		"where": {[]string{"topic=a", "source~", "**", "*", "?", "a", "/", "meta.x>=1", " ", "=", "!~"},
			func(s string) {
				var f retrieve.Filter
				for i := 0; i < len(s); i += 4000 {
					c, _ := retrieve.ParseFilter([]string{"source~" + s[i:min(i+4000, len(s))]})
					f = append(f, c...)
				}
				f.Matcher()(retrieve.Record{Source: s})
			}},
		"questions": {append(jsonSyntax, `{"context_id":"a","text":"b"}`+"\n"), func(s string) {
			_, _ = pseudo.Read(strings.NewReader(s), pseudo.ReadOptions{})
		}},
		"items": {append(jsonSyntax, `{"id":"a","text":"b"}`+"\n"), func(s string) {
			for range jsonl.Items(strings.NewReader(s), "x", false) {
			}
		}},
		"npy": {[]string{"\x93NUMPY\x01\x00", "{'descr': '<f4', ", "'shape': (", "1, ", "), ",
			"'fortran_order': False, ", "}", "\n", " ", "\x00", "a", "'"},
			func(s string) { _, _ = npy.ParseMatrix([]byte(s)) }},
		"dataset": {jsonSyntax, func(s string) {
			for _, format := range dataset.Formats() {
				_, _ = dataset.Import(format, []byte(s))
			}
		}},
		"chat": {jsonSyntax, func(s string) {
			var r openai.ChatRequest
			body(s, &r)
			_, _ = r.Request(openai.Limits{})
		}},
		"tools": {append(slices.Clone(schemaSyntax), jsonSyntax...), func(s string) {
			r := openai.ChatRequest{}
			body(`{"messages":[{"role":"user","content":"a"}],"tools":[{"type":"function","function":{"name":"f","parameters":`+balanced(s)+`}}]}`, &r)
			_, _ = r.Request(openai.Limits{})
		}},
		"embeddings": {jsonSyntax, func(s string) {
			var r openai.EmbeddingRequest
			body(s, &r)
			_, _ = r.Inputs(openai.Limits{})
		}},
		"rerank": {jsonSyntax, func(s string) {
			var r openai.RerankRequest
			body(s, &r)
			_, _ = r.Texts(openai.Limits{})
		}},
	} {
		t.Run(name, func(t *testing.T) { doubling.Search(t, p.syntax, p.parse) })
	}
}

// body reads a request, which may be no JSON.
func body(s string, into any) { _ = json.Unmarshal([]byte(balanced(s)), into) }

func file(t *testing.T, dir, name, content string) string {
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Error(err)
	}
	return path
}

// balanced closes what a text of JSON leaves open, so that more of what is drawn is JSON.
func balanced(s string) string {
	var open bytes.Buffer
	quoted := false
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{':
			open.WriteByte('}')
		case c == '[':
			open.WriteByte(']')
		case (c == '}' || c == ']') && open.Len() > 0:
			open.Truncate(open.Len() - 1)
		}
	}
	tail := open.Bytes()
	slices.Reverse(tail)
	if quoted {
		s += `"`
	}
	return s + string(tail)
}
