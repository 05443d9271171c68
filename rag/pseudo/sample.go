package pseudo

import (
	"cmp"
	"math/rand/v2"
	"slices"

	"github.com/sluice-rag/sluice/rag/corpus"
)

// sample draws n rows (0 or too many: all), seeded, ascending. It is a systematic sample of the contexts
// ordered by topic and at random within a topic, so that each topic has its share, rounded up or down.
// Contexts without a topic are grouped by document.
func sample(chunks []corpus.Chunk, n int, seed uint64) []int {
	rows := rand.New(rand.NewPCG(seed, 1)).Perm(len(chunks))
	if n <= 0 || n >= len(chunks) {
		slices.Sort(rows)
		return rows
	}
	group := func(row int) string { return cmp.Or(chunks[row].Topic, chunks[row].Document) }
	slices.SortStableFunc(rows, func(a, b int) int { return cmp.Compare(group(a), group(b)) })
	step := float64(len(rows)) / float64(n)
	start := rand.New(rand.NewPCG(seed, 2)).Float64() * step
	picked := make([]int, n)
	for i := range picked {
		picked[i] = rows[min(int(start+float64(i)*step), len(rows)-1)]
	}
	slices.Sort(picked)
	return picked
}
