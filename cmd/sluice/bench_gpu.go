package main

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluice-rag/sluice/bench/gpu"
)

func (a *app) benchGPUCommand() *cobra.Command {
	var o gpu.Options
	var workload, contexts, dims, names, out, results string
	cmd := &cobra.Command{
		Use:   "gpu",
		Short: "the GPU beside the CPU: distributions, matrices, searches",
		Long: `Runs the engine's operations on an NVIDIA GPU and on the CPU in turns, on the same seeded vectors, and prints a
row for each: median and minimum time, TFLOP/s, the share of the rate at which the device multiplies tiles, the time
that copies take at the measured rate, the ratio, and whether the results are the same. "cold" sends everything in
each call, "warm" finds the contexts in the GPU's memory. Without a GPU it ends with the reason and exit code 1.

The workload interval is a distribution in intervals, in bf16x3 and in formats of eight bits; fused is a bounded
distribution in bfloat16 beside cuBLASLt's product of the same sizes; searches have PyTorch, flashlib, FAISS and cuVS
beside them where the Python of --python has them. What is not installed is noted.

--import makes one page of a folder of results of run-gpu (docs/benchmarks/gpu.md).`,
		Example: "  sluice bench gpu --json\n  sluice bench gpu --workload search --contexts 1000000 --dims 384",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if results != "" {
				return gpu.Import(a.stdout, results)
			}
			var err error
			if o.Contexts, err = wholeNumbers("--contexts", contexts); err != nil {
				return err
			}
			if o.Dims, err = wholeNumbers("--dims", dims); err != nil {
				return err
			}
			if o.Workloads, err = someOf("--workload", workload, gpu.Workloads()); err != nil {
				return err
			}
			if o.Peers, err = someOf("--peers", names, gpu.Peers()); err != nil {
				return err
			}
			l, err := a.settings(cmd)
			if err != nil {
				return err
			}
			o.Threads = l.Config.Threads
			b := benchmark{a: a, out: out}
			o.Log, o.Note = b.say, b.say
			o.Row = func(r gpu.Row) { b.row(r) }
			if out != "" {
				o.Keep = func(r *gpu.Report) error { return r.Write(out) }
			}
			report, err := gpu.Run(cmd.Context(), o)
			return b.end(report, err, gpu.ErrOption)
		},
	}
	f := cmd.Flags()
	f.StringVar(&workload, "workload", "all", "what to run: all, or some of "+strings.Join(gpu.Workloads(), ","))
	f.StringVar(&contexts, "contexts", "2000,20000,200000", "numbers of contexts, in turn")
	f.StringVar(&dims, "dims", "384,768", "dimensions, in turn")
	f.IntVar(&o.Queries, "queries", 5000, "queries of distributions and matrices")
	f.IntVar(&o.Rounds, "rounds", 5, "runs of each device that are counted")
	f.StringVar(&o.Device, "gpu", "cuda", "the GPU: cuda for all, cuda:1 for the second")
	f.StringVar(&names, "peers", "all", "libraries beside searches: all, none, or some of "+
		strings.Join(gpu.Peers(), ","))
	f.StringVar(&o.Python, "python", "python3", "interpreter that has them")
	f.StringVar(&o.CuBLASLt, "cublaslt", "",
		"path of libcublasLt (default: what 'make onnxruntime-cuda' brought, or the system's)")
	f.StringVar(&results, "import", "", "print a page of this folder of results instead of running anything")
	f.StringVar(&out, "out", "", "also write report.md and report.json to this folder")
	return cmd
}
