//go:build native

package tests

import (
	"path/filepath"
	"testing"

	"github.com/sluice-rag/sluice/internal/test/race"
	"github.com/sluice-rag/sluice/internal/testmodels/generator"
	"github.com/sluice-rag/sluice/llm"
)

// TestSplitModel: a model in three files is the model in one.
func TestSplitModel(t *testing.T) {
	race.Skip(t)
	p := preset(t, "qwen2")
	whole := filepath.Join(t.TempDir(), "whole.gguf")
	if err := generator.Write(whole, p); err != nil {
		t.Fatal(err)
	}
	var texts [2]string
	var infos [2]llm.Info
	split, err := generator.WriteSplit(filepath.Join(t.TempDir(), "m"), p, 3)
	if err != nil {
		t.Fatal(err)
	}
	for i, path := range []string{whole, split} {
		m, err := llm.Open(t.Context(), path, llm.Options{ContextSize: 256, Slots: 1, Threads: testThreads,
			Logger: (&llamaLog{}).logger()})
		if err != nil {
			t.Fatal(err)
		}
		texts[i] = generate(t, m, llm.Request{Prompt: "Is a part a whole?", MaxTokens: 24}).Text
		infos[i] = m.Info()
		m.Close()
	}
	if texts[0] == "" || texts[0] != texts[1] {
		t.Errorf("whole %q, in parts %q", texts[0], texts[1])
	}
	if infos[0].Parameters != infos[1].Parameters || infos[1].Bytes <= infos[0].Bytes {
		t.Errorf("%+v\n%+v", infos[0], infos[1])
	}
}
