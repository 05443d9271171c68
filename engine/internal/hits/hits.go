// Package hits keeps the best hits of a search: a binary heap of at most k with the worst of them on top.
// The order is strict (kernels.Metric.Closer), so that its content does not depend on who comes first.
package hits

import (
	"slices"

	"github.com/sluice-rag/sluice/kernels"
)

// Found is the result for a query: the best rows, better first, or one that is above a threshold; and how many rows
// needed their canonical score.
type Found struct {
	Hits      []kernels.Hit
	Survivors int64
}

// Offer adds h to the heap if it is among the k best, and returns the heap.
func Offer(heap []kernels.Hit, h kernels.Hit, m kernels.Metric, k int) []kernels.Hit {
	switch {
	case len(heap) < k:
		heap = append(heap, h)
		up(heap, m)
	case m.Closer(h, heap[0]):
		heap[0] = h
		down(heap, m)
	}
	return heap
}

// Select offers the scores of the rows from c0 on.
func Select(heap []kernels.Hit, scores []float64, c0 int, m kernels.Metric, k int) []kernels.Hit {
	for j, s := range scores {
		if len(heap) == k && m.Better(heap[0].Score, s) {
			continue
		}
		heap = Offer(heap, kernels.Hit{Row: c0 + j, Score: s}, m, k)
	}
	return heap
}

// Sort puts hits in order, better first.
func Sort(list []kernels.Hit, m kernels.Metric) {
	slices.SortFunc(list, func(a, b kernels.Hit) int {
		switch {
		case m.Closer(a, b):
			return -1
		case m.Closer(b, a):
			return 1
		}
		return 0
	})
}

func up(heap []kernels.Hit, m kernels.Metric) {
	for i := len(heap) - 1; i > 0; {
		parent := (i - 1) / 2
		if !m.Closer(heap[parent], heap[i]) {
			return
		}
		heap[parent], heap[i] = heap[i], heap[parent]
		i = parent
	}
}

func down(heap []kernels.Hit, m kernels.Metric) {
	for i := 0; ; {
		last := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(heap); child++ {
			if m.Closer(heap[last], heap[child]) {
				last = child
			}
		}
		if last == i {
			return
		}
		heap[i], heap[last] = heap[last], heap[i]
		i = last
	}
}
