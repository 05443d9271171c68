package main

import (
	"cmp"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluice-rag/sluice"
	benches "github.com/sluice-rag/sluice/bench" // "bench" is a type of the tests
	"github.com/sluice-rag/sluice/internal/config"
)

func (a *app) benchCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "measure Sluice against its peers and the limits of the machine",
	}
	cmd.AddCommand(a.benchComputeCommand(), a.benchEmbedCommand(), a.benchGenerateCommand(), a.benchServeCommand(),
		a.benchGPUCommand(), a.benchWorkerCommand())
	return group(cmd)
}

func (a *app) benchComputeCommand() *cobra.Command {
	var o benches.Options
	var peers, out string
	cmd := &cobra.Command{
		Use:   "compute",
		Short: "the compute core: distributions, threshold decisions, top-k, matrices",
		Long: `Runs Sluice's variants and the peers in turns on the same seeded data, in one process run, and prints a
row for each: median and minimum time, percentage of the physical limit, and error against canonical scores. Ratios
compare with the fastest peer of equal accuracy. Run it on a quiet machine: another busy process disturbs the times.

  w1      quantiles of 1,700 contexts × 5,100 pseudo-queries, 384 and 768 dimensions
  w2      the same for 20,000 × 60,000
  w3      is any of a million vectors above the cut-off? one query, and 32
  w4      the ten nearest of a million vectors, one query, and 64
  cover   w3's decision with a lexical term, beside the one without
  matrix  4,096 × 12,288 inner products, stored
  memory  distributions under limits of working memory, 1 GiB to 8 MiB; not part of 'all'

The peers need a Python environment and a Go program, which 'make bench-compute' sets up (about 600 MB). A missing
peer is noted and left out. The data sets take about 4 GB in the cache.`,
		Example: "  sluice bench compute --workload w1 --json\n" +
			"  sluice bench compute --short --peers none\n" +
			"  sluice bench compute --out docs/benchmarks/results",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.Rounds < 0 {
				return usagef("--rounds must not be negative, given %d", o.Rounds)
			}
			if o.Workload != "all" && !slices.Contains(benches.Workloads(), o.Workload) {
				return usagef("--workload must be one of %s, all, given %q", strings.Join(benches.Workloads(), ", "),
					o.Workload)
			}
			var err error
			if o.Peers, err = someOf("--peers", peers, benches.Peers()); err != nil {
				return err
			}
			return a.with(cmd, func(s *sluice.Sluice, c config.Config) error {
				o.Threads, o.ISA, o.Embed = c.Threads, c.ISA, s.Embed
				b := benchmark{a: a, out: out}
				o.Log, o.Note = b.say, b.say
				o.Row = func(r benches.Row) { b.row(r) }
				o.Ratio = func(r benches.Ratio) { b.row(r) }
				report, err := benches.Compute(cmd.Context(), o)
				return b.end(report, err, benches.ErrOption)
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Workload, "workload", "all", "what to run: "+strings.Join(benches.Workloads(), ", ")+" or all")
	f.IntVar(&o.Rounds, "rounds", 0, "runs of every competitor (0: each workload's own number)")
	f.BoolVar(&o.Short, "short", false, "tiny shapes, to see that it works")
	f.StringVar(&peers, "peers", "all", "competitors: all, none, or some of "+strings.Join(benches.Peers(), ","))
	f.StringVar(&o.Data, "data", "../shared/data", "folder with squad16 and clinc150, for real vectors")
	f.StringVar(&out, "out", "", "also write report.md, report.json and plots to this folder")
	return cmd
}

// benchmark prints the rows and writes the report of a verb of 'bench'.
type benchmark struct {
	a      *app
	out    string // folder of the report; "": not written
	failed error  // the first error of printing: the benchmark goes on, because its report may still be written
}

func (b *benchmark) say(text string) { b.a.note("%s", text) }

// row prints a row with --json.
func (b *benchmark) row(r any) {
	if b.a.json {
		b.failed = cmp.Or(b.failed, b.a.printJSON(r))
	}
}

// end prints and writes the report of a run that ended with err. If err wraps option, it is a usage error.
func (b *benchmark) end(report interface {
	Markdown(w io.Writer) error
	Write(dir string) error
}, err, option error) error {
	switch {
	case errors.Is(err, option):
		return usageError{err}
	case err != nil:
		return err
	case !b.a.json:
		b.failed = report.Markdown(b.a.stdout)
	}
	if b.out != "" {
		if err := report.Write(b.out); err != nil {
			return err
		}
		b.a.note("wrote %s", b.out)
	}
	return b.failed
}
