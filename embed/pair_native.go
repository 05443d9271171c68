//go:build native

package embed

import (
	"fmt"
	"math"
)

// pairer reads two texts as one sequence.
type pairer struct {
	tok      *Tokenizer
	template template
	room     int // tokens of both texts at most
}

// newPairer takes the template from the tokenizer's file. limit is the sequence's, special tokens included.
func newPairer(t *Tokenizer, limit int) (*pairer, error) {
	if t.pairErr != nil {
		return nil, fmt.Errorf("%s: %w: %w", t.path, ErrModel, t.pairErr)
	}
	p := &pairer{t, t.pair, limit - t.pair.special()}
	if p.room < 2 {
		return nil, fmt.Errorf("%s: %w: a pair has %d special tokens, which leave no token each for two texts where "+
			"max_tokens is %d", t.path, ErrModel, t.pair.special(), limit)
	}
	return p, nil
}

// half is one text of a pair: its first tokens, at least as many as a sequence holds, and how to get all.
type half struct {
	ids      []uint32
	whole    bool
	text     string // behind its prefix, repaired
	repaired bool
}

// read repairs a text and encodes it for pairs.
func (p *pairer) read(prefix, text string) (half, error) {
	fixed, repaired := Repair(text)
	ids, whole, err := p.tok.plain(prefix+fixed, p.room)
	return half{ids, whole, prefix + fixed, repaired}, err
}

// join returns two texts as one sequence, cut as the tokenizers library's longest-first truncation does. cut tells of
// each text whether it lost tokens: the first keeps at least half of the room, rounded down, whatever the second is.
// The input is repaired if the second text was.
func (p *pairer) join(a, b half) (in input, cut [2]bool, err error) {
	// Of two texts that both fill the sequence alone, the longer one gets the odd token.
	if p.room%2 == 1 && (!a.whole || !b.whole) && min(len(a.ids), len(b.ids)) > p.room {
		for _, t := range []*half{&a, &b} {
			if t.ids, t.whole, err = p.tok.plain(t.text, math.MaxInt32); err != nil {
				return in, cut, err
			}
		}
	}
	keepA, keepB := longestFirst(len(a.ids), len(b.ids), p.room)
	in.ids, in.types = p.template.join(a.ids[:keepA], b.ids[:keepB])
	cut = [2]bool{!a.whole || keepA < len(a.ids), !b.whole || keepB < len(b.ids)}
	in.cut, in.repaired = cut[0] || cut[1], b.repaired
	return in, cut, nil
}

// windows returns a question with the windows of a context, of which stride tokens are in two in a row. The context is
// cut at limit tokens; tokens is how many it has then.
func (p *pairer) windows(
	question half, context string, limit, stride int,
) (all []Window, tokens int, cut bool, err error) {
	ids, own, cut, err := p.tok.words(context, limit)
	if err != nil {
		return nil, 0, false, err
	}
	at := make([][2]int, len(own))
	for i, o := range own {
		at[i] = [2]int{o.start, o.end}
	}
	front := p.tok.special - p.tok.closing
	return p.template.windowsOf(question.ids, ids[front:front+len(own)], at, p.room, stride), len(own), cut, nil
}
