package exam

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/internal/language"
	"github.com/sluice-rag/sluice/internal/panics"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/llm"
	"github.com/sluice-rag/sluice/llm/kept"
	"github.com/sluice-rag/sluice/rag/corpus"
	"github.com/sluice-rag/sluice/rag/postings"
	"github.com/sluice-rag/sluice/rag/prompt"
	"github.com/sluice-rag/sluice/rag/quote"
)

// How much is asked in each language, as far as the set has it.
const (
	shownPassages = 4  // as many as an answer is written from by default
	fewPassages   = 2  // everywhere else, where more would only take more time
	answerTokens  = 64 // one or two sentences are asked for
	verdictItems  = 50 // for each of a grader's two verdicts
	plantedItems  = 20 // instructions planted, for each grader
	foreignItems  = 12 // questions in another language
	jsonItems     = 10 // answers as JSON
	askedPassages = 24 // about which the model writes questions
	askedEach     = 2  // questions

	quotedSentences = 2   // at most, as in an answer by default
	probes          = 8   // calls that tell whether the time of all is short enough
	block           = 8   // items that are under way together at most, and after which it may be the end
	maxFailures     = 3   // calls in a row that may fail
	seed            = 271 // of marks and drafts: the same model gets the same card
)

// perCall bounds the time of one call of the model.
const perCall = 2 * time.Minute

// Options of Run.
type Options struct {
	Model    llm.Generator
	Digest   string // of the model's file, or of the server's URL and the model's name
	Embedder embed.Embedder
	Engine   engine.Interface
	Sets     []Set         // nil: those that Sluice brings
	Within   time.Duration // what Run may take; 0: any time
	Progress func(done, total int)
	// Answers is a file that keeps the model's answers as they come: an examination that was interrupted goes on from
	// them. Empty keeps nothing.
	Answers string
}

// ErrModel is wrapped where a model cannot be examined: it fails, or gives no answer in time.
var ErrModel = errors.New("exam: the model does not answer")

// LongError says that an examination would take longer than Options.Within.
type LongError struct{ Estimate, Within time.Duration }

func (e *LongError) Error() string {
	return fmt.Sprintf("exam: the examination would take about %v, more than %v", e.Estimate.Round(time.Second),
		e.Within)
}

// Run examines a model: greedily, as many calls at a time as pay, below the priority of users. An answer that is
// missing, empty or late counts as a wrong one. Where the outcome of a part is certain, the rest of it is left out. The
// same model gets the same card. Failures in a row are ErrModel. *LongError, which is
// known as soon as the first calls take too long, comes with a card that has the estimate and no results.
func Run(ctx context.Context, o Options) (*Card, error) {
	version, err := Version()
	if err != nil {
		return nil, err
	}
	if o.Sets == nil {
		if o.Sets, err = Sets(); err != nil {
			return nil, err
		}
	}
	e := &exam{Options: o, started: time.Now(), languages: language.New(),
		card: &Card{Model: o.Model.Info().Name, Digest: o.Digest, Exam: version, Sets: map[string]Result{}}}
	if e.library, err = prompt.Open(""); err != nil {
		return nil, err
	}
	for _, s := range o.Sets {
		e.total += s.calls()
	}
	if e.answers, err = kept.Open(o.Answers); err != nil {
		return nil, err
	}
	defer e.answers.Close()
	for _, s := range o.Sets {
		r, err := e.examine(ctx, s)
		if long, ok := errors.AsType[*LongError](err); ok {
			return &Card{Model: e.card.Model, Digest: o.Digest, Exam: version,
				Seconds: int(long.Estimate.Seconds())}, err
		}
		if err != nil {
			return nil, err
		}
		e.card.Sets[s.Language] = r
	}
	e.progress()
	return e.card, nil
}

// calls returns how many calls of the model the set costs at most.
func (s Set) calls() int {
	n := len(s.Passages) + min(jsonItems, len(s.Passages)) + askedEach*min(askedPassages, len(s.Passages))
	foreign := 0
	for _, p := range s.Passages {
		if p.Unanswered != "" {
			n++
		}
		if p.Foreign != "" {
			foreign++
		}
	}
	for _, g := range prompt.Graders() {
		n += 2 * s.verdictItems(g)
		if g != prompt.Router {
			n += min(plantedItems, s.verdictItems(g))
		}
	}
	return n + min(foreign, foreignItems)
}

// exam is an examination under way.
type exam struct {
	Options
	library   *prompt.Library
	languages *language.Detector
	card      *Card
	started   time.Time
	total     int // calls at most

	answers  *kept.Answers
	mu       sync.Mutex
	done     int // of total: begun, or left out
	finished int // of those that the model answered, not Options.Answers
	failed   int // in a row

	set     Set // under way, with:
	index   *postings.Index
	vectors engine.Vectors // of the passages
	result  Result
}

// examine goes through a set.
func (e *exam) examine(ctx context.Context, s Set) (Result, error) {
	e.set, e.result = s, Result{Verdicts: map[prompt.Grader]Verdict{}}
	before := e.done
	texts := make([]string, len(s.Passages))
	for i, p := range s.Passages {
		texts[i] = p.Text
	}
	var err error
	if e.vectors, err = e.embed(ctx, texts, embed.Document); err != nil {
		return Result{}, err
	}
	source := func(_ context.Context, from, to int) ([]postings.Document, error) {
		documents := make([]postings.Document, 0, to-from)
		for _, t := range texts[from:to] {
			documents = append(documents, postings.Document{Text: t, Language: s.Language})
		}
		return documents, nil
	}
	if e.index, err = postings.New().With(ctx, len(texts), source, func(int) bool { return false }, nil); err != nil {
		return Result{}, err
	}
	for _, part := range []func(context.Context) error{e.write, e.refuse, e.foreign, e.json, e.verdicts, e.questions} {
		if err := part(ctx); err != nil {
			return Result{}, err
		}
	}
	e.done = before + s.calls()
	return e.result, nil
}

func (e *exam) embed(ctx context.Context, texts []string, role embed.Role) (engine.Vectors, error) {
	found, err := e.Embedder.Embed(ctx, texts, role)
	if err != nil {
		return engine.Vectors{}, err
	}
	return engine.Vectors{Data: found.Data, Rows: len(texts), Dim: e.Embedder.Info().Dim}, nil
}

// blocks goes through n items, several at a time, and asks after each block whether there is to be another one. Blocks
// are the same however many requests pay for the model.
func (e *exam) blocks(
	ctx context.Context, n int, item func(ctx context.Context, i int) error, more func(done int) bool,
) error {
	for from := 0; from < n; {
		to := min(from+block, n)
		group, running := errgroup.WithContext(ctx)
		group.SetLimit(llm.ParallelOf(e.Model))
		for i := from; i < to; i++ {
			group.Go(func() error { return panics.Call(func() error { return item(running, i) }) })
		}
		if err := group.Wait(); err != nil {
			return err
		}
		if from = to; more != nil && !more(to) {
			return nil
		}
	}
	return nil
}

func (e *exam) progress() {
	if e.Progress != nil {
		e.Progress(e.done, e.total)
	}
}

// found are n passages that a question is answered from: the nearest ones, best first; own, unless it is negative, is
// among them, and without is not.
func (e *exam) found(ctx context.Context, question string, n, own, without int) ([]int, engine.Vectors, error) {
	v, err := e.embed(ctx, []string{question}, embed.Query)
	if err != nil {
		return nil, v, err
	}
	hits, err := e.Engine.TopK(ctx, v, e.vectors, kernels.Cosine, n+1, nil)
	if err != nil {
		return nil, v, err
	}
	var rows []int
	for _, h := range hits[0] {
		if h.Row != without && len(rows) < n {
			rows = append(rows, h.Row)
		}
	}
	if own >= 0 && !slices.Contains(rows, own) {
		rows[len(rows)-1] = own
	}
	return rows, v, nil
}

// passages are rows as prompts show them.
func (e *exam) passages(rows []int) []prompt.Passage {
	list := make([]prompt.Passage, len(rows))
	for i, row := range rows {
		p := e.set.Passages[row]
		list[i] = prompt.Passage{Chunk: corpus.Chunk{ID: p.Topic, Heading: p.Topic, Text: p.Text}}
	}
	return list
}

// answer has the model answer a question from passages, in a language if one is named, as Ask does by default.
func (e *exam) answer(
	ctx context.Context, question string, rows []int, code string,
) (text string, cited []int, err error) {
	o := prompt.Options{ContextTokens: e.Model.ContextSize(), AnswerTokens: answerTokens, Language: code}
	o.Count, o.Literal = llm.ContentCounter(e.Model)
	p, err := e.library.Context(question, e.passages(rows), o)
	if err != nil {
		return "", nil, err
	}
	r, err := e.model().Generate(ctx, llm.Request{Messages: p.Messages, Prompt: p.Text, Stop: p.Stop,
		MaxTokens: answerTokens, Seed: seed}, nil)
	if err != nil {
		return "", nil, err
	}
	for _, c := range prompt.Cite(r.Text, p.Citations) {
		if c.Cited {
			cited = append(cited, rows[c.Number-1])
		}
	}
	return r.Text, cited, nil
}

// write has the model answer, and quotes from the same passages. It ends where the model cannot reach what quotes have
// reached.
func (e *exam) write(ctx context.Context) error {
	r := &e.result
	all := make([][]int, len(e.set.Passages))
	for i, p := range e.set.Passages {
		rows, v, err := e.found(ctx, p.Question, shownPassages, i, -1)
		if err != nil {
			return err
		}
		text, err := e.quote(ctx, p.Question, v, rows)
		if err != nil {
			return err
		}
		r.Quote.add(holds(text, p.Accepted))
		all[i] = rows
	}
	texts, cited := make([]string, len(all)), make([][]int, len(all))
	return e.blocks(ctx, len(all), func(ctx context.Context, i int) (err error) {
		texts[i], cited[i], err = e.answer(ctx, e.set.Passages[i].Question, all[i], e.named())
		return err
	}, func(done int) bool {
		for i := r.Write.Of; i < done; i++ {
			right := holds(texts[i], e.set.Passages[i].Accepted)
			if r.Write.add(right); right {
				r.Cited.add(slices.Contains(cited[i], i))
			}
		}
		wrong := r.Write.Of - r.Write.N
		return done < leastWritten || len(all)-wrong >= r.Quote.N
	})
}

// named returns the language that a prompt names: none where question and passages are in English.
func (e *exam) named() string {
	if e.set.Language == "en" {
		return ""
	}
	return e.languages.Name(e.set.Language)
}

// leastWritten answers are asked for, whatever they are like.
const leastWritten = 20

// quote returns the text that Ask prints without a model.
func (e *exam) quote(ctx context.Context, question string, v engine.Vectors, rows []int) (text string, err error) {
	words, err := e.index.Query(question, postings.Scoring{Kind: postings.Cover, Content: true})
	if err != nil {
		return "", err
	}
	texts := make([]string, len(rows))
	for i, row := range rows {
		texts[i] = e.set.Passages[row].Text
	}
	o := quote.Options{Engine: e.Engine, Max: quotedSentences,
		Embed: func(ctx context.Context, texts []string) (engine.Vectors, error) {
			return e.embed(ctx, texts, embed.Document)
		}}
	quotes, err := quote.Choose(ctx, o, v, words, texts)
	for _, q := range quotes {
		text += q.Text + "\n"
	}
	return text, err
}
