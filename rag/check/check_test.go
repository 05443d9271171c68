package check_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/internal/test/doubling"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/rag/check"
	"github.com/sluice-rag/sluice/rag/entities"
	"github.com/sluice-rag/sluice/rag/postings"
)

// words weighs the words of texts by how many of some documents have them.
func words(t testing.TB, documents []postings.Document) func(string) ([]check.Word, error) {
	t.Helper()
	read := func(_ context.Context, from, to int) ([]postings.Document, error) { return documents[from:to], nil }
	x, err := postings.New().With(t.Context(), len(documents), read, func(int) bool { return false }, nil)
	if err != nil {
		t.Fatal(err)
	}
	return func(text string) (list []check.Word, err error) {
		q, err := x.Query(text, postings.Scoring{Kind: postings.Cover})
		if err != nil {
			return nil, err
		}
		for _, term := range q.Terms() {
			list = append(list, check.Word{Term: term.Text, Weight: term.IDF})
		}
		return list, nil
	}
}

// options fit passages that make up the whole base.
func options(t testing.TB, language string, passages []string) check.Options {
	t.Helper()
	documents := []postings.Document{{Text: "Something else is written here.", Language: language}}
	for _, p := range passages {
		documents = append(documents, postings.Document{Text: p, Language: language})
	}
	return check.Options{Words: words(t, documents), Entities: entities.New(nil).Find, Language: language}
}

var english = []string{
	"The tower of Alden was begun on 14 March 1897. It was opened in 1902 by King Charles III and cost 1.5 million " +
		"crowns. Twelve masons from the Netherlands worked on it under John A. Smith, an engineer of the United Nations. " +
		"They called it \"the needle of the north\".",
	"The bridge of Alden was begun in 1911 by Adam Brown. About 56.2 percent of the visitors walk across the river, " +
		"which is 300 km long and 1,250 metres wide. In the nineteenth century there was a ferry; from 1914–18 it was shut.",
	"Marie Keller built the harbour. Later that year, she moved to Norway with her two sisters.",
}

var germanTexts = []string{
	"Der Turm von Alden wurde am 14. März 1897 begonnen. Er wurde 1902 eröffnet und kostete 1.500.000 Kronen. Zwölf " +
		"Maurer aus den Niederlanden arbeiteten unter Angela Berger daran.",
	"Die Brücke von Alden wurde 1911 begonnen. Etwa 56,2 Prozent der Besucher gehen über den Fluss, der " +
		"fünfundzwanzig Kilometer lang ist.",
}

// TestFactsMustStandThere has answers of one sentence each, with what is missing of them.
func TestFactsMustStandThere(t *testing.T) {
	for _, c := range []struct {
		language, answer string
		missing          []string
	}{
		// dates, and parts of them
		{"en", "The tower of Alden was begun on March 14, 1897.", nil},
		{"en", "The tower of Alden was begun on 1897-03-14.", nil},
		{"en", "The tower of Alden was begun in March 1897.", nil},
		{"en", "The tower of Alden was begun in the 1890s.", nil},
		{"en", "The tower of Alden was begun in the 19th century.", nil},
		{"en", "The tower of Alden was begun on 15 March 1897.", []string{"15 March 1897"}},
		{"en", "The tower of Alden was begun in April 1897.", []string{"April 1897"}},
		{"en", "The tower of Alden was begun in the 1880s.", []string{"1880s"}},
		{"en", "There was a ferry in the 19th century, which was shut from 1914 to 1918.", nil},
		// a value that stands where something else is spoken of
		{"en", "The bridge of Alden was begun in 1897 by Adam Brown.", []string{"1897"}},
		{"en", "The bridge of Alden was begun by John Smith.", []string{"John Smith"}},
		{"en", "The tower of Alden was begun in 1911.", []string{"1911"}},
		// numbers and units
		{"en", "The tower cost 1,500,000 crowns.", nil},
		{"en", "The tower cost 1,5 million crowns.", nil},
		{"en", "The tower cost 1.6 million crowns.", []string{"1.6 million"}},
		{"en", "12 masons worked on it.", nil},
		{"en", "A dozen masons worked on it.", nil},
		{"en", "Thirteen masons worked on it.", []string{"Thirteen"}},
		{"en", "56.2 % of the visitors walk across the river.", nil},
		{"en", "56,2 per cent of the visitors walk across the river.", nil},
		{"en", "The river is 1 250 metres wide.", nil},
		{"en", "The river is 300 kilometres long.", nil},
		{"en", "The river is 300 miles long.", []string{"300 miles"}},
		{"en", "The river is 1.250 metres wide.", []string{"1.250 metres"}},
		// names
		{"en", "Dutch masons worked on it under Smith.", nil},
		{"en", "Masons worked on it under J. A. Smith.", nil},
		{"en", "German masons worked on it under John A. Smith.", []string{"German"}},
		{"en", "Masons worked on it under Robert Smith.", []string{"Robert"}},
		{"en", "John Smith was an engineer of the UN.", nil},
		{"en", "The tower of Alden was opened by King Charles II.", []string{"II"}},
		{"en", "The tower of Alden was opened by King Henry III.", []string{"Henry"}},
		// a name that the place takes up by a pronoun
		{"en", "The tower of Alden was opened in 1902.", nil},
		{"en", "Marie Keller moved to Norway with her 2 sisters.", nil},
		{"en", "Marie Keller moved to Sweden with her two sisters.", []string{"Sweden"}},
		{"en", "Adam Brown moved to Norway with her two sisters.", []string{"Adam Brown"}},
		// one of two values in the place of the other
		{"en", "The tower of Alden was opened in 1902 by King Alden III.", []string{"Alden"}},
		// quotations
		{"en", "The masons called it \"the needle of the north\".", nil},
		{"en", "The masons called it “the … north”.", nil},
		{"en", "The masons called it \"the thorn of the north\".", []string{"the thorn of the north"}},
		// two places
		{"en", "The bridge of Alden was begun in 1911 by Adam Brown, and Marie Keller built the harbour.", nil},

		{"de", "Der Turm von Alden wurde im März 1897 begonnen.", nil},
		{"de", "Der Turm von Alden wurde am 14.3.1897 begonnen.", nil},
		{"de", "Der Turm von Alden wurde 1911 begonnen.", []string{"1911"}},
		{"de", "Der Turm kostete 1,5 Millionen Kronen.", nil},
		{"de", "12 niederländische Maurer arbeiteten daran.", nil},
		{"de", "An der Brücke gehen 56,2 % der Besucher über den Fluss.", nil},
		{"de", "Der Fluss ist 25 km lang.", nil},
		{"de", "Der Fluss ist 52 km lang.", []string{"52 km"}},
		{"de", "Die Maurer arbeiteten unter Berger daran.", nil},
		{"de", "Die Maurer arbeiteten unter Angela Merz.", []string{"Merz"}},
	} {
		passages := map[string][]string{"en": english, "de": germanTexts}[c.language]
		found, err := check.Check(t.Context(), options(t, c.language, passages), c.answer, passages)
		if err != nil {
			t.Fatal(err)
		}
		if len(found) != 1 || !slices.Equal(found[0].Missing, c.missing) || found[0].Backed != (c.missing == nil) {
			t.Errorf("%s\n%+v, not %q missing", c.answer, found, c.missing)
		}
	}
}

// TestSentencesHaveTheirPlaces: offsets are byte offsets into the answer and the passages, and citations are not part
// of the sentences that are compared.
func TestSentencesHaveTheirPlaces(t *testing.T) {
	answer := "Yes. The river is 300 km long [2, 1897]. The tower cost 1.5 million crowns [1]."
	found, err := check.Check(t.Context(), options(t, "en", english), answer, english)
	if err != nil || len(found) != 3 {
		t.Fatalf("%+v, %v", found, err)
	}
	if found[0].Claim || !found[0].Backed || len(found[0].Places) != 0 {
		t.Errorf("%+v is a claim", found[0])
	}
	for i, want := range []string{"Yes.", "The river is 300 km long [2, 1897].",
		"The tower cost 1.5 million crowns [1]."} {
		if got := answer[found[i].Start:found[i].End]; got != want {
			t.Errorf("%q, not %q", got, want)
		}
	}
	p := found[1].Places[0]
	if got := english[p.Passage][p.Start:p.End]; !strings.HasPrefix(got, "About 56.2 percent") || !found[1].Backed {
		t.Errorf("%q backs %+v", got, found[1])
	}
}

func TestWhatSaysNothingIsNoClaim(t *testing.T) {
	for answer, claim := range map[string]bool{
		"Yes.": false, "Nein.": false, "I don't know.": false, "The passages do not mention when it was built.": false,
		"Ich weiß es nicht.": false, "Was it Smith?": false, "Here is the answer:": false, "…": false, "[1]": false,
		"Aus dem Text geht nicht hervor, wann der Turm gebaut wurde.": false, "There is not enough information.": false,
		"It is.": false, "Smith": true, "1902": true, "Twelve masons.": true,
		"According to passage 1, Smith did it.": true,
		"Smith did not finish the tower.":       true,
	} {
		found, err := check.Check(t.Context(), options(t, "en", english), answer, english)
		if err != nil {
			t.Fatal(err)
		}
		if got := slices.ContainsFunc(found, func(s check.Sentence) bool { return s.Claim }); got != claim {
			t.Errorf("%q: a claim %v, not %v: %+v", answer, got, claim, found)
		}
	}
}

// TestFewWordsAreReadWithTheQuestion: the value stands in the passages, and not where the question is answered.
func TestFewWordsAreReadWithTheQuestion(t *testing.T) {
	o := options(t, "en", english)
	o.Question = "When was the bridge of Alden begun?"
	for answer, want := range map[string]bool{"1911.": true, "In 1911": true, "1897.": false, "1950": false} {
		found, err := check.Check(t.Context(), o, answer, english)
		if err != nil || len(found) != 1 || found[0].Backed != want {
			t.Errorf("%q: %+v, %v", answer, found, err)
		}
	}
}

// TestAReaderBacksAFewWords: an answer of a few words is backed where a reader reads the same and prefers no other span
// by much, if the facts stand there.
func TestAReaderBacksAFewWords(t *testing.T) {
	o := options(t, "en", english)
	o.Question = "What did Marie Keller leave behind in Norway?"
	o.Scorer = check.Scorer{From: .5, Score: func(_ context.Context, premises, _ []string) ([]float64, error) {
		return make([]float64, len(premises)), nil
	}}
	at := func(passage int, text string, score float64) check.Found {
		start := strings.Index(english[passage], text)
		return check.Found{Place: check.Place{Passage: passage, Start: start, End: start + len(text)}, Score: score}
	}
	keller := check.Place{Passage: 2, Start: 0, End: len("Marie Keller built the harbour.")}
	for name, c := range map[string]struct {
		answer string
		found  []check.Found
		want   bool
	}{
		"no reader":       {"A ferry", nil, false},
		"the best":        {"The harbour.", []check.Found{at(2, "the harbour", 4), at(1, "a ferry", 3)}, true},
		"hardly behind":   {"A ferry", []check.Found{at(2, "the harbour", 4), at(1, "a ferry", 2.5)}, true},
		"far behind":      {"A ferry", []check.Found{at(2, "the harbour", 4), at(1, "a ferry", .5)}, false},
		"another fact":    {"Harbour, 1950", []check.Found{at(2, "the harbour", 4)}, false},
		"one word of six": {"A ferry", []check.Found{at(1, "visitors walk across the river, which is", 4)}, false},
	} {
		o.Found = c.found
		found, err := check.Check(t.Context(), o, c.answer, english)
		if err != nil || len(found) != 1 || found[0].Backed != c.want {
			t.Errorf("%s: %+v, %v", name, found, err)
		}
		if name == "the best" && (len(found[0].Places) != 1 || found[0].Places[0] != keller) {
			t.Errorf("%+v", found[0].Places)
		}
	}
	for _, p := range []check.Place{{Passage: 3}, {Passage: -1}, {Start: -1}, {Start: 2, End: 1}, {End: 9999}} {
		o.Found = []check.Found{{Place: p}}
		if _, err := check.Check(t.Context(), o, "A ferry", english); !errors.Is(err, kernels.ErrShape) {
			t.Errorf("%+v: %v", p, err)
		}
	}
}

// TestTheScorerDecidesInDoubt: it is asked of sentences whose words are there in part, and of no others.
func TestTheScorerDecidesInDoubt(t *testing.T) {
	o, asked := options(t, "en", english), []string(nil)
	answer := "The river is 300 km long. She built the harbour for merchants. Bananas are yellow. It is 5 km long."
	for value, want := range map[float64]bool{.9: true, .1: false} {
		asked = nil
		o.Scorer.From = .5
		o.Scorer.Score = func(_ context.Context, premises, hypotheses []string) ([]float64, error) {
			if premises[0] != "Marie Keller built the harbour." {
				t.Errorf("%q", premises)
			}
			asked = append(asked, hypotheses...)
			return []float64{value}, nil
		}
		found, err := check.Check(t.Context(), o, answer, english)
		if err != nil || len(found) != 4 || !found[0].Backed || found[1].Backed != want || found[1].Score != value ||
			found[2].Backed || found[3].Backed || len(asked) != 1 {
			t.Errorf("%+v, %v, asked %q", found, err, asked)
		}
	}
	broken := errors.New("broken")
	o.Scorer.Score = func(context.Context, []string, []string) ([]float64, error) { return nil, broken }
	if _, err := check.Check(t.Context(), o, answer, english); !errors.Is(err, broken) {
		t.Errorf("%v", err)
	}
	o.Scorer.Score = func(context.Context, []string, []string) ([]float64, error) { return nil, nil }
	if _, err := check.Check(t.Context(), o, answer, english); err == nil {
		t.Error("no scores, and no error")
	}
}

func TestNoPassagesBackNothing(t *testing.T) {
	for _, passages := range [][]string{nil, {""}, {"\x00\xff…"}} {
		found, err := check.Check(t.Context(), options(t, "en", english), "The tower was begun in 1897. Yes.", passages)
		if err != nil || len(found) != 2 || found[0].Backed || !found[1].Backed {
			t.Errorf("%q: %+v, %v", passages, found, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := check.Check(ctx, options(t, "en", english), english[0], english); !errors.Is(err, context.Canceled) {
		t.Errorf("%v of a context that has ended", err)
	}
}

// TestRowsAndLinesAreSentences: rows of a table and lines of code are judged alone.
func TestRowsAndLinesAreSentences(t *testing.T) {
	answer := "# The tower\n\n| begun | 1897 |\n|---|---|\n| opened | 1950 |\n\n```\ncost = 1500000\nmasons = 13\n```\n"
	found, err := check.Check(t.Context(), options(t, "en", english), answer, english)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range found {
		if !s.Backed {
			got = append(got, strings.TrimSpace(s.Text))
		}
	}
	if want := []string{"| opened | 1950 |", "masons = 13"}; !slices.Equal(got, want) {
		t.Errorf("not backed: %q, not %q", got, want)
	}
}

// hostile are inputs that are hard to read.
var hostile = []doubling.Input{
	doubling.Repeat("The tower cost 12 crowns in 1897. "), doubling.Repeat("tower "), doubling.Repeat("12 "),
	doubling.Repeat("7"), doubling.Repeat("John Smith "), doubling.Repeat("Xy Ab "), doubling.Repeat("\"the needle\" "),
	doubling.Repeat("\""), doubling.Repeat("“"), doubling.Repeat("one hundred and "), doubling.Repeat("1.111,111 "),
	doubling.Repeat("| a | 1 |\n"), doubling.Repeat("```\n"), doubling.Repeat("[1] "), doubling.Repeat("[1"),
	doubling.Repeat("\x00\xff"), doubling.Repeat("14 March 1897, "), doubling.Repeat("U.S."), doubling.Repeat("O'"),
	doubling.Repeat("II "), doubling.Repeat("not "), doubling.Repeat("einundzwanzig"), doubling.Repeat("1914–18–"),
	{Unit: "Alden was begun in 1897 by ", Second: "She moved to Norway. "},
}

// TestWorkIsLinear: answers and passages of hostile texts are compared in steps that grow with their length.
func TestWorkIsLinear(t *testing.T) {
	o := options(t, "en", english)
	o.Entities = noEntities // theirs is another package's work
	for _, in := range hostile {
		doubling.Linear(t, in, func(text string) int { return check.Steps(t, o, text, english) })
		doubling.Linear(t, in, func(text string) int { return check.Steps(t, o, english[0], []string{text}) })
	}
	doubling.Linear(t, hostile[0], func(text string) int { return check.Steps(t, o, text, []string{text, english[2]}) })
}

func noEntities(_ context.Context, texts, _ []string) ([][]entities.Entity, int, error) {
	return make([][]entities.Entity, len(texts)), 0, nil
}

// TestLongAnswers: a megabyte, a sentence of 5,000 words, 10,000 numbers.
func TestLongAnswers(t *testing.T) {
	o := options(t, "en", english)
	o.Entities = noEntities
	for _, answer := range []string{strings.Repeat("The tower of Alden was begun in 1897. ", 1<<20/38),
		strings.Repeat("tower of Alden ", 5000/3), strings.Repeat("12, ", 10_000)} {
		found, err := check.Check(t.Context(), o, answer, english)
		if err != nil || len(found) == 0 {
			t.Errorf("%d sentences, %v", len(found), err)
		}
		for _, s := range found {
			if strings.TrimSpace(answer[s.Start:s.End]) != s.Text {
				t.Fatalf("%q is not what stands in its place", s.Text)
			}
		}
	}
}

func FuzzCheck(f *testing.F) {
	for _, in := range hostile {
		f.Add(in.Text(200), english[0])
		f.Add(english[1], in.Text(200))
	}
	o := options(f, "de", english)
	f.Fuzz(func(t *testing.T, answer, passage string) {
		found, err := check.Check(t.Context(), o, answer, []string{passage, english[0]})
		if err != nil {
			t.Fatal(err)
		}
		at := 0
		for _, s := range found {
			if s.Start < at || s.End < s.Start || s.End > len(answer) {
				t.Fatalf("%+v behind %d", s, at)
			}
			at = s.End
			if s.Cover < 0 || s.Cover > 1.000001 || len(s.Missing) > 0 && s.Backed {
				t.Fatalf("%+v", s)
			}
			for _, p := range s.Places {
				if p.Passage > 1 || p.Start < 0 || p.End > len([]string{passage, english[0]}[p.Passage]) {
					t.Fatalf("%+v", p)
				}
			}
		}
	})
}
