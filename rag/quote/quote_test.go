package quote_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/rag/postings"
	"github.com/sluice-rag/sluice/rag/quote"
)

// bags embeds texts as counts of their letters: near texts have near vectors, and nothing has to be set up.
func bags(_ context.Context, texts []string) (engine.Vectors, error) {
	v := engine.Vectors{Rows: len(texts), Dim: 26, Data: make([]float32, 26*len(texts))}
	for i, text := range texts {
		for _, r := range strings.ToLower(text) {
			if r >= 'a' && r <= 'z' {
				v.Data[26*i+int(r-'a')]++
			}
		}
	}
	return v, nil
}

// choose quotes from passages that are all of the base.
func choose(t *testing.T, question string, sentences int, passages ...string) []quote.Quote {
	t.Helper()
	return chooseBelow(t, nil, question, sentences, passages...)
}

// chooseBelow quotes from passages below headings.
func chooseBelow(t *testing.T, headings []string, question string, sentences int, passages ...string) []quote.Quote {
	t.Helper()
	e, err := engine.New(engine.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	documents := make([]postings.Document, len(passages))
	for i, p := range passages {
		documents[i] = postings.Document{Text: p, Language: "en"}
	}
	read := func(_ context.Context, from, to int) ([]postings.Document, error) { return documents[from:to], nil }
	x, err := postings.New().With(t.Context(), len(passages), read, func(int) bool { return false }, nil)
	if err != nil {
		t.Fatal(err)
	}
	q, err := x.Query(question, postings.Scoring{Kind: postings.Cover, Content: true})
	if err != nil {
		t.Fatal(err)
	}
	vectors, _ := bags(t.Context(), []string{question})
	o := quote.Options{Engine: e, Embed: bags, Max: sentences, Question: question, Headings: headings}
	quotes, err := quote.Choose(t.Context(), o, vectors, q, passages)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range quotes {
		p := passages[c.Passage]
		if got := p[c.Start:c.End]; got != c.Text || !strings.Contains(p[:c.Start], c.Columns) {
			t.Errorf("%q is not what stands in its place, %q, or %q not before it", c.Text, got, c.Columns)
		}
		if n := len(strings.Fields(c.Text)); n > 60*c.Sentences {
			t.Errorf("%d words in %d sentences: %q", n, c.Sentences, c.Text)
		}
	}
	return quotes
}

// texts returns the texts of quotes.
func texts(quotes []quote.Quote) (list []string) {
	for _, q := range quotes {
		list = append(list, q.Text)
	}
	return list
}

const (
	tides  = "The sea is wide. The tides follow the moon's pull. They come twice a day. Sailors know them."
	rivers = "Rivers run to the sea. A river's mouth may be an estuary."
)

func TestTheSentenceWithTheWordsIsQuoted(t *testing.T) {
	got := choose(t, "What do the tides follow?", 1, rivers, tides)
	if want := []string{"The tides follow the moon's pull."}; !slices.Equal(texts(got), want) || got[0].Passage != 1 {
		t.Errorf("%+v, not %q of passage 1", got, want)
	}
}

// TestASentenceBringsWhatItLeansOn: "They" is nothing without the sentence before, where there is room for it.
func TestASentenceBringsWhatItLeansOn(t *testing.T) {
	got := choose(t, "How often a day do they come, twice?", 2, tides)
	want := "The tides follow the moon's pull. They come twice a day."
	if len(got) != 1 || got[0].Text != want || got[0].Sentences != 2 {
		t.Errorf("%+v, not %q", got, want)
	}
	if got := choose(t, "How often a day do they come, twice?", 1, tides); !slices.Equal(texts(got),
		[]string{"They come twice a day."}) {
		t.Errorf("%+v with room for one sentence", got)
	}
}

// TestNoSentenceIsQuotedTwice: with room for all, each comes once, better first, and what is far behind does not come.
func TestNoSentenceIsQuotedTwice(t *testing.T) {
	got := choose(t, "What do tides and rivers do to the sea?", 100, tides, rivers, "xyz")
	seen := map[string]bool{}
	for i, q := range got {
		if seen[q.Text] || q.Text == "xyz" {
			t.Errorf("%q comes twice, or says nothing of the question", q.Text)
		}
		seen[q.Text] = true
		if i > 0 && q.Score > got[i-1].Score {
			t.Errorf("%+v comes behind %+v", q, got[i-1])
		}
	}
	if len(got) < 3 {
		t.Errorf("%d quotes: %+v", len(got), got)
	}
}

// TestItemsAreQuotedAlone: an item of a list is a sentence of its own.
func TestItemsAreQuotedAlone(t *testing.T) {
	got := choose(t, "Which port is the deepest?", 1, "The ports:\n\n- Bergen: the oldest port\n- Narvik: the deepest port\n- Oslo: the widest port\n")
	if want := []string{"- Narvik: the deepest port"}; !slices.Equal(texts(got), want) {
		t.Errorf("%q, not %q", texts(got), want)
	}
}

func TestNothingToQuote(t *testing.T) {
	for _, passages := range [][]string{nil, {""}, {"…", " \n"}} {
		if got := choose(t, "What?", 2, passages...); len(got) != 0 {
			t.Errorf("%q: %+v", passages, got)
		}
	}
	if got := choose(t, "", 1, tides); len(got) != 1 {
		t.Errorf("a question without words: %+v", got)
	}
	if _, err := quote.Choose(t.Context(), quote.Options{}, engine.Vectors{}, nil, nil); err == nil {
		t.Error("no sentences at all were asked for, and that is no error")
	}
}

// TestRowsAreQuotedWithTheNamesOfTheirColumns, which stand apart from them.
func TestRowsAreQuotedWithTheNamesOfTheirColumns(t *testing.T) {
	got := choose(t, "How deep is the port of Narvik?", 1,
		"| port | deep |\n|---|---|\n| Bergen | 12 m |\n| Narvik | 20 m |\n| Oslo | 15 m |\n")
	if len(got) != 1 || got[0].String() != "| port | deep |\n|---|---|\n| Narvik | 20 m |" {
		t.Errorf("%+v", got)
	}
}

// TestRowOfATable: the row whose first cell is in the question is about it, whatever words other rows have.
func TestRowOfATable(t *testing.T) {
	for _, table := range []string{
		" | Series 1 | Series 2\nGroup 1 | 4.3 | 2\nGroup 2 | 2 | 4.4\nGroup 3 | 3.5 | 1.8\nGroup 4 | 2 | 2",
		"Group: Group 1 | Series 1: 4.3 | Series 2: 2\nGroup: Group 2 | Series 1: 2 | Series 2: 4.4\n" +
			"Group: Group 3 | Series 1: 3.5 | Series 2: 1.8\nGroup: Group 4 | Series 1: 2 | Series 2: 2",
		"| Group | Series 1 | Series 2 |\n|---|---|---|\n| Group 1 | 4.3 | 2 |\n| Group 2 | 2 | 4.4 |\n| Group 3 | 3.5 | 1.8 |\n",
	} {
		got := choose(t, "What is the value of Series 2 for group 3?", 2, table)
		if len(got) != 1 || !strings.Contains(got[0].Text, "1.8") {
			t.Errorf("%+v", got)
		}
	}
}

// TestOtherRowsOfATable: beside the row that has what the question names, rows without it say nothing about it; rows
// that have the same words of the question are all quoted.
func TestOtherRowsOfATable(t *testing.T) {
	for _, table := range []string{
		"| port | deep |\n|---|---|\n| Bergen | 12 m |\n| Narvik | 20 m |\n| Oslo | 15 m |\n",
		"port: Bergen | deep: 12 m\n\nport: Narvik | deep: 20 m\n\nport: Oslo | deep: 15 m\n",
	} {
		for question, want := range map[string]int{"How deep is the port of Narvik?": 1, "How deep is each port?": 3} {
			if got := choose(t, question, 3, table); len(got) != want {
				t.Errorf("%s: %+v", question, got)
			}
		}
	}
}

// TestQuestionsAreAnswered: a question that stands in a passage is no answer, but what follows it is.
func TestQuestionsAreAnswered(t *testing.T) {
	faq := "Can I cancel my subscription?\n\nAt any time. The rest is not paid back.\n\n" +
		"Q: Which browsers are supported?\nA: Firefox and Safari.\n\nWhere is your office?\n\nIn Narvik."
	for question, want := range map[string]string{
		"Can I cancel my subscription?": "At any time.",
		"Which browsers are supported?": "A: Firefox and Safari.",
		"Where is the office?":          "In Narvik.",
		"What is not paid back?":        "The rest is not paid back.",
	} {
		got := choose(t, question, 2, faq)
		if len(got) == 0 || got[0].Text != want || len(got) > 1 && strings.HasSuffix(got[1].Text, "?") {
			t.Errorf("%s: %+v", question, got)
		}
	}
	only := "Which is the oldest port? Which is the deepest?"
	if got := choose(t, "Which is the oldest port?", 2, only); len(got) == 0 {
		t.Error("nothing of a passage of questions")
	}
}

// TestListsAreQuotedWhole: what leads in to a list says nothing without it, and a step little without the others.
func TestListsAreQuotedWhole(t *testing.T) {
	steps := "1. Open the cover. It is heavy.\n2. Pull the lever.\n3. Take the toner out."
	codes := "- E01: no paper\n- E07: the fuser is hot"
	for _, x := range []struct{ question, passage, want string }{
		{"How do I replace the toner?", "To replace the toner:\n\n" + steps + "\n\nIt is done.",
			"To replace the toner:\n\n" + steps},
		{"How do I take the toner out?", "Be careful.\n\n" + steps + "\n\nIt is done.", steps},
		{"Wie zieht man den lever?", steps, steps},
		{"Which lever is pulled?", "Be careful.\n\n" + steps, "2. Pull the lever."},
		{"What does E07 mean?", "Codes:\n\n" + codes, "- E07: the fuser is hot"},
		{"Which codes are there?", "There are codes:\n\n" + codes + "\n\nNo others.", "There are codes:\n\n" + codes},
		{"How do I take the toner out?", strings.Repeat("1. Take "+strings.Repeat("it ", 30)+"out.\n", 9) + steps, ""},
	} {
		got := choose(t, x.question, 2, x.passage)
		alone := strings.Contains(x.question, "E07")
		if len(got) == 0 || alone && len(got) > 1 || x.want != "" && got[0].Text != x.want {
			t.Errorf("%s: %+v", x.question, got)
		}
	}
}

// TestOptionsAreQuotedWithTheirNames: what is said about an option comes with it, and what leads in to a sentence with
// that.
func TestOptionsAreQuotedWithTheirNames(t *testing.T) {
	option := "-P, --max-procs=N Run up to N at a time. If it is 0, as many as possible run in parallel."
	long := "-P, --max-procs=N " + strings.Repeat("word ", 200) + "is there. It runs many in parallel."
	for _, x := range []struct{ passage, want string }{
		{"Be careful.\n\n" + option + "\n\n-x Stops.", option},
		{"Be careful.\n\n-P\n--max-procs=N\n\nRun many in parallel.\n\n-x\n\nStops.",
			"-P\n--max-procs=N\n\nRun many in parallel."},
		{"-x and y is more than what names an option.\n\nRun many in parallel.", "Run many in parallel."},
		{"- `--max-procs`: how many. Zero runs many in parallel.",
			"- `--max-procs`: how many. Zero runs many in parallel."},
		{"- Many at a time. Zero runs many in parallel.", "Zero runs many in parallel."},
		{long, "It runs many in parallel."},
		{"To run many in parallel, say:\n\nxargs minus P.\n\nMore.", "To run many in parallel, say:\n\nxargs minus P."},
	} {
		if got := choose(t, "How do I run many in parallel?", 2, x.passage); len(got) == 0 || got[0].Text != x.want {
			t.Errorf("%+v, want %q", got, x.want)
		}
	}
}

// TestHeadingsSayWhatPassagesAreAbout: their words count for each sentence below them.
func TestHeadingsSayWhatPassagesAreAbout(t *testing.T) {
	passages := []string{"The codes are there. Press the lever.", "E01: no paper in tray 1. E07: the fuser is hot."}
	headings := []string{"Manual › Toner", "Manual › Which errors exist"}
	got := chooseBelow(t, headings, "Which errors exist?", 1, passages...)
	if len(got) != 1 || got[0].Passage != 1 {
		t.Errorf("%+v", got)
	}
	if _, err := quote.Choose(t.Context(), quote.Options{Max: 1, Headings: []string{"one"}}, engine.Vectors{}, nil,
		passages); !errors.Is(err, kernels.ErrShape) {
		t.Errorf("one heading for two passages: %v", err)
	}
}

// TestPiecesBringWhatTheyNeed: a clause that was cut off brings the one before it, where there is room.
func TestPiecesBringWhatTheyNeed(t *testing.T) {
	long := strings.Repeat("word ", 39) + "keeper, which " + strings.Repeat("other ", 39) + "lighthouse."
	for sentences, words := range map[int]int{1: 41, 2: 81} {
		got := choose(t, "Which other lighthouse?", sentences, long)
		if len(got) != 1 || got[0].Sentences != sentences || len(strings.Fields(got[0].Text)) != words {
			t.Errorf("with room for %d: %+v", sentences, got)
		}
	}
}

// TestKinds: what a question asks for is told in English and German, and found in sentences.
func TestKinds(t *testing.T) {
	for _, x := range []struct {
		question, sentence string
		want               bool
	}{
		{"When did it open?", "It opened in 1968.", true},
		{"In what year did it open?", "It was the 1960s.", true},
		{"Wann war das?", "Im März.", true},
		{"In welchem Jahrhundert war das?", "Es war das 19. Jahrhundert.", true},
		{"When did it open?", "It has 300 rooms, 12345 doors and 3 pools.", false},
		{"How many rooms are there?", "It has 300 rooms.", true},
		{"Wie viele Zimmer gibt es?", "Es hat 300 Zimmer.", true},
		{"How many rooms are there?", "It has rooms.", false},
		{"Who opened it?", "It opened in 1968 with 300 rooms.", false},
		{"how", "1", false},
		{"", "1", false},
	} {
		if got := quote.HasKind(x.question, x.sentence); got != x.want {
			t.Errorf("%q has what %q asks for: %v", x.sentence, x.question, got)
		}
	}
	got := choose(t, "When was the pool opened?", 1, "The pool was opened by the mayor. The pool was opened in 1968.")
	if want := []string{"The pool was opened in 1968."}; !slices.Equal(texts(got), want) {
		t.Errorf("%q", texts(got))
	}
}

// TestBadInput: choose checks that what is quoted stands in its place and is short.
func TestBadInput(t *testing.T) {
	const question = "Which port is the deepest?"
	for name, passage := range map[string]string{
		"a sentence of 5,000 words": strings.Repeat("the port is deep ", 1250),
		"no spaces":                 strings.Repeat("port", 5000),
		"a wide table":              "port | deep\n" + strings.Repeat("port | ", 5000),
		"a long table":              "port | deep\n" + strings.Repeat("Narvik | 20\n", 2000),
		"a long list":               "Which port is the deepest:\n" + strings.Repeat("1. Narvik\n", 20000),
		"questions":                 strings.Repeat("Which port is the deepest? ", 2000),
		"code":                      "```go\n" + strings.Repeat("port := deepest(ports)\n", 2000) + "```\n",
		"one line of code":          "```\n" + strings.Repeat("port=deepest(ports);", 2000) + "\n```",
		"NUL":                       strings.Repeat("port\x00 deep\x00. ", 300),
		"not UTF-8":                 strings.Repeat("port \xff\xfe deep. \xc3", 300),
	} {
		if got := choose(t, question, 2, passage, tides); len(got) == 0 {
			t.Errorf("%s: nothing is quoted", name)
		}
	}
	for name, question := range map[string]string{
		"100 kB":           strings.Repeat("Which port is the deepest of all? ", 3000),
		"one word":         strings.Repeat("x", 100_000),
		"another language": "Quel est le port le plus profond ?",
		"Japanese":         "一番深い港はどこですか。",
		"no answer":        "Who won the cup?",
		"NUL":              "Which\x00 port?",
		"not UTF-8":        "Which \xff port?",
	} {
		if got := choose(t, question, 2, rivers, tides); len(got) == 0 {
			t.Errorf("%s: nothing is quoted", name)
		}
	}
}
