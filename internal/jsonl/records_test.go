package jsonl

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRankings(t *testing.T) {
	text := `{"id":"a","query":"q","documents":["x",""],"more":1}` + "\n\n" +
		`{"id":"b","query":"q"}` + "\n" +
		`{"id":"c","query":" ","documents":[]}` + "\n" +
		`{"id":"d","query":"q","documents":"x"}` + "\n" +
		`{"id":"e","query":"q","documents":["x",null]}` + "\n" +
		`{"id":"f","query":"q","documents":[7]}` + "\n" +
		`{"query":"q","documents":[]}` + "\n" +
		`[]` + "\n" +
		"{\"id\":\"\xff\",\"query\":\"q\",\"documents\":[]}\n" +
		`{"id":"g","query":"q","documents":[]}`
	var good []Ranking
	bad := map[int]string{}
	for v, err := range Rankings(strings.NewReader(text), "f") {
		var line *LineError
		if errors.As(err, &line) {
			bad[line.Line] = line.Err.Error()
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		good = append(good, v)
	}
	want := []Ranking{{ID: "a", Query: "q", Documents: []string{"x", ""}},
		{ID: "g", Query: "q", Documents: []string{}}}
	if diff := cmp.Diff(want, good); diff != "" {
		t.Error(diff)
	}
	for line, says := range map[int]string{3: `"documents" are missing (id "b")`, 4: `"query" is empty (id "c")`,
		5: "a list of strings", 6: "document 1 is null", 7: "JSON number where a string", 8: `"id" is missing`,
		9: "JSON array where an object", 10: "UTF-8"} {
		if !strings.Contains(bad[line], says) {
			t.Errorf("line %d: %q does not say %q", line, bad[line], says)
		}
	}
	if len(bad) != 8 {
		t.Errorf("%v", bad)
	}
}

func FuzzRankings(f *testing.F) {
	f.Add(`{"id":"a","query":"q","documents":["x"]}`)
	f.Add(`{"id":"a","query":"q","documents":[null,{}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		for v, err := range Rankings(strings.NewReader(text), "fuzz") {
			if err != nil {
				if !errors.Is(err, ErrLine) {
					t.Fatal(err)
				}
				continue
			}
			if v.ID == "" || strings.TrimSpace(v.Query) == "" || v.Documents == nil {
				t.Fatalf("%#v", v)
			}
		}
	})
}
