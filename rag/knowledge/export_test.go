package knowledge

import (
	"time"

	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/rag/corpus"
)

// LongestWaits returns the longest times that a call has waited for another one's turn.
func (b *Base) LongestWaits() map[string]time.Duration {
	return map[string]time.Duration{
		"opening": time.Duration(b.longest.opening.Load()), "loading": time.Duration(b.longest.loading.Load()),
		"gating": time.Duration(b.longest.gating.Load()), "searching": time.Duration(b.longest.searching.Load()),
	}
}

// HoldTurns has every call wait that needs another one's work.
func (b *Base) HoldTurns() (release func()) {
	for _, t := range []turn{b.loading, b.opening, b.search.turn} {
		t <- struct{}{}
	}
	return func() {
		b.loading.give()
		b.opening.give()
		b.search.turn.give()
	}
}

// HoldWords has every call wait that needs an inverted index made.
func (b *Base) HoldWords() (release func()) {
	b.words.turn <- struct{}{}
	return b.words.turn.give
}

// KeepTexts keeps chunks as if they had been read.
func KeepTexts(s *Snapshot, chunks []corpus.Chunk) {
	ids := make([]string, len(chunks))
	for i, c := range chunks {
		ids[i] = c.ID
	}
	s.chunks.keep(keptTexts, ids, func(i int) (corpus.Chunk, int) { return chunks[i], textBytes(chunks[i]) })
}

// KeptBytes returns how much is kept.
func KeptBytes(s *Snapshot) int { return s.chunks.bytes }

// JoinFrom joins searches of so many rows or more.
func (b *Base) JoinFrom(rows int) { b.joinedRows = rows }

// Joined returns how the snapshot's searches use an engine.
func (s *Snapshot) Joined(e engine.Interface) engine.Interface { return joining{e, s} }

// Waiting returns how many searches wait for others to end.
func (s *Snapshot) Waiting() (n int) {
	s.joins.mu.Lock()
	defer s.joins.mu.Unlock()
	for _, g := range s.joins.groups {
		n += len(g.waiting)
	}
	return n
}

// KeptTitles is of how many documents the title is kept.
func KeptTitles(s *Snapshot) int { return len(s.titles.byID) }

// KeptSentenceBytes bounds KeptSentences.
const KeptSentenceBytes = keptBytes

// KeptSentences returns how many bytes the vectors of sentences take.
func (b *Base) KeptSentences() (bytes int) {
	b.kept.mu.Lock()
	defer b.kept.mu.Unlock()
	for _, generation := range []map[sentenceKey][]float32{b.kept.recent, b.kept.older} {
		for _, row := range generation {
			bytes += 4*cap(row) + keptOverhead
		}
	}
	return bytes
}
