package knowledge

import "time"

// LongestWait is the longest time that a call has waited for another one's turn.
func (b *Base) LongestWait() time.Duration { return time.Duration(b.longest.Load()) }

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
