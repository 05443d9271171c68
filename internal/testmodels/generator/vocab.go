package generator

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Kind is the kind of a token, as GGUF numbers it.
type Kind int32

const (
	Normal  Kind = 1
	Unknown Kind = 2
	Control Kind = 3
	User    Kind = 4 // user-defined: a word that is found before all others
	Byte    Kind = 6
)

// Token is an entry of a vocabulary. Text is as the file has it: "▁the", "Ġthe" or "<0x0A>".
type Token struct {
	Text  string
	Score float32 // SPM: the highest pair is merged first
	Kind  Kind
}

// Vocab is a tokenizer. SPM and BPE make one.
type Vocab struct {
	Model, Pre         string // tokenizer.ggml.model and .pre: which algorithm, and how it splits a text into words
	Tokens             []Token
	Merges             []string // BPE: pairs, the first is merged first
	BOS, EOS, UNK, PAD string   // texts of tokens; empty: none
	AddBOS             bool     // put BOS before every prompt
	SpacePrefix        bool     // SPM: put a space before text at the beginning and after special tokens
}

const (
	spmSpace = "▁"
	bpeSpace = "Ġ"

	words = "the of and to in is was for that with this are from have not but what when where which who how there their " +
		"about would could should other after before first second river water house light night morning evening mountain " +
		"city country capital answer question context document model language sentence number name people world time year " +
		"day small large long short old new good great Once upon The A It In What Why Where Write Tell You are an assistant " +
		"Answer brief please hello thanks story king queen castle forest garden window letter"
	endings = "ing ed er est tion ly ness ment able ous ive al ful less ity s"
	numbers = "10 100 19 20 202 2024"
)

// pieces returns the prefixes, of at least two runes, of all words, the shorter ones first, without repetitions. In
// that order every piece is an earlier piece, or a rune, and another rune.
func pieces(words []string) (all []string) {
	seen := map[string]bool{}
	for _, w := range words {
		runes := []rune(w)
		for n := 2; n <= len(runes); n++ {
			if p := string(runes[:n]); !seen[p] {
				seen[p] = true
				all = append(all, p)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b string) int {
		return cmp.Compare(utf8.RuneCountInString(a), utf8.RuneCountInString(b))
	})
	return all
}

func wordPieces(space string, extra ...string) []string {
	var all []string
	for w := range strings.FieldsSeq(words) {
		all = append(all, space+w)
	}
	all = append(all, strings.Fields(endings)...)
	return pieces(append(all, extra...))
}

// SPM makes a vocabulary of the sentencepiece kind: control tokens, a token for every byte, pieces by score, printable
// ASCII characters, more control tokens. The beginnings of extra words are pieces as well.
func SPM(first, last []string, extra ...string) Vocab {
	v := Vocab{Model: "llama", Pre: "default", AddBOS: true, SpacePrefix: true}
	control := func(texts []string) {
		for _, t := range texts {
			kind := Control
			if t == "<unk>" {
				kind = Unknown
			}
			v.Tokens = append(v.Tokens, Token{t, 0, kind})
		}
	}
	control(first)
	for b := range 256 {
		v.Tokens = append(v.Tokens, Token{fmt.Sprintf("<0x%02X>", b), 0, Byte})
	}
	texts := wordPieces(spmSpace, extra...)
	texts = append(texts, spmSpace)
	for c := '!'; c <= '~'; c++ {
		texts = append(texts, string(c))
	}
	if slices.Contains(extra, "\n\n") {
		texts = append(texts, "\n")
	}
	for rank, t := range texts {
		v.Tokens = append(v.Tokens, Token{t, -float32(rank), Normal})
	}
	control(last)
	return v
}

// BPE makes a vocabulary of the byte-level kind that GPT-2 began: a token for every byte, merges, control tokens.
func BPE(pre string, control ...string) Vocab {
	v := Vocab{Model: "gpt2", Pre: pre}
	for b := range 256 {
		v.Tokens = append(v.Tokens, Token{string(byteRune(byte(b))), 0, Normal})
	}
	newlines := string(byteRune('\n')) + string(byteRune('\n'))
	for _, p := range wordPieces(bpeSpace, append(strings.Fields(numbers), newlines)...) {
		_, size := utf8.DecodeLastRuneInString(p)
		cut := len(p) - size
		v.Merges = append(v.Merges, p[:cut]+" "+p[cut:])
		v.Tokens = append(v.Tokens, Token{p, 0, Normal})
	}
	for _, t := range control {
		v.Tokens = append(v.Tokens, Token{t, 0, Control})
	}
	return v
}

// byteRune returns the printable rune that stands for a byte in a byte-level vocabulary: the byte itself if Latin-1
// prints it, else the next one from U+0100 on.
func byteRune(b byte) rune {
	printable := func(c int) bool { return c >= '!' && c <= '~' || c >= 0xa1 && c <= 0xac || c >= 0xae && c <= 0xff }
	if printable(int(b)) {
		return rune(b)
	}
	r := rune(0x100)
	for c := range int(b) {
		if !printable(c) {
			r++
		}
	}
	return r
}

// ID returns a token's number, -1 if there is no such token.
func (v Vocab) ID(text string) int32 {
	return int32(slices.IndexFunc(v.Tokens, func(t Token) bool { return t.Text == text }))
}

// Decode returns the text that tokens stand for, control tokens written out. A space that the tokenizer put first is
// there.
func (v Vocab) Decode(ids []int32) string {
	decode := v.decoder()
	var text strings.Builder
	for _, id := range ids {
		text.WriteString(decode(v.Tokens[id]))
	}
	return text.String()
}

func (v Vocab) decoder() func(Token) string {
	byteOf := map[rune]byte{}
	for b := range 256 {
		byteOf[byteRune(byte(b))] = byte(b)
	}
	return func(t Token) string {
		switch {
		case t.Kind == Byte:
			b, _ := strconv.ParseUint(t.Text[3:5], 16, 8) // SPM wrote it
			return string([]byte{byte(b)})
		case t.Kind != Normal:
			return t.Text
		case v.Model == "llama":
			return strings.ReplaceAll(t.Text, spmSpace, " ")
		}
		var text []byte
		for _, r := range t.Text {
			text = append(text, byteOf[r])
		}
		return string(text)
	}
}

// quiet returns the tokens that must not be generated: control tokens, and bytes that are not runes.
func (v Vocab) quiet() []bool {
	decode, quiet := v.decoder(), make([]bool, len(v.Tokens))
	for id, t := range v.Tokens {
		quiet[id] = t.Kind != Normal || !utf8.ValidString(decode(t))
	}
	return quiet
}

func (v Vocab) header(f *file) {
	f.text("tokenizer.ggml.model", v.Model)
	f.text("tokenizer.ggml.pre", v.Pre)
	texts, scores, kinds := make([]string, len(v.Tokens)), make([]float32, len(v.Tokens)), make([]int32, len(v.Tokens))
	for i, t := range v.Tokens {
		texts[i], scores[i], kinds[i] = t.Text, t.Score, int32(t.Kind)
	}
	f.texts("tokenizer.ggml.tokens", texts)
	f.i32s("tokenizer.ggml.token_type", kinds)
	if v.Model == "llama" {
		f.f32s("tokenizer.ggml.scores", scores)
		f.flag("tokenizer.ggml.add_space_prefix", v.SpacePrefix)
	} else {
		f.texts("tokenizer.ggml.merges", v.Merges)
	}
	for _, s := range []struct{ key, text string }{{"bos", v.BOS}, {"eos", v.EOS}, {"unknown", v.UNK},
		{"padding", v.PAD}} {
		if s.text != "" {
			f.u32("tokenizer.ggml."+s.key+"_token_id", int(v.ID(s.text)))
		}
	}
	f.flag("tokenizer.ggml.add_bos_token", v.AddBOS)
}
