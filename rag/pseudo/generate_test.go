package pseudo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/llm"
	"github.com/sluice-rag/sluice/rag/corpus"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func total(r Report) (n int) {
	for _, k := range r.Rejected {
		n += k
	}
	return n + r.Kept
}

func TestGenerate(t *testing.T) {
	c, model, emb := base(t), good(plenty), &bag{}
	var progress []int
	got, report, err := Generate(t.Context(), model, emb, newEngine(t), c,
		Options{RankLimit: 1, Progress: func(done, total int) { progress = append(progress, done*100+total) }})
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 36 || report.Kept != 36 || report.Generated != 36 || report.Contexts != 12 || report.Calls != 36 ||
		model.calls != 36 || report.Barren != 0 || total(report) != 36 {
		t.Errorf("%d kept, %+v, %d calls", len(got), report, model.calls)
	}
	for i, q := range got {
		if want := c.Chunks[i/3].ID; q.ContextID != want || q.ID != fmt.Sprintf("%s-q%d", want, i%3+1) ||
			!strings.Contains(q.Text, subjects[i/3]) || !strings.HasSuffix(q.Text, "?") {
			t.Errorf("query %d: %+v", i, q)
		}
	}
	if !reflect.DeepEqual(emb.batches, []int{36}) {
		t.Errorf("questions were embedded in batches of %v", emb.batches)
	}
	if len(progress) != 12 || progress[0] != 112 || progress[11] != 1212 {
		t.Errorf("progress %v", progress)
	}
	again, _, err := Generate(t.Context(), good(plenty), &bag{}, newEngine(t), c, Options{RankLimit: 1, Parallel: 4})
	if err != nil || !reflect.DeepEqual(again, got) {
		t.Errorf("four at a time: %v, %v", again, err)
	}
	other, _, err := Generate(t.Context(), good(plenty), &bag{}, newEngine(t), c, Options{RankLimit: 1, Seed: 1})
	if err != nil || reflect.DeepEqual(other, got) {
		t.Errorf("another seed gives the same questions: %v", err)
	}
}

// TestGenerateAgain: contexts of which questions were rejected are asked about again, also by a run that goes on with
// the journals, until they have as many as they are to have.
func TestGenerateAgain(t *testing.T) {
	c, journal := base(t), filepath.Join(t.TempDir(), "journal.jsonl")
	model := good(plenty)
	well := model.answer
	model.answer = func(ctx context.Context, call int, r llm.Request) (llm.Result, error) {
		if s := subject(r); s == "violin" && r.Temperature < .6 || s == "desert" {
			return llm.Result{Text: " is?", Finish: llm.FinishStop}, nil
		}
		return well(ctx, call, r)
	}
	for _, x := range []struct{ again, kept, calls int }{{0, 30, 36}, {1, 30, 6}, {2, 33, 6}, {2, 33, 0}} {
		model.calls = 0
		got, report, err := Generate(t.Context(), model, &bag{}, newEngine(t), c,
			Options{RankLimit: 1, Again: x.again, Journal: journal})
		if err != nil || len(got) != x.kept || report.Kept != x.kept || model.calls != x.calls ||
			total(report) != report.Generated {
			t.Errorf("again %d times: %d kept after %d calls, %+v, %v", x.again, len(got), model.calls, report, err)
		}
		if !slices.IsSortedFunc(got, func(a, b Query) int { return at(c, a.ContextID) - at(c, b.ContextID) }) {
			t.Errorf("the questions are not in the order of their contexts: %+v", got)
		}
	}
}

// at returns the row of a context.
func at(c Contexts, id string) int {
	return slices.IndexFunc(c.Chunks, func(x corpus.Chunk) bool { return x.ID == id })
}

// TestFilters: each reason is found, in the order in which they are documented, and everything is counted.
func TestFilters(t *testing.T) {
	c := base(t)
	answers := map[string]string{
		// 4: one too many
		"volcano": " made the volcano erupt so early?\nWhy is the volcano old?\nHow was this volcano born?\nWhen " +
			"did that volcano form?",
		// too short
		"violin": " is?",
		// too long
		"glacier": " " + strings.Repeat("ice ", 45),
		// the second is an echo
		"parliament": " built the parliament in a day because a parliament takes long?\nNobody built the parliament " +
			"in a day?",
		// about another context
		"honeybee": " made a telescope so expensive?",
		// a duplicate of a kept one
		"locomotive": " made the volcano erupt so early?",
		// the example
		"cathedral": " is the second-longest river of Europe?",
		// cut off by MaxTokens, though it begins like a question
		"desert":    " is the desert",
		"submarine": " made the submarine sink?\nThis is what the passage tells.",
	}
	model := &scripted{window: plenty, answer: func(_ context.Context, _ int, r llm.Request) (llm.Result, error) {
		s := subject(r)
		finish := llm.FinishStop
		if s == "desert" {
			finish = llm.FinishLength
		}
		return llm.Result{Text: answers[s], Finish: finish}, nil
	}}
	got, report, err := Generate(t.Context(), model, &bag{}, newEngine(t), c, Options{RankLimit: 1, Prompter: once{}})
	if err != nil {
		t.Fatal(err)
	}
	want := map[Reason]int{
		TooShort:     1 + 3, // violin, and "What" of three contexts without an answer
		TooLong:      2,     // glacier, desert
		NotAQuestion: 1, Echo: 2, Duplicate: 1, LowRank: 1, Surplus: 1,
	}
	if !reflect.DeepEqual(report.Rejected, want) {
		t.Errorf("rejected %v, want %v", report.Rejected, want)
	}
	var texts []string
	for _, q := range got {
		texts = append(texts, q.Text)
	}
	if text := strings.Join(texts,
		"|"); text != "What made the volcano erupt so early?|Why is the volcano old?|How was this volcano born?|What "+
		"built the parliament in a day because a parliament takes long?|What made the submarine sink?" {
		t.Errorf("kept %s", text)
	}
	if total(report) != report.Generated || report.Calls != 12 || report.Barren != 9 {
		t.Errorf("%+v", report)
	}
}

// once asks for everything in one request.
type once struct{}

func (once) Requests(passage string, n int) ([]Request, error) {
	r, err := OneShot{}.Requests(passage, 1)
	r[0].Questions = n
	return r, err
}

func TestGenerateRefuses(t *testing.T) {
	c := base(t)
	e := newEngine(t)
	short := c
	short.Chunks = c.Chunks[1:]
	statement := &scripted{window: plenty, answer: func(context.Context, int, llm.Request) (llm.Result, error) {
		return llm.Result{Text: " a day. Nothing else to say here.", Finish: llm.FinishStop}, nil
	}}
	failing := &scripted{window: plenty, answer: func(_ context.Context, call int, _ llm.Request) (llm.Result, error) {
		if call == 5 {
			return llm.Result{}, errModel
		}
		return llm.Result{Text: " is it?"}, nil
	}}
	for name, x := range map[string]struct {
		model    *scripted
		emb      *bag
		contexts Contexts
		options  Options
		want     error
		says     string
	}{
		"shape":            {good(plenty), &bag{}, short, Options{}, kernels.ErrShape, "12 vectors for 11 contexts"},
		"no contexts":      {good(plenty), &bag{}, Contexts{}, Options{}, kernels.ErrShape, ""},
		"negative":         {good(plenty), &bag{}, c, Options{PerContext: -1}, nil, "questions per context: -1"},
		"no question left": {statement, &bag{}, c, Options{}, ErrQueries, "not_a_question"},
		"model":            {failing, &bag{}, c, Options{}, errModel, "c-violin"},
		"encoder":          {good(plenty), &bag{err: errModel}, c, Options{}, errModel, "embedding questions"},
		"window":           {good(20), &bag{}, c, Options{}, nil, "the model's context has 20"},
		"dimension": {good(plenty), &bag{},
			Contexts{Vectors: engine.Vectors{Data: make([]float32, 12*3), Rows: 12, Dim: 3}, Chunks: c.Chunks},
			Options{}, kernels.ErrShape, "dimension 13"},
	} {
		got, _, err := Generate(t.Context(), x.model, x.emb, e, x.contexts, x.options)
		if err == nil || x.want != nil && !errors.Is(err, x.want) || !strings.Contains(err.Error(), x.says) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}

func TestLongPassagesAreShortened(t *testing.T) {
	c := base(t)
	c.Chunks[0].Text += strings.Repeat(" filler", 500)
	var longest int
	model := good(220)
	answer := model.answer
	model.answer = func(ctx context.Context, call int, r llm.Request) (llm.Result, error) {
		n, _ := model.CountTokens(r.Prompt)
		longest = max(longest, n+r.MaxTokens)
		return answer(ctx, call, r)
	}
	_, report, err := Generate(t.Context(), model, &bag{}, newEngine(t), c, Options{RankLimit: 1})
	if err != nil || report.Truncated != 1 || longest > 220 || longest < 200 {
		t.Errorf("%+v, longest request %d of 220 tokens, %v", report, longest, err)
	}
}

func TestSample(t *testing.T) {
	var chunks []corpus.Chunk
	for i := range 100 {
		topic := "big"
		if i%10 == 3 {
			topic = "small"
		}
		chunks = append(chunks, corpus.Chunk{ID: fmt.Sprint(i), Topic: topic})
	}
	for _, n := range []int{1, 2, 10, 33, 99, 100, 101, 0} {
		got := sample(chunks, n, 5)
		want := n
		if n == 0 || n > 100 {
			want = 100
		}
		small, last := 0, -1
		for _, row := range got {
			if row <= last {
				t.Fatalf("n=%d: rows %v are not ascending", n, got)
			}
			last = row
			if chunks[row].Topic == "small" {
				small++
			}
		}
		if len(got) != want || n >= 10 && (small < want/10 || small > want/10+1) {
			t.Errorf("n=%d: %d rows, %d of the topic with a tenth", n, len(got), small)
		}
		if !reflect.DeepEqual(got, sample(chunks, n, 5)) {
			t.Errorf("n=%d: not the same again", n)
		}
		if n == 10 && reflect.DeepEqual(got, sample(chunks, n, 6)) {
			t.Error("another seed, the same sample")
		}
	}
	// Without topics, documents are the groups.
	for i := range chunks {
		chunks[i].Topic, chunks[i].Document = "", fmt.Sprint(i/25)
	}
	count := map[string]int{}
	for _, row := range sample(chunks, 8, 1) {
		count[chunks[row].Document]++
	}
	if !reflect.DeepEqual(count, map[string]int{"0": 2, "1": 2, "2": 2, "3": 2}) {
		t.Errorf("by document: %v", count)
	}
}

func TestJournalResumes(t *testing.T) {
	c, e := base(t), newEngine(t)
	want, _, err := Generate(t.Context(), good(plenty), &bag{}, e, c, Options{RankLimit: 1})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "pseudo.jsonl")
	o := Options{RankLimit: 1, Journal: path}

	// The user stops the run in the middle of the fifth context.
	ctx, stop := context.WithCancel(t.Context())
	interrupted := good(plenty)
	answer := interrupted.answer
	interrupted.answer = func(ctx context.Context, call int, r llm.Request) (llm.Result, error) {
		if call == 14 {
			stop()
			return llm.Result{}, ctx.Err()
		}
		return answer(ctx, call, r)
	}
	if _, report, err := Generate(ctx, interrupted, &bag{}, e, c, o); !errors.Is(err, context.Canceled) ||
		report.Calls != 12 {
		t.Fatalf("interrupted: %+v, %v", report, err)
	}
	text, err := os.ReadFile(path)
	if err != nil || bytes.Count(text, []byte("\n")) != 5 {
		t.Fatalf("the journal has %d lines, %v", bytes.Count(text, []byte("\n")), err)
	}

	// A kill tears the last line.
	torn := text[:len(text)-7]
	if err := os.WriteFile(path, torn, 0o600); err != nil {
		t.Fatal(err)
	}
	model := good(plenty)
	got, report, err := Generate(t.Context(), model, &bag{}, e, c, o)
	if err != nil || !reflect.DeepEqual(got, want) || report.Resumed != 3 || report.Calls != 27 || model.calls != 27 {
		t.Errorf("resumed: %+v, %d calls, %v", report, model.calls, err)
	}
	// Everything is there now; a sample of it and another rank limit need no call.
	model = good(plenty)
	if _, report, err := Generate(t.Context(), model, &bag{}, e, c, Options{Journal: path, Sample: 5}); err != nil ||
		report.Resumed != 5 || model.calls != 0 {
		t.Errorf("sample of a finished run: %+v, %v", report, err)
	}
	// A changed text is asked about again.
	c.Chunks[2].Text += " The glacier melts."
	model = good(plenty)
	if _, report, err := Generate(t.Context(), model, &bag{}, e, c, o); err != nil || report.Resumed != 11 ||
		model.calls != 3 {
		t.Errorf("changed text: %+v, %v", report, err)
	}
	for i, line := range bytes.Split(bytes.TrimSpace(text), []byte("\n")) {
		if !json.Valid(line) {
			t.Errorf("line %d is not JSON: %s", i+1, line)
		}
	}
}

func TestJournalRefuses(t *testing.T) {
	c, e := base(t), newEngine(t)
	path := filepath.Join(t.TempDir(), "pseudo.jsonl")
	if _, _, err := Generate(t.Context(), good(plenty), &bag{}, e, c, Options{Journal: path}); err != nil {
		t.Fatal(err)
	}
	original, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	other := good(plenty)
	other.name = "another model"
	lines := bytes.SplitAfter(original, []byte("\n"))
	for name, x := range map[string]struct {
		text    []byte
		model   *scripted
		options Options
		says    string
	}{
		"model":       {original, other, Options{}, "model scripted 5e6f, now it is another model 5e6f"},
		"seed":        {original, good(plenty), Options{Seed: 7}, "seed 0, now it is 7"},
		"per context": {original, good(plenty), Options{PerContext: 2}, "questions per context 3, now it is 2"},
		"max tokens":  {original, good(plenty), Options{MaxTokens: 9}, "maximum of tokens 48, now it is 9"},
		"version": {bytes.Replace(original, []byte(`"sluice_journal":1`), []byte(`"sluice_journal":2`), 1),
			good(plenty), Options{}, "journal version 2"},
		"other file": {[]byte("{\"context_id\":\"a\",\"text\":\"b\"}\n"), good(plenty), Options{}, "not a journal"},
		"one line":   {[]byte("dear diary"), good(plenty), Options{}, "not a journal"},
		"text file":  {[]byte("dear diary\n"), good(plenty), Options{}, "not a journal"},
		"damaged": {slices.Concat(lines[0], lines[1], lines[2][:20], []byte("\n"), lines[3]), good(plenty),
			Options{}, ":3 is damaged"},
	} {
		if err := os.WriteFile(path, x.text, 0o600); err != nil {
			t.Fatal(err)
		}
		x.options.Journal = path
		_, _, err := Generate(t.Context(), x.model, &bag{}, e, c, x.options)
		if !errors.Is(err, ErrJournal) || !strings.Contains(err.Error(), x.says) ||
			!strings.Contains(err.Error(), path) || x.model.calls != 0 {
			t.Errorf("%s: %v after %d calls", name, err, x.model.calls)
		}
		if after, _ := os.ReadFile(path); !bytes.Equal(after, x.text) {
			t.Errorf("%s: a refused journal was changed", name)
		}
	}
	if _, _, err := Generate(t.Context(), good(plenty), &bag{}, e, c,
		Options{Journal: filepath.Join(path, "below a file")}); err == nil {
		t.Error("a journal below a file was opened")
	}
}

func FuzzJournal(f *testing.F) {
	s := settings{journalVersion, "m", "5e6f", 3, 48, 1}
	head, err := json.Marshal(s)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(append(head,
		"\n{\"context\":\"a\",\"digest\":\"b\",\"raw\":[{\"text\":\"c?\",\"cut\":true}]}\n{\"context\":\"torn"...))
	f.Add(append(head, '\n', '{', '}', '\n'))
	f.Add([]byte("{\"sluice_journal\":1}\n"))
	f.Add([]byte("no end"))
	path := filepath.Join(f.TempDir(), "journal")
	f.Fuzz(func(t *testing.T, text []byte) {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		j, err := openJournal(path, s)
		if err != nil {
			if !errors.Is(err, ErrJournal) {
				t.Fatal(err)
			}
			return
		}
		known := len(j.done)
		if err := errors.Join(j.add(entry{Context: "new one", Digest: "d"}), j.close()); err != nil {
			t.Fatal(err)
		}
		again, err := openJournal(path, s)
		if err != nil {
			t.Fatalf("after adding an entry: %v", err)
		}
		if _, ok := again.find("new one", "d", ""); !ok || len(again.done) < known {
			t.Fatal("the entry is lost")
		}
		if err := again.close(); err != nil {
			t.Fatal(err)
		}
	})
}

// Contexts are asked about in the order of Rows, and those that More keeps out are as if they had not been named.
func TestMoreEndsTheAsking(t *testing.T) {
	c, e := base(t), newEngine(t)
	rows := []int{7, 2, 11, 0, 5, 9}
	o := Options{RankLimit: 1, Rows: rows[:3], Journal: filepath.Join(t.TempDir(), "j.jsonl")}
	want, _, err := Generate(t.Context(), good(plenty), &bag{}, e, c, o)
	if err != nil {
		t.Fatal(err)
	}
	for _, parallel := range []int{1, 4} {
		asked, model := 0, good(plenty)
		got, report, err := Generate(t.Context(), model, &bag{}, e, c, Options{RankLimit: 1, Rows: rows,
			Parallel: parallel, More: func() bool { asked++; return asked <= 3 }})
		if err != nil || !reflect.DeepEqual(got, want) || report.Contexts != 3 || model.calls != 9 {
			t.Errorf("%d at a time: %v, %d calls, %+v, %v", parallel, got, model.calls, report, err)
		}
	}
	o.Rows, o.More = rows, func() bool { return false } // what the journal holds costs nothing
	if got, report, err := Generate(t.Context(), good(plenty), &bag{}, e, c, o); err != nil ||
		!reflect.DeepEqual(got, want) || report.Calls != 0 {
		t.Errorf("%v, %+v, %v", got, report, err)
	}
}
