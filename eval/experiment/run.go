package experiment

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"github.com/sluice-rag/sluice"
	"github.com/sluice-rag/sluice/eval/metric"
	"github.com/sluice-rag/sluice/internal/durable"
	"github.com/sluice-rag/sluice/llm"
)

// Options of Run.
type Options struct {
	File     *File
	Data     string        // folder; "" is File.Data
	Out      string        // folder of the journal and the stores
	Config   sluice.Config // for every cell; a cell's own values override it
	Judge    llm.Generator // grades instead of File.Judge; the caller closes it
	Progress func(part string, done, total int)
	Training func(part string, done, total int) // steps of the training that an item needs
	Note     func(text string)                  // called with remarks for readers of the results, without repetitions
}

// Result of Run.
type Result struct {
	File     *File
	Rows     []Row
	Notes    []string
	Items    int // of all cells
	Resumed  int // of Items, taken from the journal
	Unscored int // values that could not be computed or graded
	Judge    string
	Examined *Examined // the judge's scorecard; nil: nothing is judged, or it was not examined
	Seconds  float64   // of this run
}

type run struct {
	Options
	work    string
	result  *Result
	journal *journal
	open    *session
	grader  *sluice.Sluice
	best    map[string]best // by part and measure
	done    map[string]int  // items by part
	total   map[string]int
}

// Run runs an experiment, going on from the journal in Options.Out. An error or the end of ctx leaves there what is
// finished.
func Run(ctx context.Context, o Options) (_ *Result, err error) {
	begun := time.Now()
	r := &run{Options: o, work: filepath.Join(o.Out, "work"), best: map[string]best{},
		done: map[string]int{}, total: map[string]int{}}
	r.File.Judge = cmp.Or(r.File.Judge, sluice.DefaultModel)
	r.Data = cmp.Or(o.Data, o.File.Data)
	r.result = &Result{File: o.File, Judge: r.File.Judge}
	if o.Judge != nil {
		r.result.Judge = o.Judge.Info().Name
	}
	if err := durable.MkdirAll(r.work); err != nil {
		return nil, fmt.Errorf("experiment: %w", err)
	}
	if r.journal, err = openJournal(filepath.Join(o.Out, Journal)); err != nil {
		return nil, err
	}
	defer func() {
		err = errors.Join(err, r.closeSession(), r.journal.close())
		if r.grader != nil {
			err = errors.Join(err, r.grader.Close())
		}
	}()
	sets := make([]*data, len(r.File.Parts))
	for i, p := range r.File.Parts {
		if sets[i], err = r.load(ctx, p); err != nil {
			return nil, err
		}
	}
	for i, p := range r.File.Parts {
		if err := r.part(ctx, p, sets[i]); err != nil {
			return nil, err
		}
	}
	if r.result.Examined, err = r.examined(ctx); err != nil {
		return nil, err
	}
	r.result.Seconds = time.Since(begun).Seconds()
	return r.result, nil
}

// load reads what a part needs, and counts its items.
func (r *run) load(ctx context.Context, p Part) (d *data, err error) {
	if p.Kind == Classifiers {
		d = &data{}
		for i := range max(p.Base.Draws, 1) {
			l, err := examples(r.Data, p, r.File.Seed+uint64(i))
			if err != nil {
				return nil, err
			}
			d.draws = append(d.draws, l)
		}
		d.digest = digest([]any{d.draws[0].train, d.draws[0].test})
	} else if len(p.Base.Files) > 0 {
		d, err = loadBook(ctx, r.Data, p, r.File.Seed)
	} else {
		d, err = load(r.Data, p, r.File.Seed)
	}
	if err != nil {
		return nil, err
	}
	for _, n := range d.notes {
		r.note(fmt.Sprintf("%s: %s", p.Name, n))
	}
	if p.Best != nil { // one retriever
		p.Encoders, p.Chunkers, p.Retrievers = nil, nil, nil
	}
	n := 0
	for _, c := range p.cells(d.digest, r.result.Judge) {
		if p.Kind == Questions || p.Kind == Gates {
			n += len(c.asked(d.questions))
		} else {
			n++
		}
	}
	r.total[p.Name] = n
	r.result.Items += n
	return d, nil
}

// note records a text unless it was recorded before.
func (r *run) note(text string) {
	if slices.Contains(r.result.Notes, text) {
		return
	}
	r.result.Notes = append(r.result.Notes, text)
	if r.Note != nil {
		r.Note(text)
	}
}

func (r *run) part(ctx context.Context, p Part, d *data) error {
	if p.Best != nil {
		c, ok := r.best[p.Best.Of+" "+p.Best.By]
		if !ok {
			return fmt.Errorf("%w: part %s: part %s has no value of %s", ErrMissing, p.Name, p.Best.Of, p.Best.By)
		}
		if p.Best.K > 0 {
			given := map[string]any{"k": p.Best.K}
			for name, v := range c.Retriever.Given {
				if name != "k" {
					given[name] = v
				}
			}
			c.Retriever.Given = given
		}
		p.Encoders, p.Chunkers, p.Retrievers = []Encoder{c.Encoder}, []string{c.Chunker}, []Retriever{c.Retriever}
		r.note(fmt.Sprintf("%s: the retriever is the best of %s by %s: %s %s, %s", p.Name, p.Best.Of, p.Best.By,
			c.Encoder.Name, c.Encoder.Precision, cmp.Or(c.Retriever.named().Mode, "default mode")))
	}
	for _, c := range p.cells(d.digest, r.result.Judge) {
		var err error
		switch p.Kind {
		case Distribution:
			err = r.distribution(ctx, c, d)
		case Classifiers:
			err = r.classifier(ctx, c, d.draws)
		default:
			err = r.cell(ctx, c, d)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// kept returns an item of the cell with a digest: from the journal, or as compute makes it, which is then in the
// journal.
func (r *run) kept(cell, id string, compute func() (Item, error)) (it Item, resumed bool, err error) {
	if it, ok := r.journal.done[cell][id]; ok {
		return it, true, nil
	}
	if it, err = compute(); err == nil {
		err = r.journal.add(cell, id, it)
	}
	return it, false, err
}

// finished counts an item.
func (r *run) finished(part string, resumed bool) {
	r.done[part]++
	if resumed {
		r.result.Resumed++
	}
	if r.Progress != nil {
		r.Progress(part, r.done[part], r.total[part])
	}
}

// cell asks the questions of a cell that are not in the journal.
func (r *run) cell(ctx context.Context, c Cell, d *data) error {
	key, questions := c.Digest(), c.asked(d.questions)
	items := make([]Item, len(questions))
	for i, q := range questions {
		id := digest(q.Query) // a changed question is asked again
		it, resumed, err := r.kept(key, id, func() (it Item, err error) {
			s, err := r.session(ctx, c, d)
			if err == nil && c.calibrated() {
				_, err = r.calibrate(ctx, s, c, d)
			}
			if err != nil {
				return it, err
			}
			return r.ask(ctx, s, d, c, q)
		})
		if err != nil {
			return err
		}
		items[i] = it
		r.finished(c.Part, resumed)
	}
	r.summarise(c, questions, items)
	return nil
}

// allQuestions is the group of all questions.
const allQuestions = "all"

// summarise makes the rows of a cell: of each group, and of all if there are several.
func (r *run) summarise(c Cell, questions []question, items []Item) {
	groups := map[string][]Item{}
	for i, q := range questions {
		groups[q.group] = append(groups[q.group], items[i])
	}
	if len(groups) > 1 {
		groups[allQuestions] = items
	}
	if c.Kind == Gates {
		r.balance(c, groups)
	}
	for _, g := range slices.Sorted(maps.Keys(groups)) {
		values, nodes := map[string][]metric.Score{}, map[string]bool{}
		for _, it := range groups[g] {
			for node := range it.Visits {
				nodes[node] = true
			}
		}
		for _, it := range groups[g] {
			for m, s := range it.Scores {
				values[m] = append(values[m], s)
			}
			for stage, ms := range it.MS {
				values["ms."+stage] = append(values["ms."+stage], metric.Of(ms))
			}
			if !c.Answers && c.Kind != Gates {
				continue
			}
			put := func(name string, v float64) { values[name] = append(values[name], metric.Of(v)) }
			put("llm_calls", float64(it.Calls))
			put("llm_tokens", float64(it.Tokens))
			put("retries", float64(it.Retries))
			put("unknown", number(it.Unknown))
			for node := range nodes {
				put("visits."+node, float64(it.Visits[node]))
			}
		}
		for _, m := range slices.Sorted(maps.Keys(values)) {
			s := metric.Summarise(values[m])
			if g == allQuestions || len(groups) == 1 {
				r.result.Unscored += s.Unscored
				r.better(c, m, s)
			}
			r.add(c, g, m, s)
		}
	}
}

// add adds a row of a cell.
func (r *run) add(c Cell, group, measure string, s metric.Summary) {
	r.result.Rows = append(r.result.Rows, c.row(r.File.Name, group, measure, s))
}

// best is a cell with the highest mean of a measure.
type best struct {
	Cell
	mean float64
}

// better remembers the cell of a part with the highest mean; of equal ones the first.
func (r *run) better(c Cell, measure string, s metric.Summary) {
	key := c.Part + " " + measure
	if b, ok := r.best[key]; s.N > 0 && (!ok || s.Mean > b.mean) {
		r.best[key] = best{c, s.Mean}
	}
}

// judge returns the model that grades, with the session's encoder.
func (r *run) judge(ctx context.Context, s *session) (*metric.Judge, error) {
	j := &metric.Judge{Model: r.Judge, Embed: s.vectors}
	if j.Model != nil {
		return j, nil
	}
	if r.grader == nil {
		cfg := r.Config
		var err error
		if cfg.Model, err = r.model(r.File.Judge); err != nil {
			return nil, err
		}
		if r.grader, err = sluice.Open(ctx, cfg); err != nil {
			return nil, err
		}
	}
	var err error
	j.Model, err = r.grader.Models().Language(ctx)
	return j, err
}
