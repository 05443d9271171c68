//go:build native

package embed

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"unicode"

	"github.com/daulet/tokenizers"
)

// tokenizer wraps the tokenizers library. It is safe for concurrent use until close.
type tokenizer struct {
	t       *tokenizers.Tokenizer
	path    string
	special int   // special tokens that every text gets
	closing int   // how many of them come after the text
	unknown int64 // the token of what the vocabulary does not have; noUnknown if it has all
	digest  string

	pair    template // how two texts become one sequence; nil when pairErr says why there is none
	pairErr error
}

// openTokenizer loads dir/tokenizer.json without the padding and truncation it may carry: all-MiniLM's
// pads every text to 128 tokens, and truncation is ours, so that it can be counted.
func openTokenizer(dir string) (*tokenizer, error) {
	raw, path, err := readTokenizer(dir)
	if err != nil {
		return nil, err
	}
	digest := sha256.Sum256(raw)
	bad := func(err error) (*tokenizer, error) { return nil, fmt.Errorf("%s: %w: %w", path, ErrModel, err) }
	unknown, err := unknownToken(raw)
	if err != nil {
		return bad(err)
	}
	if raw, err = withoutPadding(raw); err != nil {
		return bad(err)
	}
	t, err := tokenizers.FromBytes(raw)
	if err != nil {
		return bad(err)
	}
	tok := &tokenizer{t: t, path: path, unknown: unknown, digest: "sha256:" + hex.EncodeToString(digest[:])}
	tok.pair, tok.pairErr = parseTemplate(raw)
	probe := t.EncodeWithOptions("a", true, tokenizers.WithReturnSpecialTokensMask())
	for i, m := range probe.SpecialTokensMask {
		if m == 0 {
			continue
		}
		tok.special++
		if len(probe.SpecialTokensMask)-i <= trailing(probe.SpecialTokensMask) {
			tok.closing++
		}
	}
	if tok.special == len(probe.IDs) {
		tok.close()
		return bad(errors.New(`"a" has no token: the vocabulary is empty or lacks its unknown token`))
	}
	return tok, nil
}

// unknownToken reads from a tokenizer.json which token stands for what the vocabulary does not have.
func unknownToken(raw []byte) (int64, error) {
	var t struct {
		Model struct {
			UnkToken *string         `json:"unk_token"` // WordPiece, BPE, WordLevel
			UnkID    *int64          `json:"unk_id"`    // Unigram
			Vocab    json.RawMessage `json:"vocab"`
		} `json:"model"`
	}
	if err := json.Unmarshal(raw, &t); err != nil {
		return noUnknown, err
	}
	if t.Model.UnkID != nil {
		return *t.Model.UnkID, nil
	}
	if t.Model.UnkToken == nil {
		return noUnknown, nil
	}
	ids := map[string]int64{}
	if err := json.Unmarshal(t.Model.Vocab, &ids); err != nil {
		return noUnknown, fmt.Errorf("vocab: %w", err)
	}
	if id, ok := ids[*t.Model.UnkToken]; ok {
		return id, nil
	}
	return noUnknown, nil
}

func trailing(mask []uint32) int {
	n := 0
	for n < len(mask) && mask[len(mask)-1-n] == 1 {
		n++
	}
	return n
}

// withoutPadding nulls padding and truncation of a tokenizer.json. The library aborts the process on an
// error text with a NUL, so a file with one is refused here.
func withoutPadding(raw []byte) ([]byte, error) {
	var m map[string]json.RawMessage
	if err := json.Unmarshal(raw, &m); err != nil {
		return nil, err
	}
	if model := m["model"]; len(model) == 0 || model[0] != '{' {
		return nil, errors.New("no model in it: not a tokenizer.json")
	}
	if bytes.Contains(raw, []byte(`\u0000`)) {
		return nil, errors.New("it holds a NUL character")
	}
	m["padding"], m["truncation"] = json.RawMessage("null"), json.RawMessage("null")
	out, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	if len(out) > math.MaxUint32 {
		return nil, fmt.Errorf("%d bytes, at most %d", len(out), math.MaxUint32)
	}
	return out, nil
}

// encode returns the ids of a repaired text with special tokens, uncut.
func (t *tokenizer) encode(text string) ([]uint32, error) {
	ids := t.t.EncodeWithOptions(text, true).IDs
	if len(ids) < t.special { // the library reports an error as no tokens at all
		return nil, fmt.Errorf("%s: %w: the tokenizer fails on a text of %d bytes", t.path, ErrModel, len(text))
	}
	return ids, nil
}

// slack is how many tokens more than wanted the head of a text must have: the last of them may depend on what follows.
const slack = 16

// encodeHead is encode for a text of which limit tokens are wanted: of one that is much longer, only a beginning is
// read, to the end of a word, that has more tokens than that; whole tells that all of it was.
func (t *tokenizer) encodeHead(text string, limit int) (ids []uint32, whole bool, err error) {
	for n := 8 * (limit + slack); n < len(text); n *= 4 {
		end := strings.LastIndexFunc(text[:n], unicode.IsSpace)
		if end < n/2 {
			continue
		}
		ids, err := t.encode(text[:end])
		if err != nil || len(ids) > limit+slack {
			return ids, false, err
		}
	}
	ids, err = t.encode(text)
	return ids, true, err
}

// plain is encodeHead without special tokens.
func (t *tokenizer) plain(text string, limit int) (ids []uint32, whole bool, err error) {
	if ids, whole, err = t.encodeHead(text, limit+t.special); err != nil {
		return nil, whole, err
	}
	return ids[t.special-t.closing : len(ids)-t.closing], whole, nil
}

// offsets returns the byte range of each token of any text, without special tokens.
func (t *tokenizer) offsets(text string) [][2]int {
	fixed, changed := repair(text)
	enc := t.t.EncodeWithOptions(fixed, false, tokenizers.WithReturnOffsets())
	out := make([][2]int, len(enc.Offsets))
	for i, o := range enc.Offsets {
		out[i] = [2]int{int(o[0]), int(o[1])}
	}
	if changed {
		at := repairMap(text)
		for i, o := range out {
			out[i] = [2]int{at[o[0]], at[o[1]]}
		}
	}
	return out
}

func (t *tokenizer) close() { _ = t.t.Close() } // its error is always nil
