package embed

import (
	"math/bits"
	"time"
)

// Stats counts what a model has computed since it was opened.
type Stats struct {
	Calls       int64 // that were accepted; a call of many texts counts once for each window of them
	Texts       int64 // or pairs, or windows of long texts
	Tokens      int64
	Batches     int64
	Joined      int64         // batches with texts of more than one call
	Refused     int64         // calls that found the queue full
	ComputeTime time.Duration // of all batches, summed
	// Sizes counts batches by their number of texts: at most 1, 2, 4, … 128, and more.
	Sizes [9]int64

	WaitingCalls, WaitingTokens, Computing int // now; Computing counts batches
}

// count adds a batch.
func (s *Stats) count(texts, calls, tokens int) {
	s.Batches++
	s.Texts += int64(texts)
	s.Tokens += int64(tokens)
	if calls > 1 {
		s.Joined++
	}
	s.Sizes[min(bits.Len(uint(texts-1)), len(s.Sizes)-1)]++
}

// now returns the counts with what waits.
func (b *batcher) now() Stats {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.stats
	for i := range b.lines {
		s.WaitingCalls += len(b.lines[i].jobs)
		s.WaitingTokens += b.lines[i].tokens
		s.Computing += b.lines[i].computing
	}
	return s
}
