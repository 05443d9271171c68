package corpus

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-rag/sluice/internal/test/doubling"
	"github.com/sluice-rag/sluice/rag/corpus/doc"
)

// TestMetadataKeepsItsTypes: of JSON lines and of front matter, and through JSON.
func TestMetadataKeepsItsTypes(t *testing.T) {
	n := func(s string) json.Number { return json.Number(s) }
	for content, want := range map[string]Meta{
		`{"text":"a","year":2020,"rating":4.50,"open":true,"none":null,"id":7}`: {
			"year": n("2020"), "rating": n("4.50"), "open": true},
		`{"text":"a","tags":["x",1,false,null],"by":{"name":"A","at":{"city":"B"}},"all":[{"n":1},{"n":2}],"no":[],"o":{}}`: {
			"tags": []any{"x", n("1"), false}, "by.name": "A", "by.at.city": "B", "all.n": []any{n("1"), n("2")}},
		`{"text":"a","id":"x","vector":[` + strings.Repeat("0.5,", 200) +
			`1],"big":12345678901234567890,"one":["y"]}`: {
			"big": n("12345678901234567890"), "one": []any{"y"}},
		"---\nyear: 2023\nrating: 4.5\nopen: yes\ndate: 2024-03-31\nhex: 0x10\ninf: .inf\ntags: [x, 2]\nby: {name: A}\n" +
			"text: '5'\nnone:\ntitle: 1984\n---\nwords": {"year": n("2023"), "rating": n("4.5"), "open": "yes",
			"date": "2024-03-31", "hex": n("16"), "inf": ".inf", "tags": []any{"x", n("2")}, "by.name": "A",
			"text": "5"},
	} {
		name := "a.jsonl"
		if strings.HasPrefix(content, "---") {
			name = "a.md"
		}
		docs, skips := load(t, LoadOptions{}, write(t, t.TempDir(), name, content))
		if len(docs) != 1 {
			t.Fatalf("%s: %v", content, skips)
		}
		got := docs[0].Meta
		if delete(got, doc.ModifiedKey); !cmp.Equal(got, want) {
			t.Errorf("%s\n%s", content, cmp.Diff(want, got))
		}
		raw, err := json.Marshal(got)
		var again Meta
		if err == nil {
			err = json.Unmarshal(raw, &again)
		}
		if err != nil || !cmp.Equal(again, want) {
			t.Errorf("%s becomes %v, %v", raw, again, err)
		}
	}
	if got := (Meta{"a": []any{"x", n("1.50"), true, 2.5}}).Text("a"); got != "x, 1.50, true, 2.5" {
		t.Errorf("%q", got)
	}
}

// TestMarkdownEntities: CommonMark 0.31.2, 6.2 and 2.5: only whole names with a semicolon are decoded.
func TestMarkdownEntities(t *testing.T) {
	for source, want := range map[string]string{
		"a&b; AT&T; &notanentity; &lt;tag&gt;":         "a&b; AT&T; &notanentity; <tag>",
		"&amp &copy &notit; &ampx; &#9731; &semi;":     "&amp &copy &notit; &ampx; \u2603 ;",
		"&NotEqualTilde; &ClockwiseContourIntegral; &": "\u2242\u0338 \u2232 &",
	} {
		if got := readAs(t, "a.md", source); got != want {
			t.Errorf("%q is read as %q, want %q", source, got, want)
		}
	}
}

// TestMetaWords: what a document is about is words, how it was made and who may read it is not.
func TestMetaWords(t *testing.T) {
	m := Meta{"author": "Ada Ayer", "tags": []any{"tides", "2 moons"}, "year": json.Number("2021"), "draft": true,
		"published": "2019-05-04T10:00:00Z", "created": "2022-01-01", "modified": "2023-01-01",
		"pages": json.Number("7"), AccessKey: []any{"board"},
		"note": strings.Repeat("a", 201), "language": "en"}
	if got, want := m.Words(), "Ada Ayer\n2019\ntides\n2 moons\n2021\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	for i := range 100 {
		m[strconv.Itoa(i)] = strings.Repeat("b", 100)
	}
	if got := m.Words(); len(got) > 1100 || Meta(nil).Words() != "" {
		t.Errorf("%d bytes", len(got))
	}
}

// TestMetadataStepsAreLinear: lists of any number of values, and the same key any number of times.
func TestMetadataStepsAreLinear(t *testing.T) {
	for _, in := range []doubling.Input{{Head: `{"text":"a","x":[`, Unit: `1,`, Tail: `1]}`},
		{Head: `{"text":"a","x":1`, Unit: `,"y":{"z":[1]}`, Tail: `}`}} {
		doubling.Linear(t, in, func(text string) int {
			d, err := parseJSONLine([]byte(text), 0, false, nil)
			if err != nil {
				t.Fatal(err)
			}
			return len(d.Meta.Texts("y.z")) + len(d.Meta.Texts("x"))
		})
	}
}
