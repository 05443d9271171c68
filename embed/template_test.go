package embed

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

const (
	clsSpecial = `"special_tokens":{"[CLS]":{"id":"[CLS]","ids":[101],"tokens":["[CLS]"]},` +
		`"[SEP]":{"id":"[SEP]","ids":[102],"tokens":["[SEP]"]}}`
	clsPair = `"pair":[{"SpecialToken":{"id":"[CLS]","type_id":0}},{"Sequence":{"id":"A","type_id":0}},` +
		`{"SpecialToken":{"id":"[SEP]","type_id":0}},{"Sequence":{"id":"B","type_id":1}},` +
		`{"SpecialToken":{"id":"[SEP]","type_id":1}}]`
	clsTemplate = `{"type":"TemplateProcessing","single":[],` + clsPair + `,` + clsSpecial + `}`
)

func TestParseTemplate(t *testing.T) {
	bert := `{"type":"BertProcessing","sep":["[SEP]",102],"cls":["[CLS]",101]}`
	roberta := `{"type":"RobertaProcessing","sep":["</s>",2],"cls":["<s>",0]}`
	for name, c := range map[string]struct {
		processor string
		ids       []uint32
		types     []int64
	}{
		"bert":     {bert, []uint32{101, 7, 8, 102, 9, 102}, []int64{0, 0, 0, 0, 1, 1}},
		"roberta":  {roberta, []uint32{0, 7, 8, 2, 2, 9, 2}, []int64{0, 0, 0, 0, 0, 0, 0}},
		"template": {clsTemplate, []uint32{101, 7, 8, 102, 9, 102}, []int64{0, 0, 0, 0, 1, 1}},
		"sequence": {`{"type":"Sequence","processors":[{"type":"ByteLevel"},` + roberta + `]}`,
			[]uint32{0, 7, 8, 2, 2, 9, 2}, []int64{0, 0, 0, 0, 0, 0, 0}},
	} {
		p, err := parseTemplate([]byte(`{"post_processor":` + c.processor + `}`))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		ids, types := p.join([]uint32{7, 8}, []uint32{9})
		if !slices.Equal(ids, c.ids) || !slices.Equal(types, c.types) || p.special() != len(ids)-3 ||
			p.highest() != slices.Max(types) {
			t.Errorf("%s: %v %v", name, ids, types)
		}
	}
	for processor, want := range map[string]string{
		`null`:                 "two texts",
		`{"type":"ByteLevel"}`: "two texts",
		`{"type":"Magic"}`:     `"Magic"`,
		`[]`:                   "post_processor",
		`{"type":"BertProcessing","sep":["x",1,2],"cls":["y",3]}`:                        "sep",
		`{"type":"BertProcessing","sep":["x",1]}`:                                        "cls",
		`{"type":"BertProcessing","sep":["x",-1],"cls":["y",3]}`:                         "sep",
		`{"type":"TemplateProcessing","single":[],"pair":[]}`:                            "two texts",
		`{"type":"TemplateProcessing",` + clsPair + `}`:                                  "no ids",
		strings.Replace(clsTemplate, `"id":"B"`, `"id":"A"`, 1):                          "A 2 times",
		strings.Replace(clsTemplate, `"id":"B"`, `"id":"C"`, 1):                          `"C"`,
		strings.Replace(clsTemplate, `"type_id":1`, `"type_id":-1`, 1):                   "type_id -1",
		strings.Replace(clsTemplate, `{"Sequence"`, `{"Sequel"`, 1):                      "neither",
		`{"type":"Sequence","processors":[` + clsTemplate + `,` + bert + `]}`:            "two of the sequence",
		strings.Repeat(`{"type":"Sequence","processors":[`, 9) + strings.Repeat("]}", 9): "within",
	} {
		if _, err := parseTemplate([]byte(`{"post_processor":` + processor + `}`)); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; an error with %s expected", processor, err, want)
		}
	}
	if _, err := parseTemplate([]byte(`{}`)); !errors.Is(err, errNoTemplate) {
		t.Errorf("no post_processor: %v", err)
	}
}

// The longer text loses token by token until both are equal; a loop says the same as the formula.
func TestLongestFirst(t *testing.T) {
	for a := range 20 {
		for b := range 20 {
			for room := range 24 {
				x, y := a, b
				for x+y > room {
					// of equals, the one loses that keeps the odd token with the longer, or the second
					if x > y || x == y && a <= b {
						x--
					} else {
						y--
					}
				}
				if p, q := longestFirst(a, b, room); p != x || q != y {
					t.Fatalf("%d and %d in %d: %d and %d, expected %d and %d", a, b, room, p, q, x, y)
				}
			}
		}
	}
}

func FuzzTemplate(f *testing.F) {
	f.Add([]byte(`{"post_processor":` + clsTemplate + `}`))
	f.Add([]byte(`{"post_processor":{"type":"Sequence","processors":[{"type":"BertProcessing",` +
		`"sep":["x",1],"cls":["y",2]}]}}`))
	f.Add([]byte(`{"post_processor":{"type":"TemplateProcessing","pair":[{"Sequence":{"id":"A","type_id":9e99}}]}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		p, err := parseTemplate(raw)
		if (p == nil) == (err == nil) {
			t.Fatalf("%v, %v", p, err)
		}
		if err != nil {
			return
		}
		ids, types := p.join([]uint32{1, 2, 3}, []uint32{4})
		if len(ids) != len(types) || len(ids) != 4+p.special() || p.special() > maxSpecial || p.highest() > maxType {
			t.Fatalf("%v %v", ids, types)
		}
	})
}
