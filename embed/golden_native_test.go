//go:build native

package embed

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/internal/testmodels/checkpoint"
)

var update = flag.Bool("update", false, "write testdata/golden-*.json anew from testdata/reference.py")

func goldenTexts() []string {
	return []string{
		"",
		"A gate opens only when the water behind it is high enough.",
		"Wie viele Schleusen hat der Nord-Ostsee-Kanal, und wer öffnet sie?",
		"naïve café — 日本語のテキスト 😀 ½ ﬁ \u200d zero\u0301width",
		"func (e *Engine) TopK(a, b []float32) ([]int, error) { return nil, ErrClosed }",
		"3.14159 26535 89793, 1e-9, 0xDEADBEEF",
		"Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaft",
		strings.Repeat("Before anything is retrieved, the gate compares the question with what the knowledge base "+
			"can answer. ", 30),
	}
}

func TestGolden(t *testing.T) {
	dir := minilm(t)
	e := openEncoder(t, dir, Options{})
	if *update {
		writeGolden(t, dir, e.Info())
		t.Log("written; run again without -update")
		return
	}
	r, err := Golden(context.Background(), e)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", *r)
	if r.Texts != len(goldenTexts()) {
		t.Errorf("%d texts, expected %d: run with -update", r.Texts, len(goldenTexts()))
	}
	other := t.TempDir()
	if err := checkpoint.Write(other, checkpoint.Spec{Family: "bert"}); err != nil {
		t.Fatal(err)
	}
	if _, err := Golden(context.Background(), openEncoder(t, other, Options{})); !errors.Is(err, ErrNoGolden) {
		t.Errorf("another encoder: %v, ErrNoGolden expected", err)
	}
}

func writeGolden(t *testing.T, dir string, info Info) {
	texts := goldenTexts()
	rows, ids := reference(t,
		task{Model: dir, Task: "embed", Pooling: "mean", Normalise: true, MaxTokens: 256, Texts: texts})
	set := goldenSet{Model: info.Name, Digest: info.Digest}
	for i, row := range rows {
		set.Texts = append(set.Texts, goldenValue{texts[i], len(ids[i]), row[:8], project(row)})
	}
	raw, err := json.MarshalIndent(set, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join("testdata", "golden-minilm.json"), append(raw, '\n'), 0o644); err != nil {
		t.Fatal(err)
	}
}
