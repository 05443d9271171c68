package embed

import (
	"errors"
	"testing"
)

func TestContent(t *testing.T) {
	repeat := func(n int, ids ...uint32) (out []uint32) {
		for range n {
			out = append(out, ids...)
		}
		return out
	}
	const unk = 100
	for _, c := range []struct {
		ids  []uint32
		want error
	}{
		{nil, ErrUnknownWords},
		{repeat(1, unk), ErrUnknownWords},
		{repeat(1, unk, 7), nil},
		{repeat(1, unk, unk, 7), ErrUnknownWords},
		{repeat(31, 7), nil},
		{repeat(32, 7), ErrRepetition},
		{append(repeat(100, 7, 8), 1, 2, 3), ErrRepetition},
		{append(repeat(20, 7, 8), 1, 2, 3, 4, 5, 6), nil},
		{repeat(32, 7, 8, 9), nil},
	} {
		ids := append(append([]uint32{101, 5, 5}, c.ids...), 102)
		if got := measure(ids, 3, 1, unk).Fault(); !errors.Is(got, c.want) || (got == nil) != (c.want == nil) {
			t.Errorf("%v: %v, want %v", c.ids, got, c.want)
		}
	}
	if got := measure([]uint32{1}, 2, 2, noUnknown); got != (Content{}) {
		t.Errorf("fewer tokens than special ones: %+v", got)
	}
	if err := (&Embeddings{}).Fault(3); err != nil {
		t.Errorf("an encoder that counts nothing: %v", err)
	}
}
