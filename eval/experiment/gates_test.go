package experiment_test

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/eval/dataset"
	"github.com/sluice-rag/sluice/eval/experiment"
)

const gates = `name: gates
parts:
  - name: gates
    kind: gates
    group_by: distance
    base: {topics: 1, pseudo: 1, out_of_scope: [far.jsonl]}
    sample: {answerable: 12, near: 12, far: 12}
    generators: [{model: double}]
    systems:
      - {name: promised, gate: calibrated, policy: "conformal:0.1"}
      - {name: maximum, gate: relevance}
      - {name: tenth, gate: relevance, score: nearest}
      - {name: entropy, gate: relevance, score: entropy}
      - {name: margin, gate: uncertainty, questions: 5}
      - {name: supervisor, gate: supervisor, supervise: 2, questions: 3}
      - {name: open, gate: open}
    measures: [gate_right, open]
`

// TestGates: gates of statistics tell other questions from the base's, a limit holds for each group, calls are counted,
// and balanced accuracy is the mean of both groups' shares.
func TestGates(t *testing.T) {
	b := newBench(t)
	var contexts, queries, far strings.Builder
	for i := range 48 {
		topic, text := "a bread", fmt.Sprintf("dough number%d rises in the warm oven as loaf%d", i, i*7)
		if i >= 24 {
			topic, text = "b ships", fmt.Sprintf("vessel number%d sails over the cold sea to port%d", i, i*7)
		}
		fmt.Fprintf(&contexts, `{"id":"c%d","topic":%q,"text":%q}`+"\n", i, topic, text)
		for k := range 2 {
			fmt.Fprintf(&queries, `{"id":"q%d-%d","context_id":"c%[1]d","text":"%[3]s %[4]s"}`+"\n", i, k, text,
				[]string{"when", "where"}[k])
		}
		fmt.Fprintf(&far, `{"text":"play jazz%d on channel%d"}`+"\n", i, i*3)
	}
	for name, text := range map[string]string{dataset.ContextsFile: contexts.String(),
		dataset.QueriesFile: queries.String(), "far.jsonl": far.String()} {
		if err := os.WriteFile(filepath.Join(b.data, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r, err := b.run(t, gates)
	if err != nil {
		t.Fatal(err)
	}
	if want := 5*36 + 3*5 + 3*3; r.Items != want || b.items != want {
		t.Errorf("%d items, %d done", r.Items, b.items)
	}
	for _, system := range []string{"promised", "maximum", "tenth", "entropy", "open"} {
		in := value(t, r, "gates", system, "answerable", "gate_right").Mean
		if c := value(t, r, "gates", system, "all", "coverage"); c.Mean != in || c.N != 12 {
			t.Errorf("%s: coverage %+v, %v open", system, c, in)
		}
		for group, measure := range map[string]string{"near": "balanced_near", "far": "balanced_far"} {
			out := value(t, r, "gates", system, group, "gate_right").Mean
			x := value(t, r, "gates", system, "all", measure)
			if math.Abs(x.Mean-(in+out)/2) > 1e-12 || x.N != 24 || x.Low > x.Mean || x.High < x.Mean {
				t.Errorf("%s: %s %+v of %v and %v", system, measure, x, in, out)
			}
			if x.Mean < .9 != (system == "open" || system == "entropy") {
				t.Errorf("%s: %s %.3f", system, measure, x.Mean)
			}
		}
	}
	if x := value(t, r, "gates", "margin", "all", "llm_calls"); x.Mean != 1 || x.N != 15 {
		t.Errorf("%+v", x)
	}
	if x := value(t, r, "gates", "supervisor", "all", "llm_calls"); x.Mean != 2 || x.N != 9 {
		t.Errorf("%+v", x)
	}
	for _, bad := range []string{"gate: relevance, score: margin", "gate: calibrated, questions: -1", "gate: moon"} {
		text := strings.Replace(gates, "gate: relevance}", bad+"}", 1)
		if _, err := b.run(t, text); !errors.Is(err, experiment.ErrFile) || text == gates {
			t.Errorf("%s: %v", bad, err)
		}
	}
	if _, err := b.run(t, strings.Replace(gates, "[gate_right, open]", "[recall@1]", 1)); !errors.Is(err,
		experiment.ErrFile) {
		t.Error(err)
	}
	if err := os.WriteFile(filepath.Join(b.data, dataset.ContextsFile), []byte(strings.Join(strings.SplitAfter(
		contexts.String(), "\n")[10:], "")), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := b.run(t, gates); !errors.Is(err, experiment.ErrMissing) {
		t.Errorf("fourteen contexts: %v", err)
	}
}
