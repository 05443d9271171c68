package embed

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
)

// piece is one part of a pair's template: a special token, or one of the two texts.
type piece struct {
	text int      // 0: special tokens; 1, 2: the first or second text
	ids  []uint32 // of a special token
	kind int64    // token type id
}

// template is how the tokens of two texts become one sequence: the post_processor of a tokenizer.json.
type template []piece

// The pieces that a template may have, and special tokens in all: real ones have seven and four.
const (
	maxPieces  = 64
	maxSpecial = 256
)

// rawProcessor has the keys of all post processors that add tokens.
type rawProcessor struct {
	Type       string            `json:"type"`
	Sep        json.RawMessage   `json:"sep"` // BertProcessing, RobertaProcessing: [token, id]
	CLS        json.RawMessage   `json:"cls"`
	Pair       []json.RawMessage `json:"pair"` // TemplateProcessing
	Special    map[string]rawIDs `json:"special_tokens"`
	Processors []json.RawMessage `json:"processors"` // Sequence
}

type rawIDs struct {
	IDs []uint32 `json:"ids"`
}

var errNoTemplate = errors.New("its post_processor says nothing about two texts, so it cannot read pairs")

// parseTemplate reads the pair's template out of a tokenizer.json. Known are BertProcessing, RobertaProcessing,
// TemplateProcessing, and a Sequence with one of them.
func parseTemplate(tokenizer []byte) (template, error) {
	var t struct {
		Processor json.RawMessage `json:"post_processor"`
	}
	if err := json.Unmarshal(tokenizer, &t); err != nil {
		return nil, err
	}
	pair, err := parseProcessor(t.Processor, 0)
	if err == nil && pair == nil {
		err = errNoTemplate
	}
	return pair, err
}

// parseProcessor returns nil for a processor that adds no tokens.
func parseProcessor(raw json.RawMessage, depth int) (template, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	var p rawProcessor
	if err := json.Unmarshal(raw, &p); err != nil {
		return nil, fmt.Errorf("post_processor: %w", err)
	}
	switch p.Type {
	case "ByteLevel": // it moves offsets only
		return nil, nil
	case "BertProcessing", "RobertaProcessing":
		return p.fixed()
	case "TemplateProcessing":
		return p.template()
	case "Sequence":
		return p.sequence(depth)
	}
	return nil, fmt.Errorf("post_processor %q is not known; BertProcessing, RobertaProcessing, TemplateProcessing and "+
		"Sequence are", p.Type)
}

func (p *rawProcessor) sequence(depth int) (found template, err error) {
	if depth > 4 {
		return nil, errors.New("post_processor: sequences within sequences")
	}
	for _, raw := range p.Processors {
		one, err := parseProcessor(raw, depth+1)
		if err != nil {
			return nil, err
		}
		if one != nil {
			if found != nil {
				return nil, errors.New("post_processor: two of the sequence add special tokens")
			}
			found = one
		}
	}
	return found, nil
}

// fixed is [CLS] a [SEP] b [SEP] with type 1 from b on, or <s> a </s></s> b </s> with type 0 throughout.
func (p *rawProcessor) fixed() (template, error) {
	cls, err := namedToken(p.CLS)
	if err != nil {
		return nil, fmt.Errorf("post_processor: cls: %w", err)
	}
	sep, err := namedToken(p.Sep)
	if err != nil {
		return nil, fmt.Errorf("post_processor: sep: %w", err)
	}
	if p.Type == "RobertaProcessing" {
		return template{{ids: cls}, {text: 1}, {ids: sep}, {ids: sep}, {text: 2}, {ids: sep}}, nil
	}
	return template{{ids: cls}, {text: 1}, {ids: sep}, {text: 2, kind: 1}, {ids: sep, kind: 1}}, nil
}

// namedToken reads ["[CLS]", 101].
func namedToken(raw json.RawMessage) ([]uint32, error) {
	var pair []json.RawMessage
	if err := json.Unmarshal(raw, &pair); err != nil {
		return nil, err
	}
	if len(pair) != 2 {
		return nil, fmt.Errorf("%d values, expected a token and its id", len(pair))
	}
	var id uint32
	if err := json.Unmarshal(pair[1], &id); err != nil {
		return nil, err
	}
	return []uint32{id}, nil
}

func (p *rawProcessor) template() (template, error) {
	if len(p.Pair) == 0 {
		return nil, errNoTemplate
	}
	if len(p.Pair) > maxPieces {
		return nil, fmt.Errorf("post_processor: a template of %d pieces, at most %d expected", len(p.Pair), maxPieces)
	}
	var t template
	var seen [3]int
	special := 0
	for _, raw := range p.Pair {
		one, err := p.piece(raw)
		if err != nil {
			return nil, fmt.Errorf("post_processor: %w", err)
		}
		seen[one.text]++
		special += len(one.ids)
		t = append(t, one)
	}
	if seen[1] != 1 || seen[2] != 1 || special > maxSpecial {
		return nil, fmt.Errorf("post_processor: the pair's template has sequence A %d times, B %d times and %d special "+
			"tokens; once each and at most %d are expected", seen[1], seen[2], special, maxSpecial)
	}
	return t, nil
}

// piece reads {"Sequence":{"id":"A","type_id":0}} or {"SpecialToken":{"id":"[CLS]","type_id":0}}.
func (p *rawProcessor) piece(raw json.RawMessage) (piece, error) {
	type part struct {
		ID   string `json:"id"`
		Type int64  `json:"type_id"`
	}
	var v struct {
		Sequence *part `json:"Sequence"`
		Special  *part `json:"SpecialToken"`
	}
	if err := json.Unmarshal(raw, &v); err != nil {
		return piece{}, err
	}
	if (v.Sequence == nil) == (v.Special == nil) {
		return piece{}, fmt.Errorf("template piece %.80s is neither a Sequence nor a SpecialToken", raw)
	}
	one := cmp.Or(v.Sequence, v.Special)
	if one.Type < 0 || one.Type > maxType {
		return piece{}, fmt.Errorf("type_id %d, expected 0 to %d", one.Type, maxType)
	}
	if v.Special != nil {
		known, ok := p.Special[one.ID]
		if !ok || len(known.IDs) == 0 {
			return piece{}, fmt.Errorf("special token %q has no ids", one.ID)
		}
		return piece{ids: known.IDs, kind: one.Type}, nil
	}
	switch one.ID {
	case "A":
		return piece{text: 1, kind: one.Type}, nil
	case "B":
		return piece{text: 2, kind: one.Type}, nil
	}
	return piece{}, fmt.Errorf("sequence %q, expected A or B", one.ID)
}

// maxType is the largest token type that is read; config.json's type_vocab_size decides which exist.
const maxType = 1 << 10

// special returns how many tokens the template adds.
func (t template) special() int {
	n := 0
	for _, p := range t {
		n += len(p.ids)
	}
	return n
}

// highest returns the largest token type.
func (t template) highest() int64 {
	var top int64
	for _, p := range t {
		top = max(top, p.kind)
	}
	return top
}

// join writes the two texts' ids into the template. types has an entry per id.
func (t template) join(a, b []uint32) (ids []uint32, types []int64) {
	n := len(a) + len(b) + t.special()
	ids, types = make([]uint32, 0, n), make([]int64, 0, n)
	for _, p := range t {
		part := p.ids
		switch p.text {
		case 1:
			part = a
		case 2:
			part = b
		}
		ids = append(ids, part...)
		for range part {
			types = append(types, p.kind)
		}
	}
	return ids, types
}

// longestFirst returns how many of the a and b tokens of two texts stay within room, as the tokenizers library's
// LongestFirst decides: the longer text gives way until both are equal, then both do; an odd token goes to the
// longer text, or to the second of equals.
func longestFirst(a, b, room int) (keepA, keepB int) {
	if a+b <= room {
		return a, b
	}
	short, long := min(a, b), max(a, b)
	if short <= room {
		long = max(short, room-short)
	} else {
		long = short
	}
	if short+long > room {
		short = room / 2
		long = short + room%2
	}
	if a > b {
		return long, short
	}
	return short, long
}
