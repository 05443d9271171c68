package metric_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/eval/metric"
	"github.com/sluice-rag/sluice/internal/testmodels/doubles"
	"github.com/sluice-rag/sluice/llm"
	"github.com/sluice-rag/sluice/llm/grammar"
)

func judge(answers ...string) (*metric.Judge, *doubles.Model) {
	model, encoder := doubles.NewModel(answers...), doubles.NewEncoder()
	return &metric.Judge{Model: model, Embed: func(ctx context.Context, texts []string) (all [][]float32, err error) {
		e, err := encoder.Embed(ctx, texts, embed.Query)
		for i := range texts {
			all = append(all, e.Row(i))
		}
		return all, err
	}}, model
}

// TestJudge: the values of RAGAS from the judge's replies, and a reason for each reply that gives none.
func TestJudge(t *testing.T) {
	contexts := []string{"Herring eat plankton. They swim.", "Lamps rotate."}
	type grade func(context.Context, *metric.Judge) (metric.Score, error)
	faithful := func(ctx context.Context, j *metric.Judge) (metric.Score, error) {
		return j.Faithfulness(ctx, "What do herring eat?", "Plankton and cod.", contexts)
	}
	relevant := func(ctx context.Context, j *metric.Judge) (metric.Score, error) {
		return j.ContextRelevancy(ctx, "What do herring eat?", contexts)
	}
	answers := func(ctx context.Context, j *metric.Judge) (metric.Score, error) {
		return j.AnswerRelevancy(ctx, "what do herring eat", "Plankton.")
	}
	correct := func(ctx context.Context, j *metric.Judge) (metric.Score, error) {
		return j.Correct(ctx, "What do herring eat?", "Plankton.", []string{"plankton"})
	}
	for name, c := range map[string]struct {
		grade   grade
		replies []string
		want    float64
		reason  string
	}{
		"half faithful":  {faithful, []string{`{"statements":["a","b"]}`, `{"verdicts":[1,0]}`}, .5, ""},
		"no statement":   {faithful, []string{`{"statements":[]}`}, 0, "0 statements"},
		"cut off":        {faithful, []string{`{"statements":["a`}, 0, "not what was asked for"},
		"prose":          {faithful, []string{"Sure! Here are the statements"}, 0, "not what was asked for"},
		"too few":        {faithful, []string{`{"statements":["a","b"]}`, `{"verdicts":[1]}`}, 0, "1 verdicts of 2"},
		"another field":  {faithful, []string{`{"facts":["a"]}`}, 0, "not what was asked for"},
		"third verdict":  {faithful, []string{`{"statements":["a"]}`, `{"verdicts":[7]}`}, 0, "neither 0 nor 1"},
		"third relevant": {relevant, []string{`{"verdicts":[1,0,0]}`}, 1. / 3, ""},
		"null":           {relevant, []string{`null`}, 0, "0 verdicts of 3"},
		"the question": {answers, []string{`{"questions":["what do herring eat","what","stars"],"evasive":false}`},
			.5, ""},
		"evasive":          {answers, []string{`{"questions":["a","b","c"],"evasive":true}`}, 0, ""},
		"two questions":    {answers, []string{`{"questions":["a","b"],"evasive":false}`}, 0, "2 questions of 3"},
		"correct":          {correct, []string{`{"verdict":"correct"}`}, 1, ""},
		"wrong":            {correct, []string{`{"verdict":"wrong"}`}, 0, ""},
		"no verdict":       {correct, []string{`{"verdict":"perhaps"}`}, 0, "neither correct nor wrong"},
		"empty completion": {correct, []string{""}, 0, "not what was asked for"},
	} {
		j, model := judge(c.replies...)
		got, err := c.grade(t.Context(), j)
		if err != nil || math.Abs(got.Value-c.want) > 1e-6 || !strings.Contains(got.Unscored, c.reason) ||
			(c.reason == "") != (got.Unscored == "") {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		if j.Calls() != int64(len(c.replies)) {
			t.Errorf("%s: %d calls", name, j.Calls())
		}
		for _, r := range model.Requests() {
			if _, err := grammar.FromSchema(r.Schema); err != nil || r.MaxTokens == 0 {
				t.Errorf("%s: schema %s: %v", name, r.Schema, err)
			}
		}
	}
}

// TestJudgeOfNothing: what is missing is unscored without a call, and an error of the model is one.
func TestJudgeOfNothing(t *testing.T) {
	j, _ := judge("")
	empty, err1 := j.Faithfulness(t.Context(), "q", " ", []string{"c"})
	without, err2 := j.Faithfulness(t.Context(), "q", "a", nil)
	context, err3 := j.ContextRelevancy(t.Context(), "q", nil)
	if err := errors.Join(err1, err2, err3); err != nil || empty.Unscored == "" || without.Unscored == "" ||
		context.Unscored == "" || j.Calls() != 0 {
		t.Errorf("%+v %+v %+v, %d calls, %v", empty, without, context, j.Calls(), err)
	}
	broken := &metric.Judge{Model: failing{doubles.NewModel(""), llm.ErrClosed}}
	if _, err := broken.Correct(t.Context(), "q", "a", nil); !errors.Is(err, llm.ErrClosed) {
		t.Errorf("%v", err)
	}
	long := &metric.Judge{Model: failing{doubles.NewModel(""), &llm.PromptTooLongError{Tokens: 9, Limit: 3}}}
	if s, err := long.Supervise(t.Context(), "q", "c"); err != nil || !strings.Contains(s.Unscored, "window") {
		t.Errorf("%+v, %v", s, err)
	}
}

type failing struct {
	*doubles.Model
	err error
}

func (f failing) Generate(context.Context, llm.Request, func(string) error) (llm.Result, error) {
	return llm.Result{}, f.err
}

func TestSummary(t *testing.T) {
	s := metric.Summarise([]metric.Score{{Value: 1}, {Value: 0}, metric.Of(math.NaN()), {Value: 1}, {Value: .5},
		{Unscored: "why"}})
	if s.N != 4 || s.Unscored != 2 || s.Mean != .625 || s.P50 != .75 || !(s.Low > 0 && s.Low < .5 && s.High > .75) {
		t.Errorf("%+v", s)
	}
	if s := metric.Summarise(nil); s != (metric.Summary{}) {
		t.Errorf("of nothing: %+v", s)
	}
	for _, err := range []error{second(metric.Compare(nil, nil)), second(metric.Compare([]string{"a"}, nil)),
		second(metric.SentenceBLEU("a", nil))} {
		if !errors.Is(err, metric.ErrPairs) {
			t.Errorf("%v", err)
		}
	}
}

func second[T any](_ T, err error) error { return err }
