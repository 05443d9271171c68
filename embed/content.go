package embed

import (
	"errors"
	"fmt"
)

// Reasons why the vector of a text says nothing about it. Vectors of such texts are close to each other, whatever the
// texts are: two texts of unknown words have a cosine of 1.
var (
	ErrUnknownWords = errors.New("the encoder does not know its words")
	ErrRepetition   = errors.New("it repeats one word over and over")
)

// Content counts what an encoder reads of a text: tokens without the role's prefix, the special tokens, and everything
// beyond the encoder's limit.
type Content struct {
	Tokens   int
	Unknown  int // tokens that the vocabulary does not have
	Frequent int // occurrences of the two most frequent tokens; counted from repetitionTokens tokens on
}

// A text of fewer tokens is never called a repetition.
const repetitionTokens = 32

// Fault returns ErrUnknownWords if more than half of the tokens are unknown or there are no tokens, ErrRepetition if
// two tokens make up more than nine tenths of a long text, else nil.
func (c Content) Fault() error {
	switch {
	case c.Tokens == 0:
		return fmt.Errorf("%w: it has none", ErrUnknownWords)
	case 2*c.Unknown > c.Tokens:
		return fmt.Errorf("%w: %d of %d tokens are unknown", ErrUnknownWords, c.Unknown, c.Tokens)
	case c.Tokens >= repetitionTokens && 10*(c.Tokens-c.Frequent) < c.Tokens:
		return fmt.Errorf("%w: %d of its %d tokens are the same one or two", ErrRepetition, c.Frequent, c.Tokens)
	}
	return nil
}

// Fault returns the fault of text i; nil if the encoder does not count contents.
func (e *Embeddings) Fault(i int) error {
	if i >= len(e.Contents) {
		return nil
	}
	return e.Contents[i].Fault()
}

// Examiner is an Embedder that can report what it would read of a text.
type Examiner interface {
	// Examine counts the tokens of a document as CountTokens does, and its content.
	Examine(text string) (tokens int, c Content, err error)
}

// noUnknown stands for the unknown token of a vocabulary without one.
const noUnknown = -1

// measure counts the content of a text's ids, excluding the first and last ones, which are special tokens or belong to
// the prefix.
func measure(ids []uint32, first, last int, unknown int64) Content {
	ids = ids[min(first, len(ids)):]
	ids = ids[:max(len(ids)-last, 0)]
	c := Content{Tokens: len(ids)}
	for _, id := range ids {
		if int64(id) == unknown {
			c.Unknown++
		}
	}
	if len(ids) < repetitionTokens {
		return c
	}
	counts := make(map[uint32]int, len(ids))
	for _, id := range ids {
		counts[id]++
	}
	most, second := 0, 0
	for _, n := range counts {
		if n > most {
			n, most = most, n
		}
		second = max(second, n)
	}
	c.Frequent = most + second
	return c
}
