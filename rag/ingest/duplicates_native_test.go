//go:build native

package ingest_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/internal/testmodels/minilm"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/ref"
	"github.com/sluice-rag/sluice/rag/knowledge"
)

// contextsOf returns the texts of a data set's contexts in order.
func contextsOf(t *testing.T, set string, n int) (texts []string) {
	t.Helper()
	f, err := os.Open(filepath.Join("..", "..", "..", "shared", "data", set, "contexts.jsonl"))
	if err != nil {
		t.Skipf("SKIP: the data are not there: %v", err)
	}
	defer f.Close()
	for dec := json.NewDecoder(f); dec.More() && len(texts) < n; {
		var c struct{ Text string }
		if err := dec.Decode(&c); err != nil {
			t.Fatal(err)
		}
		texts = append(texts, c.Text)
	}
	return texts
}

// editedCopies are copies of a text that people take for the same.
func editedCopies(text, other string) map[string]string {
	words := strings.Fields(text)
	changed := append([]string(nil), words...)
	changed[len(words)/2] = "something"
	sentence, _, _ := strings.Cut(other, ". ")
	return map[string]string{
		"white space":         strings.Join(words, "\n  "),
		"case":                strings.ToUpper(text),
		"punctuation":         strings.NewReplacer(",", "", ";", "", "\"", "", "(", "", ")", "").Replace(text),
		"a word changed":      strings.Join(changed, " "),
		"a sentence added":    text + " " + sentence + ".",
		"a tenth left out":    strings.Join(words[:len(words)-len(words)/10], " "),
		"every 8th word gone": strings.Join(without(words, 8), " "),
	}
}

func without(words []string, every int) (out []string) {
	for i, w := range words {
		if i%every != every-1 {
			out = append(out, w)
		}
	}
	return out
}

// Edited copies of passages are found, and passages beside each other are not taken for copies. squad16 and xquad-de;
// -v prints the shares by edit and by cosine and share of words.
func TestDuplicatesAreTold(t *testing.T) {
	enc := minilm.Open(t, embed.Options{})
	type pair struct {
		kind            string
		cosine, overlap float64
	}
	var pairs []pair
	for _, set := range []string{"squad16", "xquad-de"} {
		texts := contextsOf(t, set, 24)
		all := append([]string(nil), texts...)
		var kinds []string
		var of []int
		for i, text := range texts {
			for kind, copied := range editedCopies(text, texts[(i+len(texts)/2)%len(texts)]) {
				all, kinds, of = append(all, copied), append(kinds, kind), append(of, i)
			}
		}
		e, err := enc.Embed(t.Context(), all, embed.Document)
		if err != nil {
			t.Fatal(err)
		}
		for k, kind := range kinds {
			pairs = append(pairs, pair{kind, ref.Score(kernels.Cosine, e.Row(of[k]), e.Row(len(texts)+k)),
				knowledge.ShareOfWords(texts[of[k]], all[len(texts)+k])})
		}
		for i := range texts {
			for j := range i {
				pairs = append(pairs, pair{"", ref.Score(kernels.Cosine, e.Row(i), e.Row(j)),
					knowledge.ShareOfWords(texts[i], texts[j])})
			}
		}
	}
	told := func(cosine, overlap float64) (precision, recall float64, by map[string]string) {
		found, there := map[string]int{}, map[string]int{}
		for _, p := range pairs {
			there[p.kind]++
			if p.cosine >= cosine && p.overlap >= overlap {
				found[p.kind]++
			}
		}
		right, copies := 0, 0
		by = map[string]string{}
		for kind, n := range there {
			if kind != "" {
				right, copies = right+found[kind], copies+n
				by[kind] = fmt.Sprintf("%.2f", float64(found[kind])/float64(n))
			}
		}
		return float64(right) / float64(max(right+found[""], 1)), float64(right) / float64(copies), by
	}
	for _, cosine := range []float64{.85, .9, .93, .95, .97, .98} {
		for _, overlap := range []float64{0, .5, .6, .7, .8} {
			precision, recall, by := told(cosine, overlap)
			t.Logf("cosine %.2f, words %.1f: precision %.3f, recall %.3f %v", cosine, overlap, precision, recall, by)
		}
	}
	o := knowledge.DuplicateOptions{}.WithDefaults()
	if precision, recall, by := told(o.Cosine, o.Overlap); precision < .99 || recall < .95 {
		t.Errorf("precision %.3f, recall %.3f: %v", precision, recall, by)
	}
}
