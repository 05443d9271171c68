package main

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-rag/sluice/engine/plan"
	"github.com/sluice-rag/sluice/internal/terminal"
)

func (a *app) clusterCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "cluster", Short: "plan a calibration on many machines",
		Long: `A base that outgrows one machine is calibrated by many, with the same result, by the program
sluice-cluster (docs/cluster.md). What that will cost is computed here.`}
	cmd.AddCommand(a.clusterPlanCommand())
	return group(cmd)
}

type clusterFlags struct {
	contexts, questions    float64
	dim                    int
	workers                []int
	rate, scores, words    float64 // pairs, pairs and bytes a second; 0: measured
	transfer, memory, text float64
	block                  float64
	exact                  bool
	chances                plan.Chances
}

// clusterReport is the output of `cluster plan --json`.
type clusterReport struct {
	*plan.Plan
	Chances plan.Chances `json:"chances"`
	Runs    []plan.Run   `json:"runs"`
}

func (a *app) clusterPlanCommand() *cobra.Command {
	f := clusterFlags{chances: plan.DefaultChances()}
	cmd := &cobra.Command{Use: "plan", Short: "what a calibration on many machines costs: hours, bytes, memory",
		Long: `Divides contexts × questions into blocks, and says what counting them takes: the passes over all
contexts, the bytes that go to and from the object storage, a worker's memory and the hours of all machines.

How fast a worker is, is measured on this machine in about three seconds, unless the rates are given. The runs below the
plan are simulated, with workers whose speeds differ, and that fail and begin a block anew. "fixed" is for runners that
hand out all blocks beforehand.`,
		Example: "  sluice cluster plan --contexts 1e9 --questions 1e5\n" +
			"  sluice cluster plan --contexts 2e8 --questions 3e4 --dim 768 --workers 16 --rate 2e9 --json",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.clusterPlan(cmd, f) }}
	fl := cmd.Flags()
	fl.Float64Var(&f.contexts, "contexts", 0, "contexts of the base")
	fl.Float64Var(&f.questions, "questions", 0, "questions of the calibration")
	fl.IntVar(&f.dim, "dim", plan.DefaultDim, "numbers of a vector")
	fl.IntSliceVar(&f.workers, "workers", []int{8, 64, 512}, "numbers of workers to simulate")
	fl.Float64Var(&f.rate, "rate", 0, "pairs that a worker counts a second (0: measured here)")
	fl.Float64Var(&f.scores, "score-rate", 0, "pairs that it scores with words a second (0: measured here)")
	fl.Float64Var(&f.words, "word-rate", 0, "bytes of text whose words it counts a second (0: measured here)")
	fl.Float64Var(&f.transfer, "transfer", 100e6, "bytes a second between a worker and the object storage")
	fl.Float64Var(&f.memory, "memory", plan.DefaultMemory, "bytes that a worker may take")
	fl.Float64Var(&f.text, "text", plan.DefaultTextBytes, "bytes of a context's text")
	fl.Float64Var(&f.block, "block", plan.DefaultBlock.Seconds(), "seconds that a block should take")
	fl.BoolVar(&f.exact, "exact", false,
		"exact quantiles of the other passages' scores, by a second pass over all pairs")
	fl.Float64Var(&f.chances.Spread, "spread", f.chances.Spread,
		"how far speeds differ (standard deviation of their logarithm)")
	fl.Float64Var(&f.chances.Failures, "failures", f.chances.Failures, "failures of a worker in an hour")
	fl.Float64Var(&f.chances.Restart, "restart", f.chances.Restart, "seconds until another worker takes its place")
	fl.Uint64Var(&f.chances.Seed, "seed", f.chances.Seed, "seed of the simulation")
	a.flags(cmd, "isa")
	return cmd
}

func (a *app) clusterPlan(cmd *cobra.Command, f clusterFlags) error {
	in := plan.Input{Dim: f.dim, Block: time.Duration(f.block * float64(time.Second)), Exact: f.exact}
	for _, x := range []struct {
		flag  string
		given float64
		to    *int64
	}{{"contexts", f.contexts, &in.Contexts}, {"questions", f.questions, &in.Questions},
		{"memory", f.memory, &in.Memory}, {"text", f.text, &in.TextBytes}} {
		if !(x.given >= 1 && x.given <= 1<<50) {
			return usagef("--%s must be at least 1 and at most 2^50, given %g", x.flag, x.given)
		}
		*x.to = int64(math.Round(x.given))
	}
	if len(f.workers) == 0 {
		return usagef("--workers names no number of workers")
	}
	in.Workers = f.workers[0]
	in.Rates = plan.Rates{Products: 1, Scores: 1, Words: 1, Transfer: f.transfer}
	if _, err := plan.New(in); err != nil { // before rates are measured
		return usageError{err}
	}
	rates, err := a.clusterRates(cmd, f)
	if err != nil {
		return err
	}
	in.Rates = rates
	r := clusterReport{Chances: f.chances, Runs: []plan.Run{}}
	if r.Plan, err = plan.New(in); err != nil {
		return planError(err)
	}
	for _, workers := range f.workers {
		run, err := r.Simulate(workers, f.chances)
		if err != nil {
			return planError(err)
		}
		r.Runs = append(r.Runs, run)
	}
	if a.json {
		return a.printJSON(r)
	}
	return a.printPlan(&r)
}

func planError(err error) error {
	if errors.Is(err, plan.ErrInput) {
		return usageError{err}
	}
	return err
}

func (a *app) printPlan(r *clusterReport) error {
	p, d := r.Plan, float64(r.Dim)
	var b strings.Builder
	fmt.Fprintf(&b, "pairs     %.3g: %.3g contexts × %.3g questions of dimension %d\n", float64(p.Contexts)*
		float64(p.Questions), float64(p.Contexts), float64(p.Questions), p.Dim)
	fmt.Fprintf(&b, "rates     a worker counts %.3g pairs/s, scores %.3g pairs/s with words, counts words of %s/s, "+
		"moves %s/s\n          %s\n", p.Rates.Products/d, p.Rates.Scores/d, size(p.Rates.Words), size(p.Rates.Transfer),
		p.Rates.From)
	fmt.Fprintf(&b, "blocks    %d of %.3g contexts × %.3g questions; words are scored for %d questions\n", p.Blocks,
		float64(p.PerBlock.Contexts.To), float64(p.PerBlock.Questions.To), p.Rated)
	fmt.Fprintf(&b, "merge     parts of %s, %d at a time, %d levels, %s moved\n", size(float64(p.PartBytes)),
		plan.FanIn, p.Levels, size(p.MergeBytes))
	fmt.Fprintf(&b, "worker    %s of memory\n", size(float64(p.MemoryBytes)))
	fmt.Fprintf(&b, "all       %.3g machine hours, %s moved\n\n", p.MachineHours, size(p.Bytes()))
	passes := terminal.Table{Columns: []terminal.Column{{Title: "pass", Keep: true}}}
	for _, title := range []string{"pairs", "machine hours", "read", "written"} {
		passes.Columns = append(passes.Columns, terminal.Column{Title: title, Right: true, Keep: true})
	}
	for _, x := range p.Passes {
		passes.Add(x.Name, fmt.Sprintf("%.3g", x.Pairs), fmt.Sprintf("%.3g", x.Seconds/3600), size(x.Read),
			size(x.Written))
	}
	runs := terminal.Table{Columns: []terminal.Column{{Title: "workers", Right: true, Keep: true}}}
	for _, title := range []string{"hours", "fixed", "last 1 %", "slow block", "begun anew", "moved",
		"machine hours"} {
		runs.Columns = append(runs.Columns, terminal.Column{Title: title, Right: true, Keep: true})
	}
	for _, x := range r.Runs {
		runs.Add(fmt.Sprint(x.Workers), fmt.Sprintf("%.3g", x.Hours), fmt.Sprintf("%.3g", x.Fixed),
			fmt.Sprintf("%.3g h", x.Tail), fmt.Sprintf("%.0f s", x.Slow), fmt.Sprint(x.Failed), size(x.Bytes),
			fmt.Sprintf("%.3g", x.Machine))
	}
	return a.print(b.String() + passes.Text(a.screen()) + "\n" + runs.Text(a.screen()))
}

// size returns a number of bytes in words.
func size(bytes float64) string {
	units := []string{"B", "kB", "MB", "GB", "TB", "PB", "EB"}
	i := 0
	for ; bytes >= 1000 && i < len(units)-1; i++ {
		bytes /= 1000
	}
	return fmt.Sprintf("%.3g %s", bytes, units[i])
}
