package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluice-rag/sluice"
	"github.com/sluice-rag/sluice/internal/config"
	"github.com/sluice-rag/sluice/internal/progress"
	"github.com/sluice-rag/sluice/internal/terminal"
	"github.com/sluice-rag/sluice/rag/calibrate"
	"github.com/sluice-rag/sluice/rag/gate"
	"github.com/sluice-rag/sluice/rag/gate/figure"
	"github.com/sluice-rag/sluice/rag/pairs"
)

const calibrateHelp = `Compares every context with questions that the contexts answer (pseudo-queries), and puts the resulting cut-off in
force: the artifact <store>/calibration/NAME.cal.json with all figures and their provenance. The questions are
written by the language model, or extracted from the contexts' words where its scorecard says that it writes worse ones
('models check'; --questions chooses), or read with --queries from {"context_id","text",...} lines. Written questions
are kept as they come: an interrupted run goes on where it stopped.

Questions are made about contexts in a random order until the cut-off is known well enough: until the 95 % interval of
the policy's value is at most 0.075 wide. With 500 contexts, or after five minutes, that ends as well, and what it came to
is said. --sample N asks about N contexts, --sample all about each one, for as long as that takes.

What was counted of a large base is kept as well: after chunks or questions have come or gone, the next run counts
only the pairs that have changed, with the same result. Where that is not possible it counts all of them, and says why.
A small base is counted anew each time, which takes less time.

A store can have several calibrations; one of them is in force: the first one, until 'calibrate use NAME' or --use says
otherwise. Without --name, that one is made anew. --reuse takes distributions that were computed before and only derives
another policy and threshold: those of the calibration that is named, or for a new name those of the one in force.
--from-log FILE finds these by what people have said of answers ('sluice feedback'), and reports what comes of it with
questions that it was not fitted to.`

func (a *app) calibrateCommand() *cobra.Command {
	var given calibrate.Options // from flags that are not settings
	var queries, from, plot string
	var show, reuse bool
	var keep int64
	cmd := &cobra.Command{
		Use:   "calibrate",
		Short: "find the gate's cut-off from contexts and pseudo-queries",
		Long:  calibrateHelp,
		Example: "  sluice calibrate --plot calibration.svg\n" +
			"  sluice calibrate --queries questions.jsonl --json\n" +
			"  sluice calibrate --reuse --policy maximum:p10 --name strict\n" +
			"  sluice calibrate use strict",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkCalibrateFlags(cmd, show, reuse, from != ""); err != nil {
				return err
			}
			return a.with(cmd, func(s *sluice.Sluice, c config.Config) (err error) {
				o := c.Calibrate
				o.Name, o.Use, o.Strict = given.Name, given.Use, given.Strict
				o.Parallel, o.Precise = c.Ask.Parallel, cmd.Flags().Changed("sample")
				if o.Draw, err = drawing(plot); err != nil {
					return err
				}
				if cmd.Flags().Changed("keep-mb") {
					o.KeepBytes = new(keep << 20)
				}
				var r *calibrate.Result
				switch {
				case from != "":
					return a.fromLog(cmd, s, from, o)
				case show:
					r, err = s.Calibrations().Get(cmd.Context(), o.Name)
				case reuse:
					r, err = s.Calibrations().Repolicy(cmd.Context(), o)
				default:
					r, err = a.calibrate(cmd, s, o, queries)
				}
				if err == nil {
					err = a.printCalibration(r)
				}
				if errors.Is(err, gate.ErrThreshold) {
					err = usageError{err}
				}
				return err
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&queries, "queries", "",
		`pseudo-queries to read from FILE.jsonl ("-" for standard input) instead of having them written`)
	f.StringVar(&from, "from-log", "",
		"derive policy and threshold from the feedback in a log of decisions (log.decisions)")
	f.StringVar(&given.Name, "name", "", "name of the calibration (default: the one in force, else \""+
		calibrate.DefaultName+"\")")
	f.BoolVar(&given.Use, "use", false, "put it in force where another one is")
	f.StringVar(&plot, "plot", "", "draw the distributions, policy and threshold into this .png or .svg file")
	f.Int64Var(&keep, "keep-mb", pairs.DefaultLimit>>20,
		"megabytes of pairs kept beside the artifact, so that the next run counts only what has changed; 0 keeps none; "+
			"unless it is given, small bases are counted anew")
	f.BoolVar(&given.Strict, "strict", false,
		"a bad line of --queries, or one of an unknown context, is an error instead of being counted")
	f.BoolVar(&show, "show", false, "the same as 'calibrate show'")
	f.BoolVar(&reuse, "reuse", false, "derive --policy and --threshold from distributions that there are")
	_ = f.MarkHidden("show") // fails only for unknown flags
	a.flags(cmd, "calibrate.", "device", "groups")
	a.generateFlags(cmd)
	cmd.AddCommand(a.calibrationVerbs()...)
	_ = cmd.RegisterFlagCompletionFunc("name", a.completing(calibrationNames, true)) // fails only for unknown flags
	return cmd
}

// generateFlags adds the settings of a language model that serves several requests at once.
func (a *app) generateFlags(cmd *cobra.Command) {
	a.flags(cmd, "generate.slots", "generate.cache_tokens", "generate.batch_tokens", "generate.parallel")
}

// drawing returns a function that plots a calibration into a file, nil for "". It returns an error before the work if
// the file cannot be written.
func drawing(file string) (func(*calibrate.Result, []float64) error, error) {
	if file == "" {
		return nil, nil
	}
	return func(r *calibrate.Result, positive []float64) error {
		r.Plot = file
		return figure.Write(file, r.Calibration, positive)
	}, figure.Check(file)
}

func (a *app) calibrate(
	cmd *cobra.Command, s *sluice.Sluice, o calibrate.Options, queries string,
) (*calibrate.Result, error) {
	bad := 0
	o.OnBad = func(line int, err error) {
		bad++
		a.say("%s:%d: bad line: %v", queries, line, err)
	}
	if queries != "" {
		in, err := a.input(cmd.Context(), queries)
		if err != nil {
			return nil, err
		}
		defer in.Close()
		o.Queries, o.Source = in, queries
	}
	var finish func()
	o.Progress, finish = a.calibrationStages()
	defer finish()
	r, err := s.Calibrate(cmd.Context(), o)
	if bad > 0 {
		a.say("%s: %d bad lines", queries, bad)
	}
	if err != nil && cmd.Context().Err() != nil && queries == "" {
		a.say("the questions written so far are kept; the same command goes on from there")
	}
	return r, err
}

// calibrationStages shows the progress of a calibration until finish is called.
func (a *app) calibrationStages() (set func(stage string, done, total int64), finish func()) {
	stages := map[string]*progress.Task{}
	set = func(stage string, done, total int64) {
		if _, ok := stages[stage]; !ok {
			stages[stage] = a.task(stage,
				map[string]string{"pseudo-queries": "contexts", "embedding": "questions"}[stage])
		}
		stages[stage].Set(done, total)
	}
	return set, func() {
		for _, t := range stages {
			t.Finish()
		}
	}
}

func (a *app) printCalibration(r *calibrate.Result) error {
	if r.Stale > 0 {
		a.warn("calibration is stale by %.3g %%: so many chunks came after it", 100*r.Stale)
	}
	if r.Gone > 0 {
		a.say("%.3g %% of the calibrated chunks are no longer in the store", 100*r.Gone)
	}
	for _, w := range r.Evidence.Warnings {
		a.say("warning: %s", w)
	}
	if a.json {
		return a.printJSON(r)
	}
	var b strings.Builder
	writeVerdict(&b, r)
	writeQuestions(&b, r)
	return errors.Join(a.print(statistics(r, a.screen())), a.printHanging(11, b.String()))
}

func writeVerdict(b *strings.Builder, r *calibrate.Result) {
	if r.Negative.N > 0 {
		fmt.Fprintf(b,
			"\nseparation %.4f: the share of pairs in which a question's own passage is nearer than another\n",
			r.Separation)
	} else {
		b.WriteString("\nseparation not known: there is no other passage to compare with\n")
	}
	if r.Choice != "" {
		fmt.Fprintf(b, "score      %s\n", r.Choice)
	}
	fmt.Fprintf(b, "policy     %s = %.4f", r.Policy, r.PolicyValue)
	if interval := r.IntervalText(); interval != "" {
		fmt.Fprintf(b, "  (%s)", interval)
	}
	fmt.Fprintf(b, "\nthreshold  %g\ncut-off    %.4f\n", r.Threshold, r.Cutoff)
	fmt.Fprintf(b, "verdict    %s\n", r.Evidence.Verdict)
	if d := r.Domains; d != nil {
		all := d.Of
		if d.Rest != nil {
			all = append(slices.Clone(all), *d.Rest)
		}
		for _, x := range all {
			fmt.Fprintf(b, "domain     %s: cut-off %.4f (rank %d of %d)\n", x.Name, x.Cutoff, x.Closed.Rank,
				x.Closed.Of)
		}
	}
	if s := r.Second; s != nil {
		fmt.Fprintf(b, "second     cut-off %.4f (%s): \"topic only\" for %.0f %% of questions whose own context is out of "+
			"reach\n", s.Cutoff, s.Policy, 100*s.Caught)
	}
	for _, s := range r.Promises() {
		fmt.Fprintf(b, "promise    %s\n", s)
	}
	if h := r.Holdout; h != nil {
		fmt.Fprintf(b, "hold-out   %d of %d questions in scope open the gate", h.Retrieved, h.InScope)
		if h.OutOfScope > 0 && r.Corpus.Topics { // else other documents answer them as well, and it says nothing
			fmt.Fprintf(b, "; with their own topic away, %d of %d still do", h.FalseRetrieve, h.OutOfScope)
		}
		b.WriteString("\n")
	}
	if c := r.Counted; c != nil {
		fmt.Fprintf(b, "pairs      %d of %d counted", c.Pairs, c.Of)
		if c.StateBytes > 0 {
			fmt.Fprintf(b, "; %.1f MB kept for the next time", float64(c.StateBytes)/1e6)
		}
		b.WriteString("\n")
	}
	switch r.InForce {
	case r.Name:
		fmt.Fprintf(b, "in force   %s\n", r.File)
	case "":
		fmt.Fprintf(b, "file       %s\n", r.File)
	default:
		fmt.Fprintf(b, "file       %s\nin force   %s, not this one: 'sluice calibrate use %s' changes that\n", r.File,
			r.InForce, r.Name)
	}
	if r.Plot != "" {
		fmt.Fprintf(b, "plot       %s\n", r.Plot)
	}
}

// groupsOf returns the text for what contexts are grouped by.
func groupsOf(r *calibrate.Result) string {
	if r.Corpus.Topics {
		return "topic"
	}
	return "document"
}

func writeQuestions(b *strings.Builder, r *calibrate.Result) {
	q := r.Queries
	fmt.Fprintf(b, "questions  %d about %d contexts, %s", q.Queries, q.Sampled,
		map[string]string{"generated": "written by " + q.Model, "file": "from " + q.Source,
			calibrate.Extracted: "extracted from their words"}[q.Kind])
	for _, reason := range slices.Sorted(maps.Keys(q.Rejected)) {
		fmt.Fprintf(b, "; rejected %d %s", q.Rejected[reason], strings.ReplaceAll(reason, "_", " "))
	}
	b.WriteString("\n")
	if text := r.SampleText(); text != "" {
		fmt.Fprintf(b, "sample     %s\n", text)
	}
}

// similarity is the quantity of a calibration's distributions: of each question with a passage.
const similarity = "similarity with the"

// statistics returns the table of a calibration's distributions, with a row for each, or on a narrow terminal a column
// for each.
func statistics(r *calibrate.Result, screen terminal.Screen) string {
	type row struct {
		name, brief string
		s           *gate.Stats
	}
	rows := []row{{"own passage", "own", &r.Positive}, {"other passages (" + r.Negatives + ")", "others", &r.Negative},
		{"best passage", "best", &r.Maximum}, {"best of other " + groupsOf(r) + "s", "other " + groupsOf(r) + "s",
			r.MaximumOther}}
	if s := r.Chosen(); s != nil { // the distribution that the gate uses
		with, and := "with words", "words"
		if r.Score == string(gate.PseudoQuery) {
			with, and = "by questions", "questions"
		}
		rows = append(rows, row{"own, " + with, "own + " + and, &s.Positive},
			row{"best, " + with, "best + " + and, &s.Maximum},
			row{"best of others, " + with, "others + " + and, s.MaximumOther})
	}
	titles := []string{"n", "min", "p5", "Q1", "mean", "median", "Q3", "p95", "max"}
	wide := terminal.Table{Columns: []terminal.Column{{Title: similarity, Right: true}}}
	narrow := terminal.Table{Columns: []terminal.Column{{}}} // under a heading line
	for _, title := range titles {
		wide.Columns = append(wide.Columns, terminal.Column{Title: title, Right: true, Keep: true})
	}
	lines := make([][]string, len(titles))
	for i := range lines {
		lines[i] = []string{titles[i]}
	}
	for _, row := range rows {
		s := row.s
		if s == nil || s.N == 0 {
			continue
		}
		narrow.Columns = append(narrow.Columns, terminal.Column{Title: row.brief, Right: true, Keep: true})
		cells := []string{row.name, fmt.Sprint(s.N)}
		for _, x := range []float64{s.Min, s.P5, s.Q1, s.Mean, s.Median, s.Q3, s.P95, s.Max} {
			cells = append(cells, fmt.Sprintf("%.4f", x))
		}
		for i := range lines {
			lines[i] = append(lines[i], cells[i+1])
		}
		wide.Add(cells...)
	}
	for _, line := range lines {
		narrow.Add(line...)
	}
	if wide.Columns[0].Keep = true; screen.Terminal() && wide.Width() > screen.Columns {
		return similarity + " …\n" + narrow.Text(screen)
	}
	return wide.Text(screen)
}
