package main

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluice-rag/sluice"
	"github.com/sluice-rag/sluice/bench/encode"
	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/engine/cores"
	"github.com/sluice-rag/sluice/internal/models"
)

func (a *app) benchEmbedCommand() *cobra.Command {
	var o encode.Options
	var precisions, peers, workload, out string
	cmd := &cobra.Command{
		Use:   "embed",
		Short: "the encoder: many texts, one question, and what the vectors are worth",
		Long: `Runs Sluice's encoder and its peers in turns over the same texts with the same weights, and prints a row for
each: texts and tokens a second, percentage of the measured limit, largest error of a vector's component to float64,
and NDCG@10 on squad16. Ratios are computed round by round. Run it on a quiet machine: another busy process disturbs
the times.

  mixed     2,000 questions and sentences, all in one call
  contexts  squad16's 646 contexts, all in one call
  question  one question of 12 tokens after the other: p50 and p99
  quality   errors and cosines to float64, NDCG@10 on squad16 and xquad-de, AUROC of the gate's score

The mode cuda is float32 on the first NVIDIA GPU ('make onnxruntime-cuda'); its rows are compared with f32's as with a
peer's. Without a GPU it is noted and left out, as a missing peer is.

Peers get batches of 32 texts of similar length, as many threads as Sluice, and the fastest of their settings. 'make
bench-embed' sets them up (about 150 MB). A missing peer is noted and left out.`,
		Example: "  sluice bench embed --workload question --json\n" +
			"  sluice bench embed --short --peers none\n" +
			"  sluice bench embed --out docs/benchmarks/embed",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if o.Rounds < 0 {
				return usagef("--rounds must not be negative, given %d", o.Rounds)
			}
			if o.Peers, err = someOf("--peers", peers, encode.Peers()); err != nil {
				return err
			}
			if o.Workloads, err = workloads(workload, encode.Workloads()); err != nil {
				return err
			}
			if o.Precisions, err = someOf("--precision", precisions, precisionNames()); err != nil {
				return err
			}
			if len(o.Precisions) == 0 {
				return usagef("--precision none leaves nothing to compare with")
			}
			return a.benchEmbed(cmd, o, out)
		},
	}
	f := cmd.Flags()
	f.StringVar(&workload, "workload", "all", "what to run: all, or some of "+strings.Join(encode.Workloads(), ","))
	f.StringVar(&precisions, "precision", "all", "Sluice's modes: all, or some of "+strings.Join(precisionNames(), ","))
	f.StringVar(&peers, "peers", "all", "competitors: all, none, or some of "+strings.Join(encode.Peers(), ","))
	f.IntVar(&o.Rounds, "rounds", 0, "runs of every competitor (0: each workload's own number)")
	f.BoolVar(&o.Short, "short", false, "few texts, to see that it works")
	f.StringVar(&o.Data, "data", "../shared/data", "folder with squad16, and with xquad-de and clinc150 for 'quality'")
	f.StringVar(&o.Python, "python", "", "interpreter of the peers (default: the one that the set-up made)")
	f.StringVar(&out, "out", "", "also write report.md and report.json to this folder")
	return cmd
}

// precisionNames returns the modes of an encoder: precisions on the CPU, and float32 on a GPU.
func precisionNames() []string {
	return []string{string(embed.F32), string(embed.Int8), embed.DeviceCUDA}
}

// openMode opens an encoder in a mode. If a GPU is among the modes, all modes use its library, which also computes on
// the CPU; if the library is missing, the GPU's mode reports why.
func openMode(
	dir string, modes []string,
) func(ctx context.Context, precision string, threads int) (encode.Encoder, error) {
	library := ""
	if slices.Contains(modes, embed.DeviceCUDA) {
		if path, err := embed.GPULibrary(embed.DeviceCUDA); err == nil {
			library = path
		}
	}
	return func(ctx context.Context, precision string, threads int) (encode.Encoder, error) {
		o := embed.Options{Cores: cores.New(threads), Library: library, Precision: embed.Precision(precision)}
		if precision == embed.DeviceCUDA {
			o.Device, o.Precision = embed.DeviceCUDA, embed.F32
		}
		return embed.Open(ctx, dir, o)
	}
}

func (a *app) benchEmbed(cmd *cobra.Command, o encode.Options, out string) error {
	l, err := a.settings(cmd)
	if err != nil {
		return err
	}
	o.Threads = l.Config.Threads
	dir, err := models.Locate(cmp.Or(l.Config.Encoder, sluice.DefaultEncoder))
	if err != nil {
		return err
	}
	o.Open = openMode(dir, o.Precisions)
	b := benchmark{a: a, out: out}
	o.Log, o.Note = b.say, b.say
	o.Row = func(r encode.Row) { b.row(r) }
	o.Ratio = func(r encode.Ratio) { b.row(r) }
	o.Quality = func(r encode.QualityRow) { b.row(r) }
	report, err := encode.Run(cmd.Context(), o)
	return b.end(report, err, encode.ErrOption)
}
