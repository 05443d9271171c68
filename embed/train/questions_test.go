package train

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestQuestions: SQuAD's form and lines give the same questions. Starts count characters, not bytes.
func TestQuestions(t *testing.T) {
	const context = "Ωμέγα 🚪 gate: opened in 1999"
	want := []Question{
		{Text: "when?", Context: context, Answers: []Answer{{"1999", strings.Index(context, "1999")}}},
		{Text: "what?", Context: context, Answers: []Answer{{"gate", 16}, {"🚪 gate", 11}}},
		{Text: "who?", Context: context},
	}
	squad := `{"version": "v2.0", "data": [{"title": "x", "paragraphs": [{"context": "` + context + `", "qas": [
		{"id": "1", "question": "when?", "answers": [{"text": "1999", "answer_start": 24}]},
		{"id": "2", "question": "what?", "answers": [{"text": "gate", "answer_start": 8},
			{"text": "🚪 gate", "answer_start": 6}], "is_impossible": false},
		{"id": "3", "question": "who?", "answers": [], "is_impossible": true,
			"plausible_answers": [{"text": "opened", "answer_start": 14}]}]}]}]}`
	lines := ""
	for _, x := range [][2]string{{"when?", `{"text":"1999","start":24}`},
		{"what?", `{"text":"gate","start":8},{"text":"🚪 gate","start":6}`}, {"who?", ""}} {
		lines += fmt.Sprintf(`{"question":"%s","context":"%s","answers":[%s],"id":7}`+"\n\n", x[0], context, x[1])
	}
	for name, text := range map[string]string{"SQuAD": squad, "SQuAD with a mark": "\ufeff" + squad, "lines": lines} {
		got, err := ReadQuestions(strings.NewReader(text), "f")
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if diff := cmp.Diff(want, got.List); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if !strings.HasPrefix(got.Digest, "sha256:") {
			t.Errorf("%s: digest %q", name, got.Digest)
		}
	}
}

func TestBadQuestions(t *testing.T) {
	const good = `{"question":"q","context":"é a b","answers":[{"text":"a","start":2}]}` + "\n"
	squad := func(qa string) string {
		return "{\"data\": [\n{\"paragraphs\": [{\"context\": \"é a b\", \"qas\": [\n" + qa + "]}]}]}"
	}
	for name, c := range map[string]struct{ text, want string }{
		"nothing":     {"\n", "no questions in it"},
		"malformed":   {good + "{", "f:2: bad line"},
		"no question": {good + `{"context":"c","answers":[]}`, `f:2: bad line: "question" is missing`},
		"no context":  {`{"question":"q","context":" ","answers":[]}`, `f:1: bad line: "context" is empty`},
		"no answers":  {`{"question":"q","context":"c"}`, `"answers" is missing; it is an empty list where`},
		"no start":    {`{"question":"q","context":"c","answers":[{"text":"c"}]}`, `answers[0]: "start" is missing`},
		"no text":     {`{"question":"q","context":"c","answers":[{"start":0}]}`, `answers[0]: "text" is missing`},
		"elsewhere": {strings.Replace(good, `"start":2`, `"start":3`, 1),
			`answers[0]: the context has " " at character 3, where "a" is expected; the first one is at 2`},
		"nowhere": {strings.Replace(good, `"text":"a"`, `"text":"z"`, 1), "it is nowhere in the context"},
		"behind":  {strings.Replace(good, `"start":2`, `"start":5`, 1), `"start" is 5, the context has 5 characters`},
		"before":  {strings.Replace(good, `"start":2`, `"start":-1`, 1), `"start" is -1`},
		"UTF-8": {good + "{\"question\":\"\xff\",\"context\":\"c\",\"answers\":[]}",
			"f:2: bad line: not valid UTF-8"},
		"many": {strings.Repeat("{\n", 9), "… and 4 more"},
		"SQuAD, elsewhere": {squad(`{"id":"x7","question":"q","answers":[{"text":"b","answer_start":2}]}`),
			`f: data[0].paragraphs[0].qas[0] ("x7"): answers[0]: the context has "a" at character 2, where "b"`},
		"SQuAD, impossible": {squad(`{"question":"q","is_impossible":true,"answers":[{"text":"b","answer_start":4}]}`),
			`"is_impossible" is true, but it has "answers"`},
		"SQuAD, context": {`{"data":[{"paragraphs":[{"context":"","qas":[]}]}]}`,
			`f: data[0].paragraphs[0]: "context" is empty`},
		"SQuAD, UTF-8":     {squad("\"\xff\""), "f:3: not valid UTF-8"},
		"SQuAD, type":      {squad(`{"question":3}`), "f:3: json: cannot unmarshal number"},
		"SQuAD, malformed": {squad(`{"question":"q",}`), "f:3: invalid character"},
		"SQuAD, nothing":   {`{"data":[]}`, "no questions in it"},
		"SQuAD, many":      {squad(strings.Repeat(`{"question":""},`, 8) + `{"question":""}`), "… and 4 more"},
	} {
		_, err := ReadQuestions(strings.NewReader(c.text), "f")
		if !errors.Is(err, ErrData) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, %q expected", name, err, c.want)
		}
	}
}
