package experiment

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sluice-rag/sluice/rag/answer"
	"github.com/sluice-rag/sluice/rag/prompt"
	"github.com/sluice-rag/sluice/rag/retrieve"
)

// The errors of this package.
var (
	ErrFile    = errors.New("experiment: bad file")     // invalid YAML, or inconsistent settings
	ErrMissing = errors.New("experiment: not possible") // this build or this data lacks what a part needs
	ErrJournal = errors.New("experiment: bad journal")
)

// File is an experiment. Unknown keys are errors.
type File struct {
	Name   string  `yaml:"name"`
	Title  string  `yaml:"title"`
	Note   string  `yaml:"note"`
	Data   string  `yaml:"data"`  // folder, relative to the file
	Judge  string  `yaml:"judge"` // model that grades; "": the default model
	Seed   uint64  `yaml:"seed"`  // of the samples
	Parts  []Part  `yaml:"parts"`
	Tables []Table `yaml:"tables"`
}

// Part is a grid: all combinations of its lists. An empty list stands for the default.
type Part struct {
	Name string `yaml:"name"`
	Kind Kind   `yaml:"kind"`
	Base Base   `yaml:"base"`
	// Sample is the number of questions of each group that are asked, drawn at random; "*" stands for every group. A
	// group that is not named is not asked. Without Sample, all questions are asked.
	Sample  map[string]int `yaml:"sample"`
	GroupBy GroupBy        `yaml:"group_by"`
	// Best takes encoder, chunker and retriever from the best cell of an earlier part.
	Best *Best `yaml:"best"`

	Encoders   []Encoder   `yaml:"encoders"`
	Chunkers   []string    `yaml:"chunkers"`
	Retrievers []Retriever `yaml:"retrievers"`
	Generators []Generator `yaml:"generators"` // empty: questions are not answered
	Systems    []System    `yaml:"systems"`
	Measures   []string    `yaml:"measures"`
}

// Kind is the kind of a part.
type Kind string

// The kinds.
const (
	Questions    Kind = ""             // asks questions
	Distribution Kind = "distribution" // computes the calibration's table of similarities
	Classifiers  Kind = "classifiers"  // trains and tests classifiers of questions
	Gates        Kind = "gates"        // asks systems whether to retrieve, and nothing else
)

// Base is the text collection that is searched.
type Base struct {
	Set string `yaml:"set"` // folder within the data folder, unless that contains contexts.jsonl itself
	// Files are documents of any kind that are the base instead of a set, relative to the data folder, and Questions is
	// a file with a question on each line, or JSON lines ({"text","answers"}) if its name ends in .jsonl.
	Files     []string `yaml:"files" json:",omitempty"`
	Questions string   `yaml:"questions" json:",omitempty"`

	Topics int `yaml:"topics"` // number of topics, first by name; questions about others are out of scope. 0: all
	// Documents makes one document per topic, with its contexts as paragraphs, so that chunkers have text to divide.
	Documents bool `yaml:"documents"`
	// Pseudo is the number of answerable questions per context, the first ones, that serve as pseudo-queries for
	// calibration and are not asked.
	Pseudo     int      `yaml:"pseudo"`
	OutOfScope []string `yaml:"out_of_scope"` // files of questions in the data folder, JSON lines with "text"
	// FollowUps makes conversations of the questions: those that follow another one about the same context, each of the
	// base's questions after one about another topic, and each one that is out of scope after one of the base.
	FollowUps bool `yaml:"follow_ups" json:",omitempty"`
	// Draws is how often training texts of classifiers are drawn; values are the means over all draws. 0 means 1.
	Draws int `yaml:"draws" json:",omitempty"`
}

// GroupBy is how questions are grouped in tables.
type GroupBy string

// Groups: answerable, unanswerable and out of scope; or reason and factual by dense and sparse (questionType); or
// answerable, unanswerable, near and far.
const (
	ByScope GroupBy = ""
	ByType  GroupBy = "question_type"
	// ByDistance divides questions out of scope into those of the data, and those of other files.
	ByDistance GroupBy = "distance"
)

// Best names an earlier part, and the measure that determines its best cell.
type Best struct {
	Of string `yaml:"of"`
	By string `yaml:"by"`
	K  int    `yaml:"k"` // number of contexts, instead of the retriever's own
}

// Encoder of contexts and questions.
type Encoder struct {
	Name      string `yaml:"name" json:"name,omitempty"`
	Precision string `yaml:"precision" json:"precision,omitempty"`
}

// Retriever has search options by name; the others are retrieve.DefaultOptions.
type Retriever struct {
	Given  map[string]any `yaml:",inline" json:"given,omitempty"` // the options that the file names
	Routed bool           `yaml:"routed" json:"routed,omitempty"` // only in the partitions that the router chooses
}

// Generator is the model that answers, and its options.
type Generator struct {
	Model         string  `yaml:"model" json:"model,omitempty"`
	MaxTokens     int     `yaml:"max_tokens" json:"max_tokens,omitempty"`
	Temperature   float64 `yaml:"temperature" json:"temperature,omitempty"`
	RepeatPenalty float64 `yaml:"repeat_penalty" json:"repeat_penalty,omitempty"`
	NoRepeatNGram int     `yaml:"no_repeat_ngram" json:"no_repeat_ngram,omitempty"`
}

// System determines whether to retrieve, and what to search for.
type System struct {
	Name string `yaml:"name" json:"name,omitempty"`
	// Gate: open (always, the default), closed (never), calibrated, model (the generator decides: one call), supervisor
	// (the generator is asked about each of the Supervise nearest contexts); in parts of kind gates also relevance and
	// uncertainty, whose statistic Score names (statistics).
	Gate      string  `yaml:"gate" json:"gate,omitempty"`
	Policy    string  `yaml:"policy" json:"policy,omitempty"` // of a calibrated gate
	Score     string  `yaml:"score" json:"score,omitempty"`   // score that the gate compares; "": the policy's default
	Threshold float64 `yaml:"threshold" json:"threshold,omitempty"`
	Supervise int     `yaml:"supervise" json:"supervise,omitempty"`
	// Questions is how many questions of each group the system is asked at most, the first ones; 0: all.
	Questions int    `yaml:"questions" json:"questions,omitempty"`
	Transform string `yaml:"transform" json:"transform,omitempty"` // of the question
	Mode      string `yaml:"mode" json:"mode,omitempty"`           // of the search, instead of the retriever's
	Template  string `yaml:"template" json:"template,omitempty"`   // of the prompt with passages; "": the default
	// History is what becomes of the conversation before a question: "" has it searched and answered with, as the
	// program does; ignored.
	History string `yaml:"history" json:"history,omitempty"`
	Flow    string `yaml:"flow" json:"flow,omitempty"` // graph that the question goes through; "": ask
	// Classifier and Features name a cell of a part of kind classifiers.
	Classifier string `yaml:"classifier" json:"classifier,omitempty"`
	Features   string `yaml:"features" json:"features,omitempty"`
}

// ignored is a System.History.
const ignored = "ignored"

// Table is a layout: values of a part with dimensions in rows and columns, beside published values.
type Table struct {
	Title    string   `yaml:"title"`
	Note     string   `yaml:"note"`
	Part     string   `yaml:"part"`
	Rows     []string `yaml:"rows"`
	Columns  []string `yaml:"columns"`
	Measures []string `yaml:"measures"`
	Groups   []string `yaml:"groups"`
	// Change lists measures that get a column with the change of the mean, in percent, from the first to the last of
	// the two values of Columns.
	Change []string `yaml:"change"`
	// Names has, by dimension and value, what the table shows in place of the value, such as the name in a paper.
	Names     map[string]map[string]string `yaml:"names"`
	Plot      bool                         `yaml:"plot"`
	Published [][]string                   `yaml:"published"` // the first row is the header
	Source    string                       `yaml:"source"`    // of the published values
	// Align is the dimension, one of Rows, that the first column of Published names: published values are then put into
	// the lines of the table. "" shows them beside it.
	Align string `yaml:"align"`
}

// Parse reads an experiment and checks everything that does not require data or models.
func Parse(text []byte) (*File, error) {
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	var f File
	if err := d.Decode(&f); err != nil {
		if errors.Is(err, io.EOF) {
			err = errors.New("it is empty")
		}
		return nil, fmt.Errorf("%w: %w", ErrFile, err)
	}
	if err := d.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%w: more than one document", ErrFile)
	}
	if err := f.check(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFile, err)
	}
	return &f, nil
}

func (f *File) check() error {
	if f.Name == "" || len(f.Parts) == 0 {
		return errors.New("an experiment needs a name and at least one part")
	}
	names := map[string]bool{}
	for i := range f.Parts {
		p := &f.Parts[i]
		if p.Name == "" || names[p.Name] {
			return fmt.Errorf("part %d needs a name of its own, given %q", i+1, p.Name)
		}
		if err := p.check(names); err != nil {
			return fmt.Errorf("part %s: %w", p.Name, err)
		}
		names[p.Name] = true
	}
	for _, t := range f.Tables {
		if !names[t.Part] {
			return fmt.Errorf("table %q: there is no part %q", t.Title, t.Part)
		}
		for _, d := range slices.Concat(t.Rows, t.Columns, slices.Sorted(maps.Keys(t.Names))) {
			if !slices.Contains(Dimensions(), d) {
				return fmt.Errorf("table %q: dimension %q (known: %s)", t.Title, d, strings.Join(Dimensions(), ", "))
			}
		}
		switch {
		case len(t.Change) > 0 && len(t.Columns) == 0:
			return fmt.Errorf("table %q: change needs columns, whose first and last value are compared", t.Title)
		case t.Align != "" && (!slices.Contains(t.Rows, t.Align) || len(t.Published) == 0):
			return fmt.Errorf("table %q: align %q needs published values, and to be one of rows %q", t.Title, t.Align,
				t.Rows)
		}
	}
	return nil
}

func (p *Part) check(earlier map[string]bool) error {
	if !slices.Contains([]Kind{Questions, Distribution, Classifiers, Gates}, p.Kind) {
		return fmt.Errorf("kind %q (known: distribution, classifiers, gates, or none)", p.Kind)
	}
	if !slices.Contains([]GroupBy{ByScope, ByType, ByDistance}, p.GroupBy) {
		return fmt.Errorf("group_by %q (known: question_type, distance, or none)", p.GroupBy)
	}
	if err := p.Base.check(p.Kind); err != nil {
		return err
	}
	if p.Base.FollowUps && p.GroupBy != ByScope {
		return errors.New("follow_ups has groups of its own: leave group_by out")
	}
	if p.Best != nil {
		if !earlier[p.Best.Of] {
			return fmt.Errorf("best: there is no earlier part %q", p.Best.Of)
		}
		if len(p.Encoders)+len(p.Chunkers)+len(p.Retrievers) > 0 {
			return errors.New("best stands for encoders, chunkers and retrievers: give one or the other")
		}
	}
	for _, m := range p.Measures {
		if _, _, err := parseMeasure(m); err != nil {
			return err
		}
		if needsAnswer(m) && (len(p.Generators) == 0 || p.Kind == Gates) {
			return fmt.Errorf("measure %s needs a generator that answers", m)
		}
		if p.Kind == Gates && needsPassages(m) {
			return fmt.Errorf("measure %s needs passages, and a part of kind gates searches for none", m)
		}
	}
	if p.Kind == Questions && len(p.Measures) == 0 {
		return errors.New("it measures nothing")
	}
	for _, r := range p.Retrievers {
		o, err := r.options()
		if err != nil {
			return err
		}
		if o.Mode == retrieve.PseudoQuery && p.Base.Pseudo < 1 {
			return errors.New("a search of pseudo-queries needs some: set base.pseudo")
		}
	}
	for _, s := range p.Systems {
		if err := s.check(p); err != nil {
			return fmt.Errorf("system %q: %w", s.Name, err)
		}
	}
	for _, n := range p.Sample {
		if n < 0 {
			return fmt.Errorf("a sample of %d questions", n)
		}
	}
	return nil
}

// check reports what does not go with documents as the base.
func (b Base) check(kind Kind) error {
	switch {
	case len(b.Files) == 0 && b.Questions == "":
		return nil
	case len(b.Files) == 0 || b.Questions == "":
		return errors.New("files and questions are given together")
	case kind != Questions || b.Set != "" || b.Topics+b.Pseudo+len(b.OutOfScope) > 0 || b.Documents || b.FollowUps:
		return errors.New("files and questions stand for the set, and all that is made of it")
	}
	return nil
}

func (s System) check(p *Part) error {
	if p.Kind == Classifiers {
		_, err := s.router()
		return err
	}
	gates := []string{"", "open", "closed", "calibrated", "model", "supervisor"}
	if p.Kind == Gates {
		gates = append(gates, relevanceGate, uncertaintyGate)
	}
	if !slices.Contains(gates, s.Gate) {
		return fmt.Errorf("gate %q (known: %s)", s.Gate, strings.Join(gates[1:], ", "))
	}
	if known := statistics(s.Gate); known != nil && s.Score != "" && !slices.Contains(known, s.Score) {
		return fmt.Errorf("score %q (known of the gate %s: %s)", s.Score, s.Gate, strings.Join(known, ", "))
	}
	if s.History != "" && s.History != ignored {
		return fmt.Errorf("history %q (known: ignored, or none)", s.History)
	}
	if s.Transform != "" && !slices.Contains(prompt.Transforms(), prompt.Transform(s.Transform)) {
		return fmt.Errorf("transform %q (known: %v)", s.Transform, prompt.Transforms())
	}
	o := retrieve.DefaultOptions()
	if o.Mode = cmp.Or(retrieve.Mode(s.Mode), o.Mode); o.Check() != nil {
		return o.Check()
	}
	switch {
	case o.Mode == retrieve.PseudoQuery && p.Base.Pseudo < 1:
		return errors.New("a search of pseudo-queries needs some: set base.pseudo")
	case s.Flow != "" && !slices.Contains(answer.Presets(), s.Flow):
		return fmt.Errorf("flow %q (known: %v)", s.Flow, answer.Presets())
	case (s.Flow != "" || s.Template != "") && len(p.Generators) == 0:
		return errors.New("it needs a generator")
	case (s.Gate == "calibrated" || statistics(s.Gate) != nil) && p.Base.Pseudo < 1:
		return errors.New("a calibrated gate needs pseudo-queries: set base.pseudo")
	case s.Questions < 0:
		return fmt.Errorf("%d questions of each group", s.Questions)
	case (s.Gate == "model" || s.Gate == "supervisor" || s.Gate == uncertaintyGate || s.Transform != "") &&
		len(p.Generators) == 0:
		return errors.New("it needs a generator")
	case s.Gate == "supervisor" && s.Supervise < 1:
		return errors.New("a supervisor needs supervise, the contexts it is asked about")
	}
	return nil
}

// Scale sets the total number of questions per part to n, in the proportions of the part's sample and with at least
// one question per group. A part without a sample is unchanged.
func (f *File) Scale(n int) {
	for _, p := range f.Parts {
		total := p.sampled()
		for g, k := range p.Sample {
			if k > 0 {
				p.Sample[g] = max(1, k*n/total)
			}
		}
	}
}

// sampled is the number of questions that the part's sample asks for.
func (p Part) sampled() (n int) {
	for _, k := range p.Sample {
		n += k
	}
	if p.Sample["*"] > 0 && p.GroupBy == ByType {
		n *= 4 // groups
	}
	return n
}

// Use replaces the encoders and the language models of all parts; "" leaves them as they are.
func (f *File) Use(encoder, model string) {
	var encoders []Encoder
	var generators []string
	if encoder != "" {
		encoders = []Encoder{{Name: encoder}}
	}
	if model != "" {
		generators = []string{model}
	}
	f.UseAll(encoders, generators)
}

// UseAll is Use for several: each generator comes with the settings of every one that it replaces. Without an encoder
// or a generator, those of the file stay.
func (f *File) UseAll(encoders []Encoder, generators []string) {
	for i := range f.Parts {
		p := &f.Parts[i]
		if len(encoders) > 0 && p.Best == nil {
			p.Encoders = slices.Clone(encoders)
		}
		var all []Generator
		for _, model := range generators {
			for _, g := range p.Generators {
				if g.Model = model; !slices.Contains(all, g) {
					all = append(all, g)
				}
			}
		}
		if len(generators) > 0 {
			p.Generators = all
		}
	}
}

// UseBook has all parts ask the questions of a file about a document.
func (f *File) UseBook(book, questions string) error {
	for i := range f.Parts {
		p := &f.Parts[i]
		if p.Kind != Questions || p.GroupBy != ByScope || p.Base.Pseudo > 0 || p.Base.FollowUps {
			return fmt.Errorf("%w: part %s needs contexts with questions about each, and a book has none", ErrFile,
				p.Name)
		}
		p.Base = Base{Files: []string{book}, Questions: questions}
	}
	f.Note = strings.TrimSpace(f.Note + "\nThe base is " + filepath.Base(book) + ".")
	return nil
}

// NeedsData reports whether a part reads the data folder.
func (f *File) NeedsData() bool {
	return slices.ContainsFunc(f.Parts, func(p Part) bool { return len(p.Base.Files) == 0 })
}

// Answers is the number of answers that each generator gives in the parts that draw a sample. A group may have fewer
// questions than the sample asks for.
func (f *File) Answers() (n int) {
	for _, p := range f.Parts {
		if len(p.Generators) == 0 {
			continue
		}
		n += p.sampled() * len(orOne(p.Encoders)) * len(orOne(p.Chunkers)) * len(orOne(p.Retrievers)) *
			len(orOne(p.Systems))
	}
	return n
}
