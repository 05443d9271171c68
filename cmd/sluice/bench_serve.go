package main

import (
	"cmp"
	"context"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluice-rag/sluice"
	"github.com/sluice-rag/sluice/bench/serve"
	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/engine/cores"
	"github.com/sluice-rag/sluice/internal/models"
)

func (a *app) benchServeCommand() *cobra.Command {
	var o serve.Options
	var workload, peers, connections, out string
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "the server: gate and retrieval, embeddings and answers over HTTP",
		Long: `Runs Sluice's server and others in turns, with the same connections and questions, and prints a row for each:
rate, p50 and p99, CPU time of the server for each query, memory. Ratios are computed round by round. Run it on a quiet
machine: another busy process disturbs the times.

  gate        squad16's questions over one connection: embedding and decision apart
  lookup      gate and retrieval of squad16's questions, beside FastAPI + onnxruntime + tokenizers + FAISS
  vectors     the same over a million contexts, with the questions' vectors given (4 GB in the cache, some minutes)
  embeddings  questions at 32 connections, beside one call in-process
  generate    8 connections: prompts that share nothing, and questions about the same passages, beside llama-server

'make bench-serve' sets the peers up (about 150 MB, and llama-server). A missing peer is noted and left out.`,
		Example: "  sluice bench serve --workload lookup --json\n" +
			"  sluice bench serve --short --peers none\n" +
			"  sluice bench serve --out docs/benchmarks/results-serve",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if o.Peers, err = someOf("--peers", peers, serve.Peers()); err != nil {
				return err
			}
			if o.Workloads, err = workloads(workload, serve.Workloads()); err != nil {
				return err
			}
			if o.Connections, err = wholeNumbers("--connections", connections); err != nil {
				return err
			}
			return a.benchServe(cmd, o, out)
		},
	}
	f := cmd.Flags()
	f.StringVar(&workload, "workload", "all", "what to run: all, or some of "+strings.Join(serve.Workloads(), ","))
	f.StringVar(&peers, "peers", "all", "competitors: all, none, or some of "+strings.Join(serve.Peers(), ","))
	f.StringVar(&connections, "connections", "1,8,32", "connections of lookup and vectors, in turn")
	f.IntVar(&o.Rounds, "rounds", 5, "runs of every competitor")
	f.Float64Var(&o.Seconds, "seconds", 5, "length of a run")
	f.IntVar(&o.Rows, "rows", 1_000_000, "contexts of 'vectors'")
	f.BoolVar(&o.Short, "short", false, "one short run and few contexts, to see that it works")
	f.StringVar(&o.Data, "data", "../shared/data", "folder with squad16")
	f.StringVar(&o.Python, "python", "", "interpreter of the peer (default: the one that the set-up made)")
	f.StringVar(&o.Tools, "tools", "",
		"folder of llama-server (default build/out, here or beside the program's folder)")
	f.StringVar(&out, "out", "", "also write report.md and report.json to this folder")
	return cmd
}

func (a *app) benchServe(cmd *cobra.Command, o serve.Options, out string) error {
	l, err := a.settings(cmd)
	if err != nil {
		return err
	}
	if o.Program, err = os.Executable(); err != nil {
		return err
	}
	dir, err := models.Locate(cmp.Or(l.Config.Encoder, sluice.DefaultEncoder))
	if err != nil {
		return err
	}
	if o.Model, err = models.LocateGGUF(cmp.Or(l.Config.Model, sluice.DefaultModel)); err != nil {
		return err
	}
	o.Threads, o.Tools = l.Config.Threads, cmp.Or(o.Tools, peerTools())
	o.Open = func(ctx context.Context) (serve.Encoder, error) {
		return embed.Open(ctx, dir, embed.Options{Cores: cores.New(o.Threads)})
	}
	b := benchmark{a: a, out: out}
	o.Log, o.Note = b.say, b.say
	o.Row = func(r serve.Row) { b.row(r) }
	o.Ratio = func(r serve.Ratio) { b.row(r) }
	report, err := serve.Run(cmd.Context(), o)
	return b.end(report, err, serve.ErrOption)
}
