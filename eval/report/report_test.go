package report

import (
	"bytes"
	"encoding/csv"
	"encoding/xml"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/sluice-rag/sluice/eval/experiment"
	"github.com/sluice-rag/sluice/eval/metric"
	"github.com/sluice-rag/sluice/eval/rating"
	"github.com/sluice-rag/sluice/rag/exam"
)

var update = flag.Bool("update", false, "write testdata/results.parquet; testdata/parquet.py checks it with pyarrow")

func result() *Report {
	row := func(mode, group, measure string, s metric.Summary) experiment.Row {
		return experiment.Row{Experiment: "x", Part: "search", Encoder: "Straße <1>", Mode: mode, K: 10, Weight: .5,
			Group: group, Measure: measure, Summary: s}
	}
	return &Report{
		Result: &experiment.Result{
			File: &experiment.File{Name: "x", Title: "An experiment & more", Tables: []experiment.Table{{
				Title: "NDCG", Part: "search", Rows: []string{"encoder"}, Columns: []string{"mode"}, Plot: true,
				Measures: []string{"ndcg@10", "mrr"}, Groups: []string{"all"},
				Published: [][]string{{"encoder", "dense"}, {"MiniLM", ".823"}}, Source: "Keibel 2024, Fig. 7"}}},
			Rows: []experiment.Row{
				row("dense", "all", "mrr", metric.Summary{N: 4, Mean: .25, Low: .1, High: .5, P50: .2, P95: .5}),
				row("dense", "all", "ndcg@10",
					metric.Summary{N: 3, Unscored: 1, Mean: .75, Low: .5, High: 1, P50: .8, P95: 1}),
				row("hybrid", "all", "ndcg@10", metric.Summary{Unscored: 4}),
				row("hybrid", "answerable", "ndcg@10", metric.Summary{N: 1, Mean: 1, Low: 1, High: 1, P50: 1, P95: 1}),
			},
			Notes: []string{"a note"}, Items: 8, Unscored: 5, Judge: "judge"},
		Machine: "a machine", Settings: "name: x\n", When: time.Unix(0, 0),
	}
}

// TestWrite: the files are there, the page needs nothing else, and is well-formed; the table has values, intervals and
// what was not scored.
func TestWrite(t *testing.T) {
	dir := t.TempDir()
	if err := result().Write(dir); err != nil {
		t.Fatal(err)
	}
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	page := read(HTML)
	if m := regexp.MustCompile(`(?i)(src|href|url)\s*[=(]\s*["']?(https?:)?//[^"' )]*`).FindString(page); m != "" {
		t.Errorf("the page fetches %s", m)
	}
	for _, says := range []string{"<svg ", "Straße &lt;1&gt;", "An experiment &amp; more",
		"<td>0.750 <small>[0.500, 1.000]</small> <small>(1 of 4 unscored)</small></td>",
		"<td>no value <small>(4 of 4 unscored)</small></td>",
		"Keibel 2024, Fig. 7", ".823", "a machine", "a note", "aria-sort"} {
		if !strings.Contains(page, says) {
			t.Errorf("the page does not say %q", says)
		}
	}
	d := xml.NewDecoder(strings.NewReader(page))
	d.Strict, d.AutoClose, d.Entity = false, xml.HTMLAutoClose, xml.HTMLEntity
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("the page is not well-formed: %v", err)
		}
	}
	text := read(Markdown)
	for _, says := range []string{"| encoder | dense, ndcg@10 | dense, mrr | hybrid, ndcg@10 |", "plot-1.svg",
		"- note: a note"} {
		if !strings.Contains(text, says) {
			t.Errorf("%s does not say %q:\n%s", Markdown, says, text)
		}
	}
	lines, err := csv.NewReader(strings.NewReader(read(CSV))).ReadAll()
	if err != nil || len(lines) != 5 || len(lines[0]) != 21 || lines[2][16] != "0.75" || lines[3][16] != "" {
		t.Errorf("%v, %v", lines, err)
	}
}

// TestAligned: published values stand in the lines that they are about, others in lines of their own, and the change is
// that of the means.
func TestAligned(t *testing.T) {
	row := func(encoder string, routed bool, mean float64) experiment.Row {
		return experiment.Row{Part: "search", Encoder: encoder, Routed: routed, Measure: "ms.total",
			Summary: metric.Summary{N: 2, Mean: mean, Low: mean, High: mean}}
	}
	g := layout(experiment.Table{Part: "search", Rows: []string{"encoder"}, Columns: []string{"routed"},
		Measures: []string{"ms.total"}, Change: []string{"ms.total"}, Align: "encoder",
		Names:     map[string]map[string]string{"routed": {"partitions": "CAR"}, "measure": {"ms.total": "time"}},
		Published: [][]string{{"model", "change"}, {"other", "-1"}, {"mini-LM", "-2"}}},
		[]experiment.Row{row("MiniLM", false, 8), row("MiniLM", true, 6), row("bge", false, 0), row("bge", true, 6)})
	want := [][]string{{"encoder", "all, time", "CAR, time", "change of time, %", "published: change"},
		{"MiniLM", "8.000", "6.000", "-25.00", "-2"}, {"bge", "0.000", "6.000", "–", "–"},
		{"other", "–", "–", "–", "-1"}}
	if got := append([][]string{g.Head}, g.Body...); !reflect.DeepEqual(got, want) {
		t.Errorf("%q", got)
	}
	lines := layout(experiment.Table{Part: "p", Rows: []string{"measure"}, Measures: []string{"b", "c", "a"}},
		[]experiment.Row{{Part: "p", Measure: "a"}, {Part: "p", Measure: "b"}, {Part: "p", Measure: "c"}})
	if b := lines.Body; len(b) != 3 || b[0][0] != "b" || b[1][0] != "c" || b[2][0] != "a" {
		t.Errorf("measures as lines keep the table's order: %q", b)
	}
	if smaller := string(smaller([]byte("font-size:12px"))); smaller != "font-size:10.6px" {
		t.Errorf("a font of 12 px becomes %s", smaller)
	}
	if drawn, err := svg(g); err != nil || bytes.Count(drawn, []byte("other")) > 0 || g.values() != 2 {
		t.Errorf("%d columns are drawn, %v", g.values(), err)
	}
}

// TestWarnings: a table with values of a judge says how often such verdicts are right, and where they are all equal.
func TestWarnings(t *testing.T) {
	row := func(system, measure string, mean float64) experiment.Row {
		return experiment.Row{Part: "p", System: system, Measure: measure, Summary: metric.Summary{N: 2, Mean: mean}}
	}
	rows := []experiment.Row{row("RAG", "context_relevancy", 1), row("CAG", "context_relevancy", .99999),
		row("RAG", "answer_relevancy", .5), row("CAG", "answer_relevancy", .25), row("RAG", "f1", 1),
		row("CAG", "f1", 1)}
	r := result()
	judged := layout(experiment.Table{Part: "p", Rows: []string{"system"}}, rows)
	if w := r.warnings(judged); len(w) != 2 || !strings.Contains(w[0], "not been examined") ||
		!strings.HasPrefix(w[1], "All 2 values of context_relevancy are 1.000") {
		t.Errorf("%q", w)
	}
	r.Examined = &experiment.Examined{Model: "small", Verdicts: map[string]map[string]exam.Verdict{
		"context_relevancy": {"en": {Balanced: .5, Low: .4}}, "answer_relevancy": {"en": {Balanced: .53, Low: .44}}}}
	if w := r.warnings(judged); !strings.Contains(w[0], "0.500 (en, at least 0.400) for context_relevancy") ||
		!strings.Contains(w[0], "no better than chance") {
		t.Errorf("%q", w)
	}
	r.Examined.Verdicts["answer_relevancy"]["en"] = exam.Verdict{Balanced: .9, Low: .8}
	if w := r.warnings(judged); strings.Contains(w[0], "chance, and these") {
		t.Errorf("%q", w)
	}
	r.People = map[string]rating.Agreement{"answer_relevancy": {Good: 3, GoodAgreed: 2, Bad: 4, BadAgreed: 1}}
	if w := r.warnings(judged); len(w) != 3 || !strings.Contains(w[2], "2 of 3 good answers and 1 of 4 bad ones") {
		t.Errorf("%q", w)
	}
	if w := r.warnings(layout(experiment.Table{Part: "p", Rows: []string{"system"}, Measures: []string{"f1"}},
		rows)); w != nil {
		t.Errorf("nothing was judged: %q", w)
	}
}

// TestParquet: the file is byte for byte the one that pyarrow has read (testdata/parquet.py).
func TestParquet(t *testing.T) {
	var b bytes.Buffer
	if err := result().parquet(&b); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join("testdata", "results.parquet")
	if *update {
		if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(b.Bytes(), want) {
		t.Errorf("%d bytes, want %d; %v", b.Len(), len(want), err)
	}
	for n := range 20 { // lists of 15 and more have another head
		var columns []column
		for range n {
			columns = append(columns, column{name: "c", longs: []int64{1}})
		}
		b.Reset()
		if err := writeParquet(&b, columns, 1, "x"); err != nil || !bytes.HasPrefix(b.Bytes(), []byte("PAR1")) {
			t.Errorf("%d columns: %v", n, err)
		}
	}
}
