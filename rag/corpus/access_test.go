package corpus

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestAccessIsNeverLost: what cannot be read of a document's groups lets in nobody, whatever else is wrong with the
// file, and a document without the key is for everybody.
func TestAccessIsNeverLost(t *testing.T) {
	nobody, many := []any{}, strings.Repeat(`"g",`, 100)+`"g"`
	for content, want := range map[string]any{
		`{"text":"a"}`:                                                   nil,
		`{"text":"a","access":"hr"}`:                                     []any{"hr"},
		`{"text":"a","access":[" hr ","board"]}`:                         []any{"hr", "board"},
		`{"text":"a","access":""}`:                                       nobody,
		`{"text":"a","access":null}`:                                     nobody,
		`{"text":"a","access":7}`:                                        nobody,
		`{"text":"a","access":["hr",7]}`:                                 nobody,
		`{"text":"a","access":["hr",""]}`:                                nobody,
		`{"text":"a","access":{"hr":true}}`:                              nobody,
		`{"text":"a","access":[[["hr"]]]}`:                               nobody,
		`{"text":"a","access":[` + many + `]}`:                           nobody,
		`{"text":"a","acc\u0065ss":"hr"}`:                                []any{"hr"},
		`{"text":"a","by":{"access":"hr"}}`:                              nil,
		"---\naccess: hr\n---\nwords":                                    []any{"hr"},
		"---\naccess: [hr, board]\n---\nwords":                           []any{"hr", "board"},
		"---\naccess:\n- hr\n---\nwords":                                 []any{"hr"},
		"---\naccess:\n---\nwords":                                       nobody,
		"---\naccess: {hr: yes}\n---\nwords":                             nobody,
		"---\naccess: hr\na: b: c\n---\nwords":                           nobody,
		"---\naccess: hr\naccess: b\n---\nwords":                         nobody,
		"---\r\n'access' : [hr\r\n---\r\nwords":                          nobody,
		"---\na: b\n---\nwords\naccess: nothing":                         nil,
		"---\naccess: hr\n---\n" + strings.Repeat("> ", 20000) + "words": []any{"hr"},
	} {
		name := "a.jsonl"
		if strings.HasPrefix(content, "---") {
			name = "a.md"
		}
		docs, skips := load(t, LoadOptions{}, write(t, t.TempDir(), name, content))
		if len(docs) != 1 {
			t.Fatalf("%.80q: %v", content, skips)
		}
		if got, there := docs[0].Meta[AccessKey]; !cmp.Equal(got, want) || there != (want != nil) {
			t.Errorf("%.80q: access %v, want %v", content, got, want)
		}
	}
}
