package main

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/internal/config"
	"github.com/sluice-rag/sluice/internal/matrixfile"
	"github.com/sluice-rag/sluice/kernels"
)

const exactScores = "exact"

// matrixFlags holds the flags of `matrix` as given.
type matrixFlags struct {
	metric, dtype, out string
	topK               int
	tensors            []string
}

// matrixReport is the output of `matrix --json`.
type matrixReport struct {
	Rows      int      `json:"rows"`
	Cols      int      `json:"cols"`
	Dim       int      `json:"dim"`
	Metric    string   `json:"metric"`
	DType     string   `json:"dtype"`
	TopK      int      `json:"topk,omitempty"`
	Bound     *float64 `json:"bound"` // of |score − canonical score|; null: canonical, rounded to float32 once
	Seconds   float64  `json:"seconds"`
	PairsPerS float64  `json:"pairs_per_s"`
	ISA       string   `json:"isa"`
	Out       []string `json:"out"`
}

func (a *app) matrixCommand() *cobra.Command {
	var f matrixFlags
	cmd := &cobra.Command{
		Use:   "matrix A B",
		Short: "score every row of one file with every row of another",
		Long: `Computes scores[i][j] = metric(row i of A, row j of B), or with --topk the best rows of B for each row of A.
A and B are .npy files (two-dimensional; float32, float16, or float64, which is rounded to float32; C or Fortran
order) or .safetensors files (F32, F16, BF16, F64). They are mapped, and worked on in blocks: files and results may
be larger than memory.

--dtype says how pairs are multiplied. All but exact come with a bound that no score is further away than from the
exact one: it is printed. Of l2, distances that are short beside it are taken from the differences of the rows. exact
gives canonical scores, the same on every machine, rounded to float32.

--out is written block by block beside its name and gets the name when it is complete. Its ending is the format:
  scores          .npy: float32 matrix                      .safetensors: tensor "scores"
  with --topk     X.npy: X.ids.npy and X.scores.npy         .safetensors: tensors "ids" and "scores"
ids are int64 row numbers of B, the best first, equal ones by number; their scores are exact, in float64.`,
		Example: "  sluice matrix queries.npy contexts.npy --metric cosine --out scores.npy\n" +
			"  sluice matrix queries.npy model.safetensors --tensor embeddings --topk 10 --out best.safetensors --json",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 2 {
				return usagef("two files are wanted, given %d arguments", len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return a.matrix(cmd, args, f) },
	}
	flags := cmd.Flags()
	flags.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		return pflag.NormalizedName(strings.ToLower(name)) // many users write --topK
	})
	flags.StringVar(&f.metric, "metric", "cosine",
		"how rows are compared: cosine, ip (inner product), l2 (Euclidean distance)")
	flags.StringVar(&f.dtype, "dtype", "f32",
		"how pairs are multiplied: f32, bf16x3 (nearly as accurate), bf16, i8, fp8 (on GPUs only), exact")
	flags.IntVar(&f.topK, "topk", 0, "only the best K rows of B for each row of A; always exact")
	flags.StringVar(&f.out, "out", "", "file to write, .npy or .safetensors")
	flags.StringArrayVar(&f.tensors, "tensor", nil,
		"tensor of .safetensors inputs with more than one matrix; given twice, for A and for B")
	a.flags(cmd, "mem_limit_mib", "isa", "device")
	return cmd
}

// check turns the flags into a job without its files.
func (f *matrixFlags) check(cmd *cobra.Command) (job matrixJob, err error) {
	if job.metric, err = kernels.ParseMetric(f.metric); err != nil {
		return job, usageError{fmt.Errorf("--metric: %w", err)}
	}
	if job.exact = f.dtype == exactScores; !job.exact {
		if job.dtype, err = kernels.ParseDType(f.dtype); err != nil {
			return job, usagef("--dtype must be f32, bf16x3, bf16, i8, fp8 or exact, given %q", f.dtype)
		}
	}
	job.topK = f.topK
	given := cmd.Flags().Changed
	switch {
	case f.out == "":
		return job, usagef("--out is missing: where to write the result")
	case matrixfile.CheckName(f.out) != nil:
		return job, usagef("--out must end in .npy or .safetensors, given %q", f.out)
	case given("topk") && f.topK < 1:
		return job, usagef("--topk must be at least 1, given %d", f.topK)
	case f.topK > 0 && given("dtype") && !job.exact:
		return job, usagef("--topk is always exact; --dtype %s does not go with it", f.dtype)
	case len(f.tensors) > 2:
		return job, usagef("--tensor is given %d times, at most once for each input", len(f.tensors))
	}
	return job, nil
}

func (a *app) matrix(cmd *cobra.Command, args []string, f matrixFlags) (err error) {
	job, err := f.check(cmd)
	if err != nil {
		return err
	}
	settings, err := a.settings(cmd)
	if err != nil {
		return err
	}
	tensors := append(f.tensors, "", "")
	if len(f.tensors) == 1 {
		tensors[1] = tensors[0]
	}
	if job.a, err = matrixfile.Open(args[0], tensors[0]); err != nil {
		return err
	}
	defer job.a.Close()
	if job.b, err = matrixfile.Open(args[1], tensors[1]); err != nil {
		return err
	}
	defer job.b.Close()
	if err := job.shapes(); err != nil {
		return err
	}
	for _, s := range []*matrixfile.Source{job.a, job.b} {
		if s.Rounds() {
			a.note("%s is float64; its values are rounded to float32", s.Path)
		}
	}
	return a.runMatrix(cmd, &job, settings.Config, f.out)
}

// apart returns an error if a result would overwrite an input, by whatever path.
func (j *matrixJob) apart(paths []string) error {
	for _, path := range paths {
		out, err := os.Stat(path)
		if err != nil {
			continue // it does not exist
		}
		for _, s := range []*matrixfile.Source{j.a, j.b} {
			if in, err := os.Stat(s.Path); err == nil && os.SameFile(in, out) {
				return usagef("--out would replace %s, which is an input (%s)", path, s.Path)
			}
		}
	}
	return nil
}

func (a *app) runMatrix(cmd *cobra.Command, job *matrixJob, c config.Config, out string) (err error) {
	job.task = a.task("scoring", "pairs")
	defer job.task.Finish()
	job.limit = c.MemLimit
	job.engine, err = engine.New(engine.Options{Threads: c.Threads, ISA: c.ISA, MemLimit: job.limit / 2,
		Progress: job.progress, Device: c.Device, DeviceMemory: c.DeviceMemory,
		Logger: a.logger(c.LogLevel)})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, job.engine.Close()) }()
	start := time.Now()
	report := matrixReport{Rows: job.a.Rows, Cols: job.b.Rows, Dim: job.a.Dim, Metric: job.metric.String(),
		DType: job.dtype.String(), TopK: job.topK}
	if job.exact || job.topK > 0 {
		report.DType = exactScores
	}
	sink, err := matrixfile.Create(out, map[string]string{"metric": report.Metric, "dtype": report.DType},
		job.arrays()...)
	if err != nil {
		return err
	}
	defer sink.Close()
	if err := job.apart(sink.Paths()); err != nil {
		return err
	}
	if err := job.run(cmd.Context(), sink); err != nil {
		return err
	}
	if err := errors.Join(cmd.Context().Err(), sink.Commit()); err != nil {
		return err
	}
	job.task.Finish()
	report.Seconds = time.Since(start).Seconds()
	report.PairsPerS = float64(job.a.Rows) * float64(job.b.Rows) / report.Seconds
	report.ISA, report.Out = job.engine.Describe().ISA, sink.Paths()
	within := "canonical, rounded to float32"
	switch {
	case job.topK > 0:
		report.Bound, within = new(float64), "exact"
	case !job.exact:
		report.Bound, within = &job.bound, fmt.Sprintf("each within %.3g of exact", job.bound)
	}
	a.note("%d × %d scores (%s, dimension %d, %s on %s), %s, in %.3gs, %.3g pairs/s: %s", report.Rows, report.Cols,
		report.Metric,
		report.Dim, report.DType, report.ISA, within, report.Seconds, report.PairsPerS, strings.Join(report.Out, ", "))
	if a.json {
		if err := a.printJSON(report); err != nil { // without the line, a program does not know of the result
			return errors.Join(err, sink.Remove())
		}
	}
	return nil
}
