package dataset_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-rag/sluice/eval/dataset"
)

func folder(t testing.TB, contexts, queries string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{dataset.ContextsFile: contexts, dataset.QueriesFile: queries} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestOpenCounts: what cannot be used is left out, counted and named.
func TestOpenCounts(t *testing.T) {
	s, err := dataset.Open(folder(t, `{"id":"a","text":"one"}
{"id":"a","text":"twice"}
{"id":"b"}
not JSON

{"id":"c","topic":"t","text":"two"}`, `{"id":"1","context_id":"a","text":"q","answers":["x"]}
{"id":"1","context_id":"a","text":"again"}
{"id":"2","context_id":"gone","text":"q"}
{"id":"3","context_id":"c","text":"no answer"}
{"id":"4","context_id":"c","text":"cannot","answerable":false}
{"id":"5","text":"out of scope"}
{"text":"no id"}`))
	if err != nil {
		t.Fatal(err)
	}
	f := s.Faults
	if len(s.Contexts) != 2 || len(s.Queries) != 4 || f.BadLines != 3 || f.DuplicateContext != 1 ||
		f.DuplicateQuery != 1 || f.UnknownContext != 1 || f.NoTruth != 1 || f.Total() != 6 {
		t.Errorf("%+v", s)
	}
	for _, says := range []string{"contexts.jsonl:2", `queries.jsonl:3: context "gone"`, "3 bad lines"} {
		if !strings.Contains(f.String(), says) {
			t.Errorf("%q does not say %q", f, says)
		}
	}
	if !s.Queries[0].CanAnswer() || s.Queries[2].CanAnswer() || s.Queries[3].CanAnswer() {
		t.Error("answerable ones are not told apart")
	}
	if _, err := dataset.Open(folder(t, "{}", "")); !errors.Is(err, dataset.ErrData) {
		t.Errorf("without a context: %v", err)
	}
	if _, err := dataset.Open(t.TempDir()); !errors.Is(err, dataset.ErrData) || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("an empty folder: %v", err)
	}
}

const squad2 = `{"version":"v2.0","data":[{"title":"Normans","paragraphs":[{"context":"In France.","qas":[
{"id":"1","question":"Where?","is_impossible":false,"answers":[{"text":"France","answer_start":3},{"text":"France","answer_start":3}]},
{"id":"2","question":"Why?","is_impossible":true,"answers":[],"plausible_answers":[{"text":"In","answer_start":0}]},
{"id":"1","question":"Twice?","answers":[{"text":"x","answer_start":0}]}]},{"context":" ","qas":[]}]}]}`

func TestImport(t *testing.T) {
	yes, no := true, false
	for name, c := range map[string]struct {
		format, text string
		want         dataset.Set
	}{
		"SQuAD 2": {"squad", squad2, dataset.Set{
			Contexts: []dataset.Context{{ID: "Normans-000", Topic: "Normans", Text: "In France."}},
			Queries: []dataset.Query{
				{ID: "1", ContextID: "Normans-000", Topic: "Normans", Text: "Where?", Answerable: &yes,
					Answers: []string{"France"}},
				{ID: "2", ContextID: "Normans-000", Topic: "Normans", Text: "Why?", Answerable: &no}},
			Faults: dataset.Faults{BadLines: 1, DuplicateQuery: 1,
				Examples: []string{`question "1"`, `context "Normans-001" is empty`}}}},
		"CRSB": {"crsb", `{"id":"c1","topic":"sea","context":"Herring.","pseudo_queries":["Who?","What?"]}` + "\n" +
			`{"text":"No id."}` + "\n{}\n",
			dataset.Set{
				Contexts: []dataset.Context{{ID: "c1", Topic: "sea", Text: "Herring."},
					{ID: "crsb-00001", Text: "No id."}},
				Queries: []dataset.Query{{ID: "c1-q1", ContextID: "c1", Topic: "sea", Text: "Who?"},
					{ID: "c1-q2", ContextID: "c1", Topic: "sea", Text: "What?"}},
				Faults: dataset.Faults{BadLines: 1, NoTruth: 2,
					Examples: []string{`question "c1-q1"`, `question "c1-q2"`,
						`entry 3: context "crsb-00002" is empty`}}}},
		"SciBench": {"scibench", `[{"problem_text":" How far?","answer_number":"3.5","unit":"m","source":"fund",` +
			`"problemid":" Q1.2 "}]`,
			dataset.Set{Queries: []dataset.Query{{ID: "fund-Q1.2", Topic: "physics", Text: "How far?",
				Answers: []string{"3.5 m"}}}}},
		"SciBench's lines": {"scibench", `{"id":"a","text":"How?","subject":"physics","answer":"7"}`,
			dataset.Set{Queries: []dataset.Query{{ID: "a", Topic: "physics", Text: "How?", Answers: []string{"7"}}}}},
	} {
		got, err := dataset.Import(c.format, []byte(c.text))
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if diff := cmp.Diff(&c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	for _, c := range [][2]string{{"squad", "{"}, {"squad", "{}"}, {"crsb", ""}, {"scibench", "[1]"}, {"beir", "{}"}} {
		if _, err := dataset.Import(c[0], []byte(c[1])); !errors.Is(err, dataset.ErrData) {
			t.Errorf("%v: %v", c, err)
		}
	}
}

// FuzzImport: any file gives a set whose ids are unique and whose questions have their contexts, or ErrData; and what
// is written is read again.
func FuzzImport(f *testing.F) {
	f.Add(0, []byte(squad2))
	f.Add(1, []byte(`{"context":"x","queries":["y"]}`))
	f.Add(2, []byte(`[{"problem_text":"x","answer_number":7,"source":"quan"}]`))
	f.Fuzz(func(t *testing.T, format int, text []byte) {
		formats := dataset.Formats()
		s, err := dataset.Import(formats[((format%3)+3)%3], text)
		if err != nil {
			if !errors.Is(err, dataset.ErrData) {
				t.Fatal(err)
			}
			return
		}
		dir := t.TempDir()
		if err := s.Save(dir); err != nil {
			t.Fatal(err)
		}
		again, err := dataset.Open(dir)
		if err != nil && len(s.Contexts) > 0 {
			t.Fatal(err)
		}
		if err == nil && (again.Faults.Total() != 0 || len(again.Queries) != len(s.Queries) ||
			len(again.Contexts) != len(s.Contexts)) {
			t.Fatalf("written %d and %d, read %d and %d: %v", len(s.Contexts), len(s.Queries), len(again.Contexts),
				len(again.Queries), again.Faults)
		}
	})
}

// FuzzOpen: any files are read to a set without duplicates, or ErrData.
func FuzzOpen(f *testing.F) {
	f.Add([]byte(`{"id":"a","text":"x"}`), []byte(`{"id":"1","context_id":"a","text":"q","answers":["x"]}`))
	f.Fuzz(func(t *testing.T, contexts, queries []byte) {
		s, err := dataset.Open(folder(t, string(contexts), string(queries)))
		if err != nil {
			if !errors.Is(err, dataset.ErrData) {
				t.Fatal(err)
			}
			return
		}
		ids := map[string]bool{}
		for _, c := range s.Contexts {
			if ids[c.ID] || c.ID == "" {
				t.Fatalf("context %q", c.ID)
			}
			ids[c.ID] = true
		}
	})
}

// TestFollowUps: a name that two questions about a context have becomes a pronoun in the second; a change of topic
// keeps the question.
func TestFollowUps(t *testing.T) {
	no := false
	all := []dataset.Query{
		{ID: "1", ContextID: "a", Topic: "x", Text: "Where is Mount Etna?", Answers: []string{"in Sicily", "Italy"}},
		{ID: "2", ContextID: "a", Topic: "x", Text: "When did Mount Etna's crater collapse?"},
		{ID: "3", ContextID: "a", Topic: "x", Text: "Is Mount Etna high?", Answerable: &no},
		{ID: "4", ContextID: "a", Topic: "x", Text: "Mount Etna is how high?"}, // it would begin with "it"
		{ID: "5", ContextID: "b", Topic: "y", Text: "How old is Mount Etna?"}}
	got := dataset.FollowUps(all)
	if len(got) != 1 || got[0].Text != "When did its crater collapse?" || got[0].ID != "follow-up 2" ||
		!slices.Equal(got[0].History, []dataset.Turn{{User: "Where is Mount Etna?", Assistant: "in Sicily"}}) {
		t.Errorf("%+v", got)
	}
	changes := dataset.Changes(all[4:], all)
	if len(changes) != 1 || changes[0].Text != all[4].Text || changes[0].History[0].User != all[2].Text {
		t.Errorf("%+v", changes)
	}
	if got := dataset.Changes(all, nil); len(got) != 0 {
		t.Errorf("%+v", got)
	}
}
