package prompt

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-rag/sluice/llm"
	"github.com/sluice-rag/sluice/rag/corpus"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// double is a Generator that gives one answer and remembers the request.
type double struct {
	answer  string
	err     error
	window  int
	request llm.Request
}

func (d *double) Generate(_ context.Context, r llm.Request, _ func(string) error) (llm.Result, error) {
	d.request = r
	return llm.Result{Text: d.answer}, d.err
}
func (d *double) CountTokens(s string) (int, error) { return countWords(s) }
func (d *double) ContextSize() int                  { return max(d.window, 500) }
func (d *double) Info() llm.Info                    { return llm.Info{Name: "double"} }

func countWords(s string) (int, error) { return 1 + len(strings.Fields(s)), nil }

func library(t testing.TB) *Library {
	t.Helper()
	l, err := Open("")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func passages(texts ...string) []Passage {
	var out []Passage
	for i, s := range texts {
		c := corpus.Chunk{ID: fmt.Sprintf("id-%d", i), Source: "doc.html", Start: 10 * i, End: 10*i + 5, Text: s}
		if i%2 == 0 {
			c.Heading, c.Anchor = "Types › Slice types", "Slice_types"
		}
		out = append(out, Passage{Chunk: c, Score: 1 - .25*float64(i)})
	}
	return out
}

func show(p Prompt) string {
	var b strings.Builder
	fmt.Fprintf(&b, "template %s, %d tokens, %d dropped, %d shortened\n", p.Template, p.Tokens, p.Dropped, p.Truncated)
	for _, m := range p.Messages {
		fmt.Fprintf(&b, "--- %s\n%s\n", m.Role, m.Content)
	}
	if p.Text != "" {
		fmt.Fprintf(&b, "--- one text, stop at %q\n%s", p.Stop, p.Text)
	}
	for _, c := range p.Citations {
		fmt.Fprintf(&b, "--- [%d] %s %s %q #%s %d-%d %.2f\n", c.Number, c.ID, c.Source, c.Heading, c.Anchor, c.Start,
			c.End, c.Score)
	}
	return b.String()
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	p := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.WriteFile(p, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(p)
	if err != nil {
		t.Fatalf("%v (run with -update)", err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", p, diff)
	}
}

// turns are questions and answers in turn.
func turns(texts ...string) (all []llm.Message) {
	for i, text := range texts {
		all = append(all, llm.Message{Role: []llm.Role{llm.User, llm.Assistant}[i%2], Content: text})
	}
	return all
}
