package train

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/internal/test/race"
	"github.com/sluice-rag/sluice/internal/testmodels/checkpoint"
)

// Windows joins words, with a stride as the tokenizers library has it.
func (w words) Windows(question, context string, maxTokens, stride int) ([]embed.Window, error) {
	ids := func(text string) []uint32 {
		rows, _, err := w.Tokens([]string{text}, "", math.MaxInt)
		if err != nil {
			return nil
		}
		return rows[0][1 : len(rows[0])-1]
	}
	asked, own := ids(question), ids(context)
	var at [][2]int
	from := 0
	for _, word := range strings.Fields(context) {
		from += strings.Index(context[from:], word)
		at = append(at, [2]int{from, from + len(word)})
		from += len(word)
	}
	var out []embed.Window
	size := maxTokens - len(asked) - 3
	for from := 0; ; from += size - stride {
		to := min(from+size, len(own))
		x := embed.Window{First: len(asked) + 2, At: at[from:to]}
		x.IDs = append(append(append(append([]uint32{2}, asked...), 3), own[from:to]...), 3)
		x.Types = make([]int64, len(x.IDs))
		for i := x.First; i < len(x.IDs); i++ {
			x.Types[i] = 1
		}
		if out = append(out, x); to == len(own) {
			return out, nil
		}
	}
}

// gates are questions whose answer is the word behind a name that is asked for; every fourth name is in no context.
func gates(n int) string {
	names := []string{"north", "south", "east", "west"}
	colours := []string{"red", "green", "blue", "grey", "pink"}
	var b strings.Builder
	for i := range n {
		name, colour := names[i%3], colours[i%5]
		context := fmt.Sprintf("é %d: the %s gate is %s and the %s gate is %s", i, name, colour, names[(i+1)%3],
			colours[(i+2)%5])
		answer := fmt.Sprintf(`{"text":"%s","start":%d}`, colour, len([]rune(context[:strings.Index(context, colour)])))
		if i%4 == 3 {
			name, answer = names[3], ""
		}
		fmt.Fprintf(&b, `{"question":"colour of %s","context":"%s","answers":[%s]}`+"\n", name, context, answer)
	}
	return b.String()
}

func questions(t *testing.T, text string) *Questions {
	t.Helper()
	q, err := ReadQuestions(strings.NewReader(text), "data.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	return q
}

// readerInput returns a training of a second.
func readerInput(t *testing.T, from string) ReaderInput {
	s := ReaderDefaults()
	s.Epochs, s.Batch, s.Rate, s.HeadRate, s.ValidationShare, s.Dropout = 3, 8, 2e-3, 2e-3, .2, 0
	return ReaderInput{Training: questions(t, gates(80)), From: from, Out: filepath.Join(t.TempDir(), "out"),
		Settings: s, Tokenizer: words{60}, Engine: newEngine(t, 2)}
}

func readerOrFail(t *testing.T, in ReaderInput) *Result {
	t.Helper()
	r, err := Reader(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestReaderLearns: a word of the question says where the answer is, and one kind of question has none.
func TestReaderLearns(t *testing.T) {
	race.Skip(t)
	for name, from := range map[string]string{"bert": model(t, bert),
		"distilbert": model(t, checkpoint.Spec{Family: "distilbert"})} {
		in := readerInput(t, from)
		in.Training, in.Test = questions(t, gates(240)), questions(t, gates(97))
		in.Settings.Epochs, in.Settings.MaxTokens, in.Settings.Stride = 16, 16, 8
		r := readerOrFail(t, in)
		if s := r.Test.Reader; s.HasAns.F1 < .9 || s.AUROC < .95 || s.BestF1 < .9 || r.Test.Examples != 97 {
			t.Errorf("%s: %+v", name, s)
		}
		config, err := os.ReadFile(filepath.Join(in.Out, "config.json"))
		if err != nil || !strings.Contains(strings.ToLower(string(config)), `"`+name+`forquestionanswering"`) {
			t.Errorf("%s: %s, %v", name, config, err)
		}
		found := map[string]bool{}
		for _, x := range readTensors(t, filepath.Join(in.Out, "model.safetensors")) {
			found[x.Name] = true
		}
		for _, want := range []string{"qa_outputs.weight", "qa_outputs.bias"} {
			if !found[want] {
				t.Errorf("%s: no %s in %v", name, want, found)
			}
		}
		if want := name + ".embeddings.token_type_embeddings.weight"; found[want] != (name == "bert") {
			t.Errorf("%s: %s is there: %v", name, want, found[want])
		}
	}
}

// TestReaderSameBits: interrupted and resumed, on another number of threads, a training gives the same bits.
func TestReaderSameBits(t *testing.T) {
	in := readerInput(t, model(t, bert))
	in.Settings.Dropout, in.Settings.Layers = .2, 2
	in.Engine = newEngine(t, 1)
	readerOrFail(t, in)
	want := weightsOf(t, in.Out)
	for _, stop := range []int{1, 9, 13} {
		in.Engine, in.Out = newEngine(t, 3), filepath.Join(t.TempDir(), "out")
		ctx, cancel := context.WithCancel(t.Context())
		in.Hooks.Step = func(done, _ int) {
			if done == stop {
				cancel()
			}
		}
		if _, err := Reader(ctx, in); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		resumed := 0
		in.Hooks.Resumed = func(_, step int) { resumed = step }
		readerOrFail(t, in)
		cancel()
		if resumed != stop || !bytes.Equal(weightsOf(t, in.Out), want) {
			t.Errorf("stopped after step %d: resumed after %d, or other bits", stop, resumed)
		}
	}
}

// TestWindows: an answer is aimed at in the windows that have all of it, and read from the best of them.
func TestWindows(t *testing.T) {
	const context = "one two three four five six"
	q := Question{Text: "q", Context: context, Answers: []Answer{{"three four", strings.Index(context, "three")}}}
	windows, err := words{60}.Windows(q.Text, q.Context, 8, 2)
	if err != nil {
		t.Fatal(err)
	}
	var s windowSet
	for _, w := range windows {
		s.add(0, q, w, true)
	}
	for i, want := range [][2]int{{5, 6}, {3, 4}} {
		if w := s.windows[i]; w.start != want[0] || w.end != want[1] {
			t.Errorf("window %d: %+v, %v expected", i, w, want)
		}
	}
	logits := make([]float32, 2*len(s.ids[0]))
	logits[0], logits[1], logits[2*4], logits[2*5+1], logits[2*6+1], logits[2*4+1] = 1, 2, 5, 3, 4, -9
	first := s.windows[0].Read(logits)
	if got := context[first.Start:first.End]; got != "two three four" || first.Score != 9 || first.Null != 3 {
		t.Errorf("%q, %+v", got, first)
	}
	if o := first.Others; len(o) != 1 || context[o[0].Start:o[0].End] != "one" || o[0].Score != 0 {
		t.Errorf("%+v", o) // what the best span has left of the window
	}
	both := first
	both.Merge(embed.Reading{Extract: embed.Extract{Score: 10, Start: 1, End: 2}, Null: 5})
	if both.Score != 10 || both.Null != 3 || both.End != 2 {
		t.Errorf("%+v", both)
	}
	if o := both.Others; len(o) != 1 || o[0] != first.Extract {
		t.Errorf("%+v", o) // without "one", which the other window's span overlaps
	}
	both = first
	if both.Merge(embed.Reading{Null: -1}); both.Score != 9 || both.Null != -1 {
		t.Errorf("%+v", both)
	}
}

// TestBadReaders: what a reader cannot be trained on, or from, is said, and no folder is made.
func TestBadReaders(t *testing.T) {
	for name, c := range map[string]struct {
		change func(in *ReaderInput)
		target error
		want   string
	}{
		"too few": {func(in *ReaderInput) { in.Training = questions(t, gates(1)) }, ErrData,
			"1 questions to train on and 0 to validate with are left"},
		"no answers": {func(in *ReaderInput) {
			for i := range in.Training.List {
				in.Training.List[i].Answers = nil
			}
		}, ErrData, "none of the questions to train on has an answer"},
		"stride": {func(in *ReaderInput) { in.Settings.Stride = -1 }, ErrSetting, "stride is -1"},
		"one token type": {func(in *ReaderInput) {
			replace(t, filepath.Join(in.From, "config.json"), `"type_vocab_size":2`, `"type_vocab_size":1`)
			path := filepath.Join(in.From, "model.safetensors")
			tensors := readTensors(t, path)
			for i, x := range tensors {
				if strings.HasSuffix(x.Name, "token_type_embeddings.weight") {
					tensors[i].Shape, tensors[i].Data = []int{1, 32}, x.Data[:32]
				}
			}
			rewrite(t, path, tensors)
		}, ErrModel, "the tokenizer gives token type 1, the model has 1 types"},
		"NaN": {func(in *ReaderInput) {
			path := filepath.Join(in.From, "model.safetensors")
			tensors := readTensors(t, path)
			tensors[0].Data[0] = float32(math.NaN())
			rewrite(t, path, tensors)
		}, ErrModel, "value 0 is NaN"},
	} {
		in := readerInput(t, model(t, bert))
		c.change(&in)
		_, err := Reader(t.Context(), in)
		if !errors.Is(err, c.target) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, %q expected", name, err, c.want)
		}
		if _, err := os.Stat(in.Out); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: the folder of the result was made", name)
		}
	}
}

func rewrite(t *testing.T, path string, tensors []checkpoint.Tensor) {
	t.Helper()
	raw, err := checkpoint.Safetensors(tensors, "F32")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, raw, 0o644); err != nil {
		t.Fatal(err)
	}
}
