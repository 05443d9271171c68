//go:build native

package ingest_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/internal/testmodels/minilm"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/ref"
	"github.com/sluice-rag/sluice/rag/corpus"
	"github.com/sluice-rag/sluice/rag/corpus/chunk"
)

// mixed returns documents of twelve contexts each in one paragraph, no two neighbours of one topic, and where the
// contexts begin.
func mixed(t *testing.T, documents int) (docs []*corpus.Document, joints [][]int) {
	f, err := os.Open(filepath.Join("..", "..", "..", "shared", "data", "squad16", "contexts.jsonl"))
	if err != nil {
		t.Skipf("SKIP: the data are not there: %v", err)
	}
	defer f.Close()
	byTopic := map[string][]string{}
	var topics []string
	for dec := json.NewDecoder(f); dec.More(); {
		var c struct{ Topic, Text string }
		if err := dec.Decode(&c); err != nil {
			t.Fatal(err)
		}
		if byTopic[c.Topic] == nil {
			topics = append(topics, c.Topic)
		}
		byTopic[c.Topic] = append(byTopic[c.Topic], c.Text)
	}
	for n := range documents {
		var text strings.Builder
		var at []int
		for i := range 12 {
			if i > 0 {
				text.WriteByte(' ')
				at = append(at, text.Len())
			}
			list := byTopic[topics[(i*5+n)%len(topics)]]
			text.WriteString(list[(n*7+i)%len(list)])
		}
		docs = append(docs, &corpus.Document{ID: "d", Text: text.String()})
		joints = append(joints, at)
	}
	return docs, joints
}

// The semantic chunker finds where contexts of other topics begin in one long paragraph, which the fixed one does not.
// squad16; -v prints precision and recall of the cuts by setting.
func TestSemanticChunksFindTopics(t *testing.T) {
	enc := minilm.Open(t, embed.Options{})
	known := map[string][]float32{} // settings have most texts in common
	similar := func(ctx context.Context, texts []string) ([]float64, error) {
		later := slices.DeleteFunc(slices.Clone(texts), func(text string) bool { return known[text] != nil })
		e, err := enc.Embed(ctx, later, embed.Document)
		if err != nil {
			return nil, err
		}
		for i, text := range later {
			known[text] = slices.Clone(e.Row(i))
		}
		out := make([]float64, len(texts)-1)
		for i := range out {
			out[i] = ref.Score(kernels.Cosine, known[texts[i]], known[texts[i+1]])
		}
		return out, nil
	}
	docs, joints := mixed(t, 4)
	try := func(name string, m *corpus.Semantic) (precision, recall float64) {
		cuts, found, there := 0, 0, 0
		for i, d := range docs {
			chunks, err := chunk.Split(d, corpus.ChunkOptions{Size: 256, Count: enc.CountTokens, Semantic: m})
			if err != nil {
				t.Fatal(err)
			}
			there += len(joints[i])
			for _, c := range chunks[1:] {
				if cuts++; slices.Contains(joints[i], c.Start) {
					found++
				}
			}
		}
		precision, recall = float64(found)/float64(cuts), float64(found)/float64(there)
		t.Logf("%-28s %3d chunks, precision %.3f, recall %.3f", name, cuts+len(docs), precision, recall)
		return precision, recall
	}
	fixed, _ := try("fixed", nil)
	try("percentile 5", &corpus.Semantic{Percentile: 5, Similar: similar})
	try("percentile 5, buffer 1", &corpus.Semantic{Percentile: 5, Buffer: 1, Similar: similar})
	precision, recall := try("percentile 20", &corpus.Semantic{Percentile: 20, Similar: similar})
	if precision < 2*fixed || precision < .5 || recall < .5 {
		t.Errorf("precision %.3f (fixed %.3f), recall %.3f", precision, fixed, recall)
	}
}
