package metric

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync/atomic"

	"github.com/sluice-rag/sluice/llm"
	"github.com/sluice-rag/sluice/rag/corpus/sentence"
	"github.com/sluice-rag/sluice/rag/prompt"
)

// Judge grades answers with a language model, whose replies follow a JSON Schema, and an encoder. A reply that is not
// what was asked for, or does not fit the model's window, leaves the item unscored; an error of the model or the
// encoder is returned. Its methods may be called from several goroutines.
type Judge struct {
	Model llm.Generator
	// Embed returns a vector for each text, as questions are embedded; AnswerRelevancy needs it.
	Embed func(ctx context.Context, texts []string) ([][]float32, error)

	calls atomic.Int64
}

// Calls is how many requests were made of the language model.
func (j *Judge) Calls() int64 { return j.calls.Load() }

// The limits of a reply.
const (
	maxStatements = 6
	maxStatement  = 160 // characters
	maxReply      = 384 // tokens
	relevancyAsks = 3   // questions that AnswerRelevancy has the model write
)

// ask has the model fill in a schema. reason is set where the reply is not that.
func (j *Judge) ask(ctx context.Context, schema, system, user string, reply any) (reason string, err error) {
	j.calls.Add(1)
	r, err := j.Model.Generate(ctx, llm.Request{
		Messages:  []llm.Message{{Role: llm.System, Content: system}, {Role: llm.User, Content: user}},
		MaxTokens: maxReply, Schema: json.RawMessage(schema), Priority: llm.Batch,
	}, nil)
	if errors.Is(err, llm.ErrPromptTooLong) {
		return "the text does not fit the judge's window", nil
	}
	if err != nil {
		return "", fmt.Errorf("metric: judge: %w", err)
	}
	d := json.NewDecoder(strings.NewReader(r.Text))
	d.DisallowUnknownFields()
	if d.Decode(reply) != nil {
		return "the judge's reply is not what was asked for", nil
	}
	return "", nil
}

// flags asks for n verdicts, 0 or 1.
func (j *Judge) flags(ctx context.Context, n int, system, user string) (yes int, reason string, err error) {
	schema := fmt.Sprintf(`{"type":"object","properties":{"verdicts":{"type":"array","items":{"enum":[0,1]},`+
		`"minItems":%d,"maxItems":%d}},"required":["verdicts"]}`, n, n)
	var reply struct{ Verdicts []int }
	if reason, err = j.ask(ctx, schema, system, user, &reply); reason != "" || err != nil {
		return 0, reason, err
	}
	if len(reply.Verdicts) != n {
		return 0, fmt.Sprintf("the judge gave %d verdicts of %d", len(reply.Verdicts), n), nil
	}
	for _, v := range reply.Verdicts {
		if v != 0 && v != 1 {
			return 0, "a verdict is neither 0 nor 1", nil
		}
		yes += v
	}
	return yes, "", nil
}

// Faithfulness returns the share of an answer's statements that the contexts support (RAGAS, Es et al. 2023): the judge
// breaks the answer into statements, at most six, then gives a verdict on each. An answer without a statement is
// unscored.
func (j *Judge) Faithfulness(ctx context.Context, question, answer string, contexts []string) (Score, error) {
	if reason := missing(answer, contexts); reason != "" {
		return Score{Unscored: reason}, nil
	}
	var reply struct{ Statements []string }
	schema := fmt.Sprintf(`{"type":"object","properties":{"statements":{"type":"array","items":{"type":"string",`+
		`"minLength":1,"maxLength":%d},"maxItems":%d}},"required":["statements"]}`, maxStatement, maxStatements)
	said, of := fenced("answer", answer)
	reason, err := j.ask(ctx, schema,
		"Break the answer into short statements that can each be understood alone. Put no "+
			"pronouns into them. Reply in JSON. "+of, "Question: "+question+"\nAnswer: "+said, &reply)
	if reason != "" || err != nil {
		return Score{Unscored: reason}, err
	}
	n := len(reply.Statements)
	if n == 0 || n > maxStatements {
		return Score{Unscored: fmt.Sprintf("the judge found %d statements in the answer", n)}, nil
	}
	material, rule := fenced("context", contexts...)
	yes, reason, err := j.flags(ctx, n, "For each statement, in order, reply 1 if it can be inferred from the context "+
		"directly, else 0. Reply in JSON. "+rule, "Context:\n"+material+"\n\nStatements:\n"+numbered(reply.Statements))
	return Score{Value: ratio(yes, n), Unscored: reason}, err
}

// ContextRelevancy returns the share of the contexts' sentences that help to answer the question (RAGAS, Es et al.
// 2023).
func (j *Judge) ContextRelevancy(ctx context.Context, question string, contexts []string) (Score, error) {
	var sentences []string
	for _, c := range contexts {
		start := 0
		for _, end := range sentence.Ends(c) {
			if s := strings.TrimSpace(c[start:end]); s != "" {
				sentences = append(sentences, s)
			}
			start = end
		}
	}
	n := len(sentences)
	if n == 0 {
		return Score{Unscored: "there is no context"}, nil
	}
	material, rule := fenced("context", numbered(sentences))
	yes, reason, err := j.flags(ctx, n,
		"For each sentence, in order, reply 1 if it helps to answer the question, else 0. "+
			"Reply in JSON. "+rule, "Question: "+question+"\n\nSentences:\n"+material)
	return Score{Value: ratio(yes, n), Unscored: reason}, err
}

// AnswerRelevancy returns the mean cosine of the question with three that the judge writes from the answer alone, and 0
// where it finds the answer evasive (RAGAS, Es et al. 2023). It may be negative.
func (j *Judge) AnswerRelevancy(ctx context.Context, question, answer string) (Score, error) {
	if reason := missing(answer, []string{""}); reason != "" {
		return Score{Unscored: reason}, nil
	}
	var reply struct {
		Questions []string
		Evasive   bool
	}
	schema := fmt.Sprintf(`{"type":"object","properties":{"questions":{"type":"array","items":{"type":"string",`+
		`"minLength":1,"maxLength":%d},"minItems":%d,"maxItems":%d},"evasive":{"type":"boolean"}},`+
		`"required":["questions","evasive"]}`, maxStatement, relevancyAsks, relevancyAsks)
	said, rule := fenced("answer", answer)
	reason, err := j.ask(ctx, schema,
		fmt.Sprintf("Write %d questions that the given answer answers, and say whether it "+
			"is evasive, such as \"I do not know\". Reply in JSON. %s", relevancyAsks, rule), "Answer: "+said, &reply)
	if reason != "" || err != nil {
		return Score{Unscored: reason}, err
	}
	if len(reply.Questions) != relevancyAsks {
		return Score{Unscored: fmt.Sprintf("the judge wrote %d questions of %d", len(reply.Questions),
			relevancyAsks)}, nil
	}
	if reply.Evasive {
		return Score{}, nil
	}
	vectors, err := j.Embed(ctx, append([]string{question}, reply.Questions...))
	if err != nil {
		return Score{}, fmt.Errorf("metric: answer relevancy: %w", err)
	}
	var sum float64
	for _, v := range vectors[1:] {
		sum += Cosine(vectors[0], v)
	}
	return Of(sum / relevancyAsks), nil
}

// Correct returns 1 if the judge finds that an answer agrees with one of the true ones, else 0. Without a true answer
// the right one is to say that the question cannot be answered.
func (j *Judge) Correct(ctx context.Context, question, answer string, truths []string) (Score, error) {
	truth := "the question cannot be answered from the text"
	if len(truths) > 0 {
		truth = strings.Join(truths, " / ")
	}
	said, rule := fenced("answer", answer)
	return j.verdict(ctx, "Reply whether the answer agrees with the true answer. Reply in JSON. "+rule,
		"Question: "+question+"\nTrue answer: "+truth+"\nAnswer: "+said)
}

// CorrectBy is Correct without a true answer: the judge compares with the contexts.
func (j *Judge) CorrectBy(ctx context.Context, question, answer string, contexts []string) (Score, error) {
	if len(contexts) == 0 {
		return Score{Unscored: "there is no context"}, nil
	}
	material, rule := fenced("context", contexts...)
	said, of := fenced("answer", answer)
	return j.verdict(ctx,
		"Reply whether the answer to the question is correct according to the context. Reply in JSON. "+rule+" "+of,
		"Context:\n"+material+"\n\nQuestion: "+question+"\nAnswer: "+said)
}

func (j *Judge) verdict(ctx context.Context, system, user string) (Score, error) {
	var reply struct{ Verdict string }
	reason, err := j.ask(ctx, `{"type":"object","properties":{"verdict":{"enum":["correct","wrong"]}},`+
		`"required":["verdict"]}`, system, user, &reply)
	switch {
	case reason != "" || err != nil:
		return Score{Unscored: reason}, err
	case reply.Verdict == "correct":
		return Score{Value: 1}, nil
	case reply.Verdict == "wrong":
		return Score{}, nil
	}
	return Score{Unscored: "the verdict is neither correct nor wrong"}, nil
}

// Supervise asks whether one context helps with a question: the supervisor that costs a call for each context, which
// the gate of the paper replaces.
func (j *Judge) Supervise(ctx context.Context, question, passage string) (Score, error) {
	material, rule := fenced("context", passage)
	yes, reason, err := j.flags(ctx, 1, "Reply 1 if the context helps to answer the question, else 0. Reply in JSON. "+
		rule, "Context: "+material+"\n\nQuestion: "+question)
	return Score{Value: float64(yes), Unscored: reason}, err
}

// fenced returns texts that others have written, between marks and in an order that they cannot know, and what the
// judge is told of the marks.
func fenced(kind string, texts ...string) (material, rule string) {
	f := prompt.NewFence(0, texts...)
	shown := make([]string, len(texts))
	for i, at := range f.Order(len(texts)) {
		shown[i] = f.Around(kind, texts[at])
	}
	return strings.Join(shown, "\n"), f.Rule(kind)
}

func missing(answer string, contexts []string) string {
	switch {
	case strings.TrimSpace(answer) == "":
		return "the answer is empty"
	case len(contexts) == 0:
		return "there is no context"
	}
	return ""
}

func numbered(lines []string) string {
	var b strings.Builder
	for i, l := range lines {
		fmt.Fprintf(&b, "%d. %s\n", i+1, strings.Join(strings.Fields(l), " "))
	}
	return b.String()
}

// Cosine of two vectors of one length; 0 where one is zero. Of the vectors of an answer and the true answer it is CSGA
// (Ganesh & Purwar: cosine similarity of the generated answer).
func Cosine(a, b []float32) float64 {
	var dot, aa, bb float64
	for i := range a {
		x, y := float64(a[i]), float64(b[i])
		dot, aa, bb = dot+x*y, aa+x*x, bb+y*y
	}
	if aa == 0 || bb == 0 {
		return 0
	}
	return dot / math.Sqrt(aa) / math.Sqrt(bb)
}

// NeedsContext asks whether a question needs texts to be looked up, or can be answered from the model's own knowledge:
// the decision of adaptive retrieval, one call.
func (j *Judge) NeedsContext(ctx context.Context, question string) (Score, error) {
	yes, reason, err := j.flags(ctx, 1,
		"Reply 1 if answering the question needs documents to be looked up, 0 if general "+
			"knowledge is enough. Reply in JSON.", "Question: "+question)
	return Score{Value: float64(yes), Unscored: reason}, err
}
