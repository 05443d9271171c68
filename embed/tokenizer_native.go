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
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/daulet/tokenizers"
)

// Tokenizer turns texts into a model's tokens, by the tokenizers library. It is safe for concurrent use until Close.
type Tokenizer struct {
	t       *tokenizers.Tokenizer
	path    string
	special int   // number of special tokens added to every text
	closing int   // how many of them come after the text
	unknown int64 // token for text that the vocabulary does not have; noUnknown if there is no such token
	digest  string

	continuing string // prefix of tokens that continue a word; "": spaces separate words
	wordChars  int    // for BERT's tokenizers: a longer word is one unknown token; 0 for others

	pair    template // how two texts become one sequence; nil if unsupported, with the reason in pairErr
	pairErr error
}

// OpenTokenizer loads dir/tokenizer.json, or makes it from dir/vocab.txt. Errors wrap ErrModel. Close frees it. The
// file's padding and truncation are left out: that of all-MiniLM pads every text to 128 tokens, and Sluice truncates
// itself so that it can count cut texts.
func OpenTokenizer(dir string) (*Tokenizer, error) {
	raw, path, err := readTokenizer(dir)
	if err != nil {
		return nil, err
	}
	digest := sha256.Sum256(raw)
	bad := func(err error) (*Tokenizer, error) { return nil, fmt.Errorf("%s: %w: %w", path, ErrModel, err) }
	unknown, continuing, err := unknownToken(raw)
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
	tok := &Tokenizer{t: t, path: path, unknown: unknown, continuing: continuing, wordChars: longestWord(raw),
		digest: "sha256:" + hex.EncodeToString(digest[:])}
	tok.pair, tok.pairErr = parseTemplate(raw)
	probe := t.EncodeWithOptions("a", true, tokenizers.WithReturnSpecialTokensMask())
	mask := probe.SpecialTokensMask
	for tok.closing < len(mask) && mask[len(mask)-1-tok.closing] == 1 {
		tok.closing++
	}
	for _, special := range mask {
		tok.special += int(special)
	}
	if tok.special == len(probe.IDs) {
		tok.Close()
		return bad(errors.New(`"a" has no token: the vocabulary is empty or lacks its unknown token`))
	}
	return tok, nil
}

// unknownToken reads from a tokenizer.json the token for text that the vocabulary does not have, and the prefix of
// tokens that continue a word; "" if spaces separate words.
func unknownToken(raw []byte) (id int64, continuing string, err error) {
	var t struct {
		Model struct {
			Type     string          `json:"type"`
			Prefix   string          `json:"continuing_subword_prefix"`
			UnkToken *string         `json:"unk_token"` // WordPiece, BPE, WordLevel
			UnkID    *int64          `json:"unk_id"`    // Unigram
			Vocab    json.RawMessage `json:"vocab"`
		} `json:"model"`
	}
	if err := json.Unmarshal(raw, &t); err != nil {
		return noUnknown, "", err
	}
	if t.Model.Type == "WordPiece" {
		continuing = t.Model.Prefix
	}
	id = noUnknown
	if t.Model.UnkID != nil {
		id = *t.Model.UnkID
	} else if t.Model.UnkToken != nil {
		ids := map[string]int64{}
		if err := json.Unmarshal(t.Model.Vocab, &ids); err != nil {
			return noUnknown, "", fmt.Errorf("vocab: %w", err)
		}
		if at, ok := ids[*t.Model.UnkToken]; ok {
			id = at
		}
	}
	return id, continuing, nil
}

// withoutPadding sets padding and truncation of a tokenizer.json to null. The library aborts the process on an error
// message that contains a NUL, so a file with a NUL is refused here.
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

// encoding encodes a repaired text with special tokens, uncut.
func (t *Tokenizer) encoding(text string, opts ...tokenizers.EncodeOption) (tokenizers.Encoding, error) {
	e := t.t.EncodeWithOptions(text, true, opts...)
	if len(e.IDs) < t.special { // the library reports an error by returning no tokens
		return e, fmt.Errorf("%s: %w: the tokenizer fails on a text of %d bytes", t.path, ErrModel, len(text))
	}
	return e, nil
}

// encode returns the ids of a repaired text with special tokens, uncut.
func (t *Tokenizer) encode(text string) ([]uint32, error) {
	e, err := t.encoding(condense(text, t.wordChars))
	return e.IDs, err
}

// slack is the number of additional tokens that the head of a text must have, because its last tokens may depend on
// what follows.
const slack = 16

// head is encoding for a text of which limit tokens are needed. Of a much longer text only a beginning with more
// tokens than that is read, up to the end of a word if possible. whole reports whether all of it was read.
func (t *Tokenizer) head(
	text string, limit int, opts ...tokenizers.EncodeOption,
) (e tokenizers.Encoding, whole bool, err error) {
	for n := 8 * (limit + slack); n < len(text); n *= 4 {
		end, more := strings.LastIndexFunc(text[:n], unicode.IsSpace), slack
		if end < n/2 {
			if t.wordChars == 0 {
				continue
			}
			// In the midst of a word: only the tokens of that one, which has at most so many characters or is one
			// token, depend on where it ends.
			for end = n; !utf8.RuneStart(text[end]); end-- {
			}
			more += t.wordChars
		}
		e, err := t.encoding(text[:end], opts...)
		if err != nil || len(e.IDs) > limit+more {
			return e, false, err
		}
	}
	e, err = t.encoding(text, opts...)
	return e, true, err
}

// encodeHead is head without offsets: it returns the ids only.
func (t *Tokenizer) encodeHead(text string, limit int) (ids []uint32, whole bool, err error) {
	e, whole, err := t.head(condense(text, t.wordChars), limit)
	return e.IDs, whole, err
}

// words encodes any text, cut at limit tokens. own holds its tokens without the special ones, with their byte ranges
// in the text.
func (t *Tokenizer) words(text string, limit int) (ids []uint32, own []token, cut bool, err error) {
	fixed, changed := Repair(text)
	options := []tokenizers.EncodeOption{tokenizers.WithReturnOffsets()}
	if t.continuing != "" {
		options = append(options, tokenizers.WithReturnTokens())
	}
	e, _, err := t.head(fixed, limit, options...)
	if err != nil {
		return nil, nil, false, err
	}
	ids, cut = truncate(e.IDs, limit, t.closing)
	front := t.special - t.closing
	own = make([]token, len(ids)-t.special)
	for i := range own {
		at := e.Offsets[front+i]
		own[i] = token{start: int(at[0]), end: int(at[1])}
		switch {
		case i == 0 || int64(ids[front+i]) == t.unknown:
			own[i].begins = true
		case t.continuing != "":
			own[i].begins = !strings.HasPrefix(e.Tokens[front+i], t.continuing)
		default: // a space before the token, or inside it if offsets are not trimmed
			own[i].begins = own[i].start == 0 || own[i].start < len(fixed) &&
				strings.ContainsAny(fixed[own[i].start-1:own[i].start+1], " \t\r\n")
		}
	}
	if changed {
		at := repairMap(text)
		for i, o := range own {
			own[i].start, own[i].end = at[o.start], at[o.end]
		}
	}
	return ids, own, cut, nil
}

// plain is encodeHead without special tokens.
func (t *Tokenizer) plain(text string, limit int) (ids []uint32, whole bool, err error) {
	if ids, whole, err = t.encodeHead(text, limit+t.special); err != nil {
		return nil, whole, err
	}
	return ids[t.special-t.closing : len(ids)-t.closing], whole, nil
}

// textOf returns the text of which the tokenizer makes tokens, which may have its special tokens around them. What
// tokens of another vocabulary spell in this one it often cuts into others: then it is ErrTokens.
func (t *Tokenizer) textOf(tokens []int32) (string, error) {
	ids, vocabulary := make([]uint32, len(tokens)), t.t.VocabSize()
	for i, n := range tokens {
		if n < 0 || uint32(n) >= vocabulary {
			return "", fmt.Errorf("%w: the vocabulary has no token %d", ErrTokens, n)
		}
		ids[i] = uint32(n)
	}
	around, err := t.encode("")
	if err != nil {
		return "", err
	}
	front, back := around[:t.special-t.closing], around[t.special-t.closing:]
	if n := len(ids) - len(back); n >= len(front) && slices.Equal(ids[:len(front)], front) &&
		slices.Equal(ids[n:], back) {
		ids = ids[len(front):n]
	}
	if len(ids) == 0 {
		return "", fmt.Errorf("%w: there are only special ones", ErrTokens)
	}
	text := t.t.Decode(ids, false)
	again, err := t.encode(text)
	if err != nil {
		return "", err
	}
	if !slices.Equal(again, slices.Concat(front, ids, back)) {
		return "", fmt.Errorf("%w: the encoder's tokenizer cuts what the %d tokens spell into others", ErrTokens,
			len(ids))
	}
	return text, nil
}

// Tokens returns the ids of each text behind a prefix as an encoder reads it: repaired, with the special tokens, cut at
// maxTokens with the closing ones kept; and how many texts were cut.
func (t *Tokenizer) Tokens(texts []string, prefix string, maxTokens int) (ids [][]uint32, cut int, err error) {
	if maxTokens <= t.special {
		return nil, 0, fmt.Errorf("%w: texts cut at %d tokens, the special tokens alone are %d", ErrModel, maxTokens,
			t.special)
	}
	ids = make([][]uint32, len(texts))
	for i, text := range texts {
		fixed, _ := Repair(text)
		all, _, err := t.encodeHead(prefix+fixed, maxTokens)
		if err != nil {
			return nil, 0, fmt.Errorf("text %q: %w", text[:min(len(text), 40)], err)
		}
		var shorter bool
		if ids[i], shorter = truncate(all, maxTokens, t.closing); shorter {
			cut++
		}
	}
	return ids, cut, nil
}

// Windows returns a question with the windows of a context, each of at most maxTokens tokens. Windows in a row share
// stride tokens of the context.
func (t *Tokenizer) Windows(question, context string, maxTokens, stride int) ([]Window, error) {
	p, err := newPairer(t, maxTokens)
	if err != nil {
		return nil, err
	}
	asked, err := p.read("", question)
	if err != nil {
		return nil, err
	}
	windows, _, _, err := p.windows(asked, context, math.MaxInt32, stride)
	return windows, err
}

// Digest returns the sha256 of the tokenizer's file.
func (t *Tokenizer) Digest() string { return t.digest }

// Close frees the tokenizer.
func (t *Tokenizer) Close() { _ = t.t.Close() } // the error is always nil
