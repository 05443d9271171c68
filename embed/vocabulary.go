package embed

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sluice-rag/sluice/internal/regular"
)

// readTokenizer returns the text of dir/tokenizer.json. If the file does not exist, as in the published folders of
// distilbert-base-uncased-finetuned-sst-2-english and dslim/bert-base-NER, the text is derived from vocab.txt and
// tokenizer_config.json. path is the file to name in errors.
func readTokenizer(dir string) (raw []byte, path string, err error) {
	path = filepath.Join(dir, "tokenizer.json")
	raw, err = regular.ReadFile(path, math.MaxUint32)
	if !errors.Is(err, fs.ErrNotExist) {
		if err != nil {
			err = fmt.Errorf("%w: %w", ErrModel, err)
		}
		return raw, path, err
	}
	missing := err
	vocabulary := filepath.Join(dir, "vocab.txt")
	words, err := regular.ReadFile(vocabulary, maxSettings)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, path, fmt.Errorf("%w: %w; there is no vocab.txt to make one from either", ErrModel, missing)
	}
	if err != nil {
		return nil, vocabulary, fmt.Errorf("%w: %w", ErrModel, err)
	}
	var c wordPiece
	config := filepath.Join(dir, "tokenizer_config.json")
	if _, err := readJSON(config, &c); err != nil {
		return nil, config, err
	}
	if err := c.check(); err != nil {
		return nil, config, fmt.Errorf("%s: %w: %w", config, ErrModel, err)
	}
	if raw, err = c.tokenizer(string(words)); err != nil {
		return nil, vocabulary, fmt.Errorf("%s: %w: %w", vocabulary, ErrModel, err)
	}
	return raw, vocabulary, nil
}

// wordPiece holds the settings of a BERT tokenizer_config.json that affect the tokens.
type wordPiece struct {
	Class   string `json:"tokenizer_class"`
	Basic   *bool  `json:"do_basic_tokenize"`
	Lower   *bool  `json:"do_lower_case"`
	Accents *bool  `json:"strip_accents"`
	Chinese *bool  `json:"tokenize_chinese_chars"`
}

func (c *wordPiece) check() error {
	known := []string{"", "BertTokenizer", "BertTokenizerFast", "DistilBertTokenizer", "DistilBertTokenizerFast"}
	if !slices.Contains(known, c.Class) {
		return fmt.Errorf("tokenizer_class %q needs a tokenizer.json; without one only BERT's are known", c.Class)
	}
	if c.Basic != nil && !*c.Basic {
		return errors.New("do_basic_tokenize is false: that needs a tokenizer.json")
	}
	return nil
}

// tokenizer returns the tokenizer.json of a BERT vocabulary with one word per line, whose id is the line's number; if
// a word occurs twice, the last line counts. The result equals what transformers derives from the same files.
func (c *wordPiece) tokenizer(words string) ([]byte, error) {
	ids := map[string]int{}
	for i, w := range strings.Split(strings.TrimSuffix(words, "\n"), "\n") {
		ids[strings.TrimSuffix(w, "\r")] = i
	}
	type object = map[string]any
	special, added := object{}, []any{}
	for _, t := range []string{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"} {
		id, ok := ids[t]
		if !ok {
			if t == "[MASK]" {
				continue
			}
			return nil, fmt.Errorf("it has no %s: not BERT's vocabulary, so the folder needs a tokenizer.json", t)
		}
		added = append(added, object{"content": t, "id": id, "special": true, "single_word": false, "lstrip": false,
			"rstrip": false, "normalized": false})
	}
	for _, t := range []string{"[CLS]", "[SEP]"} {
		special[t] = object{"id": t, "ids": []int{ids[t]}, "tokens": []string{t}}
	}
	part := func(kind, id string, of int) any { return object{kind: object{"id": id, "type_id": of}} }
	cls, sep, a := part("SpecialToken", "[CLS]", 0), part("SpecialToken", "[SEP]", 0), part("Sequence", "A", 0)
	b, end := part("Sequence", "B", 1), part("SpecialToken", "[SEP]", 1)
	yes := func(p *bool) bool { return p == nil || *p }
	return json.Marshal(object{"version": "1.0", "added_tokens": added,
		"normalizer": object{"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": yes(c.Chinese),
			"strip_accents": c.Accents, "lowercase": yes(c.Lower)},
		"pre_tokenizer": object{"type": "BertPreTokenizer"},
		"post_processor": object{"type": "TemplateProcessing", "single": []any{cls, a, sep},
			"pair": []any{cls, a, sep, b, end}, "special_tokens": special},
		"decoder": object{"type": "WordPiece", "prefix": "##", "cleanup": true},
		"model": object{"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
			"max_input_chars_per_word": 100, "vocab": ids}})
}
