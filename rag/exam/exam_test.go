package exam_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/internal/testmodels/doubles"
	"github.com/sluice-rag/sluice/llm"
	"github.com/sluice-rag/sluice/rag/exam"
	"github.com/sluice-rag/sluice/rag/prompt"
)

// examine examines a double that answers by a function of the last message's text.
func examine(
	t *testing.T, say func(text string) string, change func(*exam.Options),
) (*exam.Card, *doubles.Model, error) {
	t.Helper()
	e, err := engine.New(engine.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	m := doubles.NewModel()
	m.Window = 4096
	m.Say = func(r llm.Request) string {
		if len(r.Messages) == 0 {
			return say(r.Prompt)
		}
		return say(r.Messages[len(r.Messages)-1].Content)
	}
	encoder := doubles.NewEncoder()
	encoder.Limit = 256
	o := exam.Options{Model: m, Digest: "d", Embedder: encoder, Engine: e, Sets: sets(t)[:1]}
	if change != nil {
		change(&o)
	}
	card, err := exam.Run(t.Context(), o)
	return card, m, err
}

func sets(t *testing.T) []exam.Set {
	t.Helper()
	all, err := exam.Sets()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestSetsAreLargeEnough: each language has what the examination needs.
func TestSetsAreLargeEnough(t *testing.T) {
	for _, s := range sets(t) {
		unanswered, foreign := 0, 0
		seen := map[string]bool{}
		for _, p := range s.Passages {
			if p.Unanswered != "" {
				unanswered++
			}
			if p.Foreign != "" {
				foreign++
			}
			if seen[p.Topic] || seen[p.Question] {
				t.Errorf("%s: %q is there twice", s.Language, p.Topic)
			}
			seen[p.Topic], seen[p.Question] = true, true
		}
		if len(s.Passages) < 60 || unanswered < 40 || foreign < 12 || len(s.Own) < 50 {
			t.Errorf("%s: %d passages, %d questions without an answer, %d in another language, %d without passages",
				s.Language, len(s.Passages), unanswered, foreign, len(s.Own))
		}
	}
}

// wise answers as a perfect model does, by looking the questions up.
func wise(s exam.Set) func(text string) string {
	return func(text string) string {
		for _, p := range s.Passages {
			asked := strings.Contains(text, "Question: "+p.Question)
			number := number(text, p.Text)
			switch {
			case strings.HasPrefix(text, "Short questions"):
				if strings.Contains(text, p.Text) { // the prompt ends with a question's first word
					_, rest, _ := strings.Cut(p.Question, " ")
					return " " + rest
				}
			case strings.Contains(text, "Are the passages relevant") && asked:
				return verdict("relevant", strings.Contains(text, p.Text))
			case strings.Contains(text, "Do the passages back") && strings.Contains(text, p.Answer):
				return `{"grounded":"yes"}`
			case strings.Contains(text, "Do the passages back") && strings.Contains(text, p.Wrong):
				return `{"grounded":"no"}`
			case strings.Contains(text, "Does the answer resolve") && asked:
				return verdict("resolves", strings.Contains(text, p.Answer))
			case strings.Contains(text, "Where is the answer") && asked:
				return `{"source":"vectorstore"}`
			case strings.Contains(text, "JSON object") && asked:
				return fmt.Sprintf(`{"answer": %q, "quote": "…"}`, p.Accepted[0])
			case asked:
				return fmt.Sprintf("%s [%d]", p.Answer, number)
			case p.Unanswered != "" && strings.Contains(text, "Question: "+p.Unanswered):
				return "The passages do not contain the answer."
			case p.Foreign != "" && strings.Contains(text, "Question: "+p.Foreign):
				return "Das steht so in dem ersten der Texte, und die Antwort ist " + p.Accepted[0] + "."
			}
		}
		return `{"source":"own_knowledge"}`
	}
}

// number of the passage in a prompt.
func number(text, passage string) (n int) {
	before, _, _ := strings.Cut(text, passage[:20])
	if i := strings.LastIndex(before, "["); i >= 0 {
		_, _ = fmt.Sscanf(before[i:], "[%d]", &n)
	}
	return n
}

func verdict(key string, yes bool) string {
	return fmt.Sprintf("{%q:%q}", key, map[bool]string{true: "yes", false: "no"}[yes])
}

// TestAPerfectModelIsTrusted: all of its answers and verdicts count, and a second examination says the same.
func TestAPerfectModelIsTrusted(t *testing.T) {
	s := sets(t)[0]
	card, m, err := examine(t, wise(s), nil)
	if err != nil {
		t.Fatal(err)
	}
	r := card.Sets["en"]
	all := exam.Share{N: len(s.Passages), Of: len(s.Passages)}
	if r.Write != all || r.Cited != all || r.Refused.N != r.Refused.Of || r.Refused.Of < 40 || r.JSON.N != r.JSON.Of ||
		r.Foreign.N != r.Foreign.Of || !card.Writes("en") || !card.Writes("de") ||
		!card.Asks("en") || r.Questions.Kept.N < 24 {
		t.Errorf("%+v", r)
	}
	for _, g := range prompt.Graders() {
		if v := r.Verdicts[g]; !card.Grades(g, "en") || v.Balanced != 1 || v.Yes.Of != 16 || v.No.Of != 16 ||
			v.Flipped.N > 0 {
			t.Errorf("%s: %+v", g, v)
		}
	}
	for _, q := range m.Requests() {
		if q.Priority != llm.Batch || q.MaxTokens == 0 || q.Temperature > 0 && len(q.Messages) > 0 {
			t.Fatalf("%+v", q)
		}
	}
	again, _, err := examine(t, wise(s), nil)
	if err != nil || !reflect.DeepEqual(card, again) {
		t.Errorf("%v: %+v, and then %+v", err, card, again)
	}
}

// TestUselessModelsAreNot: models that always say the same, garbage or nothing; and they are soon done.
func TestUselessModelsAreNot(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for name, say := range map[string]func(string) string{
		"yes": func(string) string {
			return `{"relevant":"yes","grounded":"yes","resolves":"yes","source":"vectorstore"}`
		},
		"nothing": func(string) string { return "" },
		"garbage": func(string) string { return "\x00\xff{{{[1][1][1" },
		"chance": func(text string) string {
			said := map[bool]string{true: "yes", false: "no"}[random.IntN(2) == 0]
			source := map[bool]string{true: "vectorstore", false: "own_knowledge"}[random.IntN(2) == 0]
			return fmt.Sprintf(`{"relevant":%q,"grounded":%[1]q,"resolves":%[1]q,"source":%q}`, said, source)
		},
	} {
		card, m, err := examine(t, say, nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if card.Writes("en") || card.Asks("en") || card.Calls != len(m.Requests()) || card.Sets["en"].Write.Of > 25 {
			t.Errorf("%s: %+v", name, card)
		}
		for _, g := range prompt.Graders() {
			if v := card.Sets["en"].Verdicts[g]; v.Passes() || name != "chance" && v.Yes.Of > 20 {
				t.Errorf("%s: %s: %+v", name, g, v)
			}
		}
	}
}

// TestModelsThatFail: after a few failures in a row the examination ends with an error that says why.
func TestModelsThatFail(t *testing.T) {
	broken := errors.New("out of order")
	_, m, err := examine(t, func(string) string { return "" }, func(o *exam.Options) {
		o.Model.(*doubles.Model).Wait = func(context.Context) error { return broken }
	})
	if !errors.Is(err, exam.ErrModel) || !errors.Is(err, broken) || len(m.Requests()) > 5 {
		t.Errorf("%d requests, %v", len(m.Requests()), err)
	}
	n := 0
	card, _, err := examine(t, wise(sets(t)[0]), func(o *exam.Options) {
		o.Model.(*doubles.Model).Wait = func(context.Context) error {
			if n++; n%4 == 0 {
				return broken
			}
			return nil
		}
	})
	if err != nil || card.Sets["en"].Write.N >= card.Sets["en"].Write.Of {
		t.Errorf("%v, %+v", err, card)
	}
	var long *exam.LongError
	card, m, err = examine(t, func(string) string { return "" }, func(o *exam.Options) {
		o.Within = time.Nanosecond
	})
	if !errors.As(err, &long) || card == nil || card.Examined() || card.Seconds != int(long.Estimate.Seconds()) ||
		long.Estimate <= long.Within || len(m.Requests()) != 1 {
		t.Errorf("%d requests, %v", len(m.Requests()), err)
	}
}

// TestAnInterruptedExaminationGoesOn: an examination that ends early, twice and in the middle of a line, is not asked
// again what it was answered, and comes to the same card.
func TestAnInterruptedExaminationGoesOn(t *testing.T) {
	say := wise(sets(t)[0])
	want, whole, err := examine(t, say, nil)
	if err != nil {
		t.Fatal(err)
	}
	file, asked := filepath.Join(t.TempDir(), "answers"), 0
	for range 2 {
		calls := 0
		_, m, err := examine(t, say, func(o *exam.Options) {
			o.Answers = file
			o.Model.(*doubles.Model).Wait = func(context.Context) error {
				if calls++; calls > 90 {
					return context.DeadlineExceeded
				}
				return nil
			}
		})
		if !errors.Is(err, exam.ErrModel) {
			t.Fatal(err)
		}
		asked += len(m.Requests()) - 3
		text, err := os.ReadFile(file)
		if err == nil {
			err = os.WriteFile(file, text[:len(text)-5], 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		asked--
	}
	card, m, err := examine(t, say, func(o *exam.Options) { o.Answers = file })
	if err != nil || !reflect.DeepEqual(card, want) {
		t.Errorf("%v: %+v instead of %+v", err, card, want)
	}
	if asked += len(m.Requests()); asked != len(whole.Requests()) {
		t.Errorf("%d questions instead of %d", asked, len(whole.Requests()))
	}
}

// TestCards: a card that was edited, that belongs to another model or version, or that does not parse is rejected.
func TestCards(t *testing.T) {
	card, _, err := examine(t, func(string) string { return "" }, nil)
	if err != nil {
		t.Fatal(err)
	}
	text, err := card.Text()
	if err != nil {
		t.Fatal(err)
	}
	if same, err := exam.ParseCard(text, "d"); err != nil || same.Sets["en"].Write != card.Sets["en"].Write {
		t.Errorf("%v, %+v", err, same)
	}
	for name, c := range map[string]struct {
		text   string
		digest string
	}{
		"edited":   {strings.Replace(string(text), `"n": 0`, `"n": 9`, 1), "d"},
		"another":  {string(text), "e"},
		"no JSON":  {"\x00", "d"},
		"nothing":  {"", "d"},
		"unknown":  {`{"colour": "red"}`, "d"},
		"sum only": {`{"sum": ""}`, "d"},
	} {
		if _, err := exam.ParseCard([]byte(c.text), c.digest); !errors.Is(err, exam.ErrCard) {
			t.Errorf("%s: %v", name, err)
		}
	}
	card.Exam = "0123456789abcdef"
	if text, err = card.Text(); err != nil {
		t.Fatal(err)
	}
	if _, err := exam.ParseCard(text, "d"); !errors.Is(err, exam.ErrCard) || !strings.Contains(err.Error(), card.Exam) {
		t.Errorf("another version: %v", err)
	}
	var none *exam.Card
	if none.Writes("en") || none.Grades(prompt.Router, "en") || none.Asks("en") || none.Summary() == "" {
		t.Error("a model without a card is trusted")
	}
}

// TestChanceSeldomPasses: of 10,000 models that choose at random, each verdict of fewer than 1 % counts, with the early
// ends of an examination.
func TestChanceSeldomPasses(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	passed := 0
	const models = 10000
	for range models {
		var v exam.Verdict
		for decided := false; !decided && v.Yes.Of < 50; {
			for range min(8, 50-v.Yes.Of) { // as many items are asked between two looks
				for _, s := range []*exam.Share{&v.Yes, &v.No} {
					if s.Of++; random.IntN(2) == 0 {
						s.N++
					}
				}
			}
			decided = v.Judge() && v.Yes.Of > 15
		}
		if v.Passes() {
			passed++
		}
	}
	t.Logf("%d of %d", passed, models)
	if passed > models/100 {
		t.Errorf("%d of %d models pass by chance", passed, models)
	}
}

// TestBadSets: what is wrong with a set is said.
func TestBadSets(t *testing.T) {
	item := func(change func(map[string]any)) string {
		var list []map[string]any
		for i := range 5 {
			p := map[string]any{"topic": fmt.Sprint("T", i), "text": "It is 12.", "question": "What is it?",
				"accepted": []string{"12"}, "answer": "It is 12.", "wrong": "It is 13."}
			if i == 4 {
				change(p)
			}
			list = append(list, p)
		}
		text, err := json.Marshal(map[string]any{"language": "en", "passages": list, "own": []string{"Hello."}})
		if err != nil {
			t.Fatal(err)
		}
		return string(text) // JSON is YAML
	}
	if _, err := exam.ParseSet([]byte(item(func(map[string]any) {}))); err != nil {
		t.Error(err)
	}
	for name, text := range map[string]string{
		"empty": "", "no YAML": "\t\x00", "unknown key": "colour: red",
		"too few":                "language: en\npassages: []\nown: [a]",
		"answer not in the text": item(func(p map[string]any) { p["accepted"] = []string{"14"} }),
		"wrong answer is right":  item(func(p map[string]any) { p["wrong"] = "Oh, 12!" }),
		"answer is not right":    item(func(p map[string]any) { p["answer"] = "It is 112." }),
		"no question":            item(func(p map[string]any) { p["question"] = "" }),
	} {
		if _, err := exam.ParseSet([]byte(text)); !errors.Is(err, exam.ErrSet) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
