// Command sluice-cluster calibrates a knowledge base by many workers on a runner of Apache Beam (docs/cluster.md). The
// same program is the workers' (--worker_binary).
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/runners"
	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/runners/dataflow" // --runner dataflow
	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/runners/flink"    // --runner flink
	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/runners/prism"    // --runner prism
	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/runners/spark"    // --runner spark
	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/runners/universal"
	_ "gocloud.dev/blob/azureblob" // azblob://
	_ "gocloud.dev/blob/fileblob"  // file://
	_ "gocloud.dev/blob/gcsblob"   // gs://
	_ "gocloud.dev/blob/s3blob"    // s3://

	"github.com/sluice-rag/sluice"
	"github.com/sluice-rag/sluice/cluster/ingest"
	"github.com/sluice-rag/sluice/cluster/objects"
	"github.com/sluice-rag/sluice/cluster/pipeline"
	"github.com/sluice-rag/sluice/cluster/worker"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/rag/calibrate"
	"github.com/sluice-rag/sluice/rag/corpus"
	"github.com/sluice-rag/sluice/rag/gate"
)

const usage = `usage: sluice-cluster VERB [flags]

  ingest      make a base of JSON lines or a folder in an object storage, by many workers
  calibrate   calibrate a store, or a base in an object storage, by many workers

Verbs come first. 'sluice-cluster calibrate -help' prints the flags, those of Apache Beam among them; 'sluice cluster plan' says
what a calibration costs.
`

var errUsage = errors.New("usage")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "sluice-cluster:", err)
		os.Exit(1)
	}
}

// calibrateFlags holds the flags of the verb calibrate.
type calibrateFlags struct {
	storage, store, encoder, queries, name string
	base, questions, out                   string
	rows, step                             int
	exact                                  bool
}

func (f *calibrateFlags) register(to *flag.FlagSet) {
	to.StringVar(&f.storage, "storage", "",
		"object storage that all workers reach: file:///…, s3://…, gs://…, azblob://…")
	to.StringVar(&f.store, "store", "", "store to calibrate; its vectors and words are exported to the storage")
	to.StringVar(&f.encoder, "encoder", "", "encoder of the questions, a name or a folder; empty takes the store's own")
	to.StringVar(&f.queries, "queries", "", `with --store: questions, lines of {"context_id","text"}`)
	to.StringVar(&f.name, "name", "", "with --store: name of the calibration")
	to.StringVar(&f.base, "base", "", "instead of --store: a base in the storage, as 'base/…'")
	to.StringVar(&f.questions, "questions", "", "with --base: its questions in the storage, as 'questions/…'")
	to.StringVar(&f.out, "out", "", "with --base: artifact to write, *.cal.json")
	to.IntVar(&f.rows, "rows", 1<<18, "with --store: contexts of a segment; a block is a segment × --step questions")
	to.IntVar(&f.step, "step", 1<<17, "questions of a block")
	to.BoolVar(&f.exact, "exact", true,
		"exact quantiles of the negative distribution, by a further pass where it is needed")
}

func run(ctx context.Context) error {
	// A runner starts workers without a verb: with flags, or nothing.
	verb := ""
	if len(os.Args) > 1 && !strings.HasPrefix(os.Args[1], "-") {
		verb = os.Args[1]
		os.Args = append(os.Args[:1], os.Args[2:]...)
	}
	var f calibrateFlags
	var g ingestFlags
	if verb == "ingest" {
		g.register(flag.CommandLine)
	} else {
		f.register(flag.CommandLine)
	}
	flag.Parse()
	beam.Init() // of a worker it does not return
	runner := cmp.Or(*runners.Runner, "prism")
	switch verb {
	case "ingest":
		return g.run(ctx, runner)
	case "calibrate":
		return f.run(ctx, runner)
	}
	fmt.Fprint(os.Stderr, usage)
	return errUsage
}

// ingestFlags holds the flags of the verb ingest.
type ingestFlags struct {
	storage, lines, folder string
	bytes                  int
	metric                 string
	job                    ingest.Job
}

func (f *ingestFlags) register(to *flag.FlagSet) {
	to.StringVar(&f.storage, "storage", "",
		"object storage that all workers reach: file:///…, s3://…, gs://…, azblob://…")
	to.StringVar(&f.lines, "lines", "", "file of JSON lines, each with an id and a text")
	to.StringVar(&f.folder, "folder", "", "instead of --lines: folder, or objects by an address like --storage's: these files are copied to the storage")
	to.StringVar(&f.job.Encoder, "encoder", "", "folder of the encoder, by the same path on all workers")
	to.StringVar(&f.job.Collection, "collection", "", "stands before the ids of JSON lines, and names the folder")
	to.StringVar(&f.job.Chunk, "chunk", "", "SIZE/OVERLAP of chunks in tokens")
	to.BoolVar(&f.job.NoChunk, "no_chunk", false, "one chunk for each line")
	to.StringVar(&f.job.Language, "language", "", "language of lines that name none")
	to.StringVar(&f.metric, "metric", "cosine", "how vectors are compared: cosine, ip, l2")
	to.IntVar(&f.bytes, "block", 8<<20, "bytes of lines or files that are a task")
}

func (f *ingestFlags) run(ctx context.Context, runner string) (err error) {
	if f.job.Metric, err = kernels.ParseMetric(f.metric); err != nil {
		return fmt.Errorf("%w: --metric: %w", errUsage, err)
	}
	if f.storage == "" || (f.lines == "") == (f.folder == "") || f.job.Encoder == "" ||
		f.lines != "" && f.job.Collection == "" {
		return fmt.Errorf("%w: --storage, --encoder and one of --lines and --folder are wanted; with --lines, "+
			"--collection", errUsage)
	}
	of, skipped, err := pipeline.Ingest(ctx, runner, f.storage, f.begin)
	for _, k := range skipped {
		fmt.Fprintf(os.Stderr, "skipped %s: %s\n", k.Name, k.Why)
	}
	if err == nil {
		fmt.Println(of)
	}
	return err
}

func (f *ingestFlags) begin(ctx context.Context, s *objects.Store) (job string, err error) {
	if f.folder != "" {
		return ingest.BeginFolder(ctx, s, f.folder, f.job, f.bytes, func(k corpus.Skipped) {
			fmt.Fprintf(os.Stderr, "skipped %s: %v\n", k.Source, k.Err)
		})
	}
	file, err := os.Open(f.lines)
	if err != nil {
		return "", err
	}
	defer file.Close()
	f.job.File = filepath.Base(f.lines)
	return ingest.Begin(ctx, s, file, f.job, f.bytes)
}

func (f *calibrateFlags) run(ctx context.Context, runner string) error {
	if f.storage == "" || (f.store == "") == (f.base == "") || f.base != "" && (f.questions == "" || f.out == "") ||
		f.rows < 1 || f.step < 1 {
		return fmt.Errorf("%w: --storage and one of --store and --base are wanted; with --base, --questions and --out; "+
			"--rows and --step are at least 1, given %d and %d", errUsage, f.rows, f.step)
	}
	process, err := worker.Shared()
	if err != nil {
		return err
	}
	opts := pipeline.CalibrateOptions{Runner: runner, Rows: f.rows, Step: f.step, Exact: f.exact}
	if f.store != "" {
		return f.ofStore(ctx, process, opts)
	}
	c, positive, err := pipeline.Calibrate(ctx, process.Engine, f.storage, f.base, f.questions, opts)
	if err != nil {
		return err
	}
	if err := c.Save(f.out, positive); err != nil {
		return err
	}
	fmt.Printf("%s: cut-off %v, %s of %d questions × %d contexts\n", f.out, c.Cutoff, c.Score, c.Queries.Queries,
		c.Corpus.Contexts)
	return nil
}

// ofStore calibrates a store as 'sluice calibrate' does, but for who counts the pairs.
func (f *calibrateFlags) ofStore(ctx context.Context, process *worker.Process, opts pipeline.CalibrateOptions) (
	err error) {
	s, err := sluice.Open(ctx, sluice.Config{Store: f.store, Encoder: f.encoder})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	o := calibrate.DefaultOptions()
	o.Name = f.name
	o.Count = func(ctx context.Context, in gate.Input) (*gate.Counts, error) {
		return pipeline.Count(ctx, process.Engine, f.storage, in, opts)
	}
	if f.queries != "" {
		file, err := os.Open(f.queries)
		if err != nil {
			return err
		}
		defer file.Close()
		o.Queries, o.Source = file, f.queries
	}
	r, err := s.Calibrate(ctx, o)
	if err != nil {
		return err
	}
	fmt.Printf("%s: cut-off %v, %s of %d questions × %d contexts\n", r.File, r.Cutoff, r.Score, r.Queries.Queries,
		r.Corpus.Contexts)
	return nil
}
