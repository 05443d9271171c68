package answer_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/internal/testmodels/doubles"
	"github.com/sluice-rag/sluice/internal/testmodels/overlay"
	"github.com/sluice-rag/sluice/rag/answer"
	"github.com/sluice-rag/sluice/rag/calibrate"
	"github.com/sluice-rag/sluice/rag/flow"
	"github.com/sluice-rag/sluice/rag/ingest"
	"github.com/sluice-rag/sluice/rag/knowledge"
	"github.com/sluice-rag/sluice/rag/prompt"
	"github.com/sluice-rag/sluice/rag/retrieve"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a base that holds the small library and is calibrated.
type world struct{ *doubles.Base }

func newWorld(t *testing.T) world {
	t.Helper()
	return newWorldWith(t, nil)
}

// newWorldWith is newWorld with a change of its configuration.
func newWorldWith(t *testing.T, change func(*knowledge.Config)) world {
	t.Helper()
	w := world{doubles.NewBase(t, change)}
	in := ingest.Input{Paths: []string{w.File(t, "a.jsonl", doubles.Contexts)}, Options: ingest.Options{NoChunk: true}}
	if _, err := ingest.Run(t.Context(), w.Base.Base, in); err != nil {
		t.Fatal(err)
	}
	questions := calibrate.Options{Queries: strings.NewReader(doubles.Questions), Source: "questions"}
	if _, err := calibrate.Run(t.Context(), w.Base.Base, calibrate.Input{Options: questions}); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w world) ask(t *testing.T, question string, o answer.Options) (*answer.Answer, error) {
	t.Helper()
	return answer.Run(t.Context(), w.Base.Base, answer.Input{Question: question, Options: o, Model: w.Generator})
}

func TestTransformationsSearchWithTheirQueries(t *testing.T) {
	for transform, c := range map[prompt.Transform]struct {
		answer string
		first  string // best context
		calls  int
	}{
		prompt.None:    {"", "lights", 1},
		prompt.Rewrite: {"What does the herring feed on?", "herring", 2},
		prompt.HyDE:    {"The herring feeds on plankton of the northern sea.", "herring", 2},
		prompt.MultiQuery: {"1. What does sending on a closed channel cause?\n" +
			"2. Does a deferred function run last in first out?", "defer", 2},
	} {
		t.Run(string(transform), func(t *testing.T) {
			w := newWorld(t)
			w.Model.Answers = []string{c.answer, "Done [1]."}
			o := overlay.On(answer.DefaultOptions(), answer.Options{Gate: answer.GateOpen, Transform: transform})
			a, err := w.ask(t, "What do lighthouses warn of?", o)
			if err != nil {
				t.Fatal(err)
			}
			if a.Trace.Transform != transform || a.Trace.LLMCalls != c.calls || len(w.Model.Requests()) != c.calls {
				t.Errorf("transform %q with %d calls, %d requests",
					a.Trace.Transform, a.Trace.LLMCalls, len(w.Model.Requests()))
			}
			if got := a.Trace.Retrieved; len(got) != 4 || got[0].ID != c.first {
				t.Errorf("retrieved %v with %v, want %s", got, a.Trace.Queries, c.first)
			}
		})
	}
}

// The gate decides on what is searched for: a question that is out of scope as it stands opens it when its
// rewritten form is in scope, and stays out when the transformation is off.
func TestGateDecidesOnTheTransformedQuestion(t *testing.T) {
	w := newWorld(t)
	const question = "How long should I boil an egg?"
	w.Model.Answers = []string{"Three minutes."}
	plain, err := w.ask(t, question, answer.DefaultOptions())
	if err != nil || plain.Retrieved || plain.Trace.LLMCalls != 1 {
		t.Fatalf("retrieved %v, %v", plain, err)
	}
	w.Model.Reset("1. Why do lighthouses warn ships of rocks?\n2. When does a deferred function run, in which order?",
		"Rocks [1].")
	a, err := w.ask(t, question, overlay.On(answer.DefaultOptions(), answer.Options{Transform: prompt.MultiQuery}))
	if err != nil {
		t.Fatal(err)
	}
	if !a.Retrieved || a.Trace.LLMCalls != 2 || a.Trace.Gate == nil || a.Trace.Gate.Score <= plain.Trace.Gate.Score {
		t.Errorf("queries %v, gate %+v, %d calls", a.Trace.Queries, a.Trace.Gate, a.Trace.LLMCalls)
	}
}

func TestAnswersAreCutToTheWindowAndSaysSo(t *testing.T) {
	w := newWorld(t)
	w.Model.Window = 110
	a, err := w.ask(t, "What do lighthouses warn of?", overlay.On(answer.DefaultOptions(),
		answer.Options{Gate: answer.GateOpen, MaxTokens: 20}))
	if err != nil {
		t.Fatal(err)
	}
	if a.Trace.DroppedPassages+a.Trace.TruncatedPassages == 0 || len(a.Citations) >= 4 ||
		!strings.Contains(w.Log.String(), "short of tokens") {
		t.Errorf("%+v\n%s", a.Trace, w.Log)
	}
	w.Model.Window = 30
	_, err = w.ask(t, "What do lighthouses warn of?", overlay.On(answer.DefaultOptions(),
		answer.Options{Gate: answer.GateOpen, MaxTokens: 20}))
	if !errors.Is(err, prompt.ErrBudget) {
		t.Errorf("%v", err)
	}
}

// TestSourcesComeFirst: the passages of the prompt are told before the first piece of the answer.
func TestSourcesComeFirst(t *testing.T) {
	w := newWorld(t)
	w.Model.Answers = []string{"Rocks [1]."}
	var order []string
	_, err := w.ask(t, "Why do lighthouses warn ships of rocks?",
		overlay.On(answer.DefaultOptions(), answer.Options{Gate: answer.GateOpen,
			Start:   func(answer.Trace) { order = append(order, "start") },
			Sources: func(c []prompt.Citation) { order = append(order, c[0].ID) },
			Stream:  func(piece string) error { order = append(order, piece); return nil }}))
	if want := []string{"start", "lights", "Rocks", " [1]."}; err != nil || !slices.Equal(order, want) {
		t.Errorf("%q, %v, want %q", order, err, want)
	}
}

func TestAnswersStopWithItsStream(t *testing.T) {
	w := newWorld(t)
	gone := errors.New("the reader has gone")
	_, err := w.ask(t, "x", overlay.On(answer.DefaultOptions(),
		answer.Options{Gate: answer.GateClosed, Stream: func(string) error { return gone }}))
	if !errors.Is(err, gone) {
		t.Errorf("%v", err)
	}
}

// TestSearches: one search is for the gate and the passages where both go by the same similarities; several queries
// share it.
func TestSearches(t *testing.T) {
	for name, c := range map[string]struct {
		question  string
		transform prompt.Transform
		open      bool
	}{
		"open":            {"When does a deferred function run, in which order?", prompt.None, true},
		"closed":          {"Who won the match on Sunday evening?", prompt.None, false},
		"several queries": {"What do lighthouses warn of?", prompt.MultiQuery, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.Model.Answers = []string{"1. Why do lighthouses warn ships of rocks?\n" +
				"2. Which plankton of the northern sea does the herring feed on?"}
			before := w.Searches()
			a, err := w.ask(t, c.question, overlay.On(answer.DefaultOptions(), answer.Options{Transform: c.transform,
				Retrieve: retrieve.Options{Mode: retrieve.Dense}}))
			if err != nil {
				t.Fatal(err)
			}
			if n := w.Searches() - before; n != 1 {
				t.Errorf("%d searches, want 1", n)
			}
			g := a.Trace.Gate
			if g == nil || g.Retrieve != c.open || a.Retrieved != c.open || (len(a.Trace.Retrieved) > 0) != c.open {
				t.Fatalf("%+v, retrieved %v", g, a.Trace.Retrieved)
			}
			if c.open && (g.ContextID != a.Trace.Retrieved[0].ID || g.Score != a.Trace.Retrieved[0].Score) {
				t.Errorf("the gate goes by %+v, the best passage is %+v", g, a.Trace.Retrieved[0])
			}
		})
	}
}

// TestSentences: each source comes with its sentence that is nearest to the question, and an answer without them where
// they are switched off or cannot be found.
func TestSentences(t *testing.T) {
	var calls, limit atomic.Int64
	limit.Store(math.MaxInt64)
	w := world{doubles.NewBase(t, func(c *knowledge.Config) {
		encoder := c.Encoder
		c.Encoder = func(ctx context.Context) (embed.Embedder, error) {
			if calls.Add(1) > limit.Load() {
				return nil, errors.New("the encoder is gone")
			}
			return encoder(ctx)
		}
	})}
	text := "The Eddystone stands on a reef. Lighthouses warn ships of rocks. The first one was built of wood."
	in := ingest.Input{Paths: []string{w.File(t, "a.jsonl", `{"id":"lights","text":"`+text+`"}`)},
		Options: ingest.Options{NoChunk: true}}
	if _, err := ingest.Run(t.Context(), w.Base.Base, in); err != nil {
		t.Fatal(err)
	}
	ask := func(sentences bool) *answer.Answer {
		t.Helper()
		a, err := w.ask(t, "Do lighthouses warn ships?", overlay.On(answer.DefaultOptions(),
			answer.Options{Gate: answer.GateOpen,
				Retrieve: retrieve.Options{Sentences: sentences}}))
		if err != nil || a.Answer == "" || len(a.Citations) != 1 {
			t.Fatalf("%+v, %v", a, err)
		}
		return a
	}
	a := ask(true)
	s := a.Citations[0].Sentence
	if s == nil || s.Text != "Lighthouses warn ships of rocks." || text[s.Start:s.End] != s.Text || s.Score <= 0 ||
		a.Trace.Milliseconds.Sentences <= 0 {
		t.Errorf("%+v, %v ms", s, a.Trace.Milliseconds.Sentences)
	}
	before := calls.Load()
	if a := ask(false); a.Citations[0].Sentence != nil || a.Trace.Milliseconds.Sentences != 0 {
		t.Errorf("switched off: %+v", a.Citations[0])
	}
	limit.Store(calls.Load() + calls.Load() - before) // what a question takes without them
	if a := ask(true); a.Citations[0].Sentence != nil || !strings.Contains(w.Log.String(), "the encoder is gone") {
		t.Errorf("without an encoder: %+v; log %s", a.Citations[0], w.Log)
	}
}

// TestSteps: the trace and the callback have the nodes in order, with what each spent.
func TestSteps(t *testing.T) {
	w := newWorld(t)
	var told []flow.Step
	open, err := w.ask(t, "When does a deferred function run, in which order?",
		overlay.On(answer.DefaultOptions(), answer.Options{Step: func(s flow.Step) { told = append(told, s) }}))
	if err != nil {
		t.Fatal(err)
	}
	closed, err := w.ask(t, "Who won the match on Sunday evening?",
		overlay.On(answer.DefaultOptions(), answer.Options{Flow: answer.FlowAsk}))
	if err != nil {
		t.Fatal(err)
	}
	path := func(a *answer.Answer) (path string) {
		for _, s := range a.Trace.Steps {
			path += s.Node + ":" + string(s.Verdict) + ">" + s.Next + " "
		}
		return path
	}
	if got := path(open); got != "gate:open>retrieve retrieve:found>prompt prompt:done>generate generate:done>end " ||
		len(told) != 4 || !cmp.Equal(told, open.Trace.Steps) || open.Trace.Outcome != flow.Answered {
		t.Errorf("%s, %+v", got, told)
	}
	if got := path(closed); got != "gate:closed>prompt prompt:done>generate generate:done>end " {
		t.Error(got)
	}
	last := open.Trace.Steps[3]
	if last.Calls != 1 || last.Tokens == 0 || last.Model != "script" || open.Trace.Steps[0].Calls != 0 {
		t.Errorf("%+v", last)
	}
	if _, err := w.ask(t, "x", overlay.On(answer.DefaultOptions(),
		answer.Options{Flow: "loud"})); !errors.Is(err, knowledge.ErrOption) {
		t.Error(err)
	}
}
