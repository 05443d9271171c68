package bench

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/kernels"
)

// TestLexicon: the cover of a row is the IDF mass of the query's words that its text has, computed here word by word,
// whichever way it is delivered.
func TestLexicon(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 1))
	vocabulary := strings.Fields("river rivers hill tower towers harbour ship singing sings the of and")
	texts := make([]string, 30)
	for i := range texts {
		for range 4 {
			texts[i] += " " + vocabulary[rng.IntN(len(vocabulary))]
		}
	}
	origin := make([]int32, 5000)
	df := map[string]float64{}
	for i := range origin {
		origin[i] = rng.Int32N(int32(len(texts)))
		for _, s := range stems(texts[origin[i]]) {
			df[s]++
		}
	}
	e, err := engine.New(engine.Options{})
	if err != nil {
		t.Fatal(err)
	}
	v := engine.Vectors{Data: make([]float32, len(origin)*8), Rows: len(origin), Dim: 8}
	for i := range v.Data {
		v.Data[i] = float32(rng.NormFloat64())
	}
	set, err := e.Prepare(t.Context(), v, kernels.Cosine, engine.SetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer set.Close()
	l := newLexicon(texts, origin, set.Blocks())
	lists := newListWriter(l)
	for _, text := range []string{"The singing towers of the harbour", "unknown words, and a ship", "nothing here",
		""} {
		idf := func(s string) float64 { return math.Log(1 + (5000-df[s]+.5)/(df[s]+.5)) }
		mass, all := 0.0, stems(text)
		for _, s := range all {
			mass += idf(s)
		}
		q := l.query(text, .5)
		list := slices.Clone(lists.write(q))
		var out [blockRoom]float32
		for _, b := range set.Blocks() {
			clear(out[:])
			if err := q.Read(b, out[:b.Len]); err != nil {
				t.Fatal(err)
			}
			for i := range b.Len {
				want := 0.0
				for _, s := range stems(texts[origin[b.Row(i)]]) {
					if slices.Contains(all, s) {
						want += .5 * idf(s) / mass
					}
				}
				if math.Abs(float64(out[i])-want) > 1e-6 || math.Abs(list.At(b.Row(i))-want) > 1e-6 {
					t.Fatalf("%q, row %d: %v by block, %v in the list, want %v", text, b.Row(i), out[i],
						list.At(b.Row(i)), want)
				}
			}
		}
	}
}
