package embed

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

const smallVocabulary = "[PAD]\n[UNK]\r\n[CLS]\n[SEP]\nthe\ngate\nthe\n"

func TestTokenizerFromVocabulary(t *testing.T) {
	dir := folder(t, map[string]string{"vocab.txt": smallVocabulary,
		"tokenizer_config.json": `{"do_lower_case":false,"strip_accents":null,"tokenize_chinese_chars":true}`})
	raw, path, err := readTokenizer(dir)
	if err != nil || !strings.HasSuffix(path, "vocab.txt") {
		t.Fatalf("%s, %v", path, err)
	}
	var got struct {
		Normalizer struct{ Lowercase bool }
		Model      struct{ Vocab map[string]int }
	}
	if err := json.Unmarshal(raw, &got); err != nil {
		t.Fatal(err)
	}
	if got.Normalizer.Lowercase || got.Model.Vocab["the"] != 6 || got.Model.Vocab["[UNK]"] != 1 ||
		len(got.Model.Vocab) != 6 {
		t.Errorf("%+v", got)
	}
	if pair, err := parseTemplate(raw); err != nil || pair.special() != 3 || pair.highest() != 1 {
		t.Errorf("%v, %v", pair, err)
	}
	for name, c := range map[string]struct {
		files map[string]string
		says  string
	}{
		"neither": {nil, "no vocab.txt"},
		"another class": {map[string]string{"vocab.txt": smallVocabulary,
			"tokenizer_config.json": `{"tokenizer_class":"BertJapaneseTokenizer"}`}, "BertJapaneseTokenizer"},
		"not basic": {map[string]string{"vocab.txt": smallVocabulary,
			"tokenizer_config.json": `{"do_basic_tokenize":false}`}, "do_basic_tokenize"},
		"broken config": {map[string]string{"vocab.txt": smallVocabulary, "tokenizer_config.json": `{`},
			"tokenizer_config.json"},
		"another's list": {map[string]string{"vocab.txt": "<s>\n<pad>\n</s>\n<unk>\n"}, "[PAD]"},
		"empty":          {map[string]string{"vocab.txt": ""}, "[PAD]"},
	} {
		if _, _, err := readTokenizer(folder(t, c.files)); !errors.Is(err, ErrModel) ||
			!strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzVocabulary(f *testing.F) {
	f.Add(smallVocabulary, `{"do_lower_case":true}`)
	f.Add("[PAD]\n\xff\n", `{"strip_accents":true}`)
	f.Fuzz(func(t *testing.T, words, config string) {
		var c wordPiece
		if json.Unmarshal([]byte(config), &c) != nil {
			return
		}
		raw, err := c.tokenizer(words)
		if err == nil && !json.Valid(raw) {
			t.Fatalf("%q", raw)
		}
	})
}
