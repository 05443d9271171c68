//go:build native

package tests

import (
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/sluice-rag/sluice/internal/test/doubling"
	"github.com/sluice-rag/sluice/internal/testmodels/generator"
)

// A text of thousands of special tokens and words has the tokens that its parts have one by one, and several texts can
// be tokenised at a time.
func TestArchManySpecialTokens(t *testing.T) {
	eachPreset(t, func(t *testing.T, p generator.Model) {
		m := openPreset(t, p, 1)
		var parts []string
		for _, token := range p.Vocab.Tokens {
			if token.Kind == generator.Control || token.Kind == generator.User {
				parts = append(parts, token.Text, token.Text+" what is the city?", token.Text+"\n",
					token.Text+token.Text)
			}
		}
		begin := 0
		if p.Vocab.AddBOS {
			begin = 1
		}
		var text strings.Builder
		var want []int32
		one := map[string][]int32{}
		for i := range 4000 {
			part := parts[(i*i+i/7)%len(parts)]
			if one[part] == nil {
				ids, err := m.Tokenize(part)
				if err != nil {
					t.Fatal(err)
				}
				one[part] = ids[begin:]
			}
			text.WriteString(part)
			want = append(want, one[part]...)
		}
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				if ids, err := m.Tokenize(text.String()); err != nil || !slices.Equal(ids[begin:], want) {
					t.Errorf("%d tokens of %d bytes, want %d, %v", len(ids)-begin, text.Len(), len(want), err)
				}
			})
		}
		wg.Wait()
		// Bytes that are no token of a vocabulary: before, 64 KiB took seconds, and this much would not end.
		if ids, err := m.Tokenize(strings.Repeat("\n\x01", 1<<18)); err != nil || len(ids) < 1<<16 {
			t.Errorf("%d tokens, %v", len(ids), err)
		}
	})
}

// TestDoubling draws texts and contents of messages for the tokenizer and the chat template of each vocabulary.
func TestDoubling(t *testing.T) {
	eachPreset(t, func(t *testing.T, p generator.Model) {
		m := openPreset(t, p, 1)
		syntax := []string{"a", "b ", "word ", "\n", "\n\n", "  ", "\t", "1", ".", "'s", "é", "日", "\U0001F600",
			"\x00", "\uFDD0", "<", "|",
			">", "<|", "▁", "Ġ", "\r\n", "ſ", "the", "\u0301", "\xff", "[", "]", "/"}
		for _, token := range p.Vocab.Tokens {
			if token.Kind == generator.Control || token.Kind == generator.User {
				syntax = append(syntax, token.Text)
			}
		}
		doubling.Search(t, syntax, func(text string) {
			_, _ = m.Tokenize(text)
			_, _ = m.CountContent(text)
			_, _ = m.ApplyTemplate(conversations["user"])
		})
	})
}
