package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluice-rag/sluice"
	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/embed/train"
	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/engine/cores"
	"github.com/sluice-rag/sluice/internal/models"
	"github.com/sluice-rag/sluice/internal/progress"
	"github.com/sluice-rag/sluice/rag/route"
)

type trainFlags struct {
	data, out, validation, test, from, name, kind string
	layers                                        layerCount
	set                                           train.Settings
	threshold                                     float64
}

// layerCount is how many layers are trained: "head", "all" or a number.
type layerCount struct{ n *int }

func (l layerCount) String() string {
	switch {
	case l.n == nil:
		return ""
	case *l.n == 0:
		return "head"
	case *l.n == train.AllLayers:
		return "all"
	}
	return fmt.Sprint(*l.n)
}

func (l layerCount) Set(text string) error {
	switch text {
	case "head":
		*l.n = 0
		return nil
	case "all":
		*l.n = train.AllLayers
		return nil
	}
	var n int
	if _, err := fmt.Sscanf(text+"\n", "%d\n", &n); err != nil || n < 1 {
		return errors.New(`"head", "all" or a number of layers expected`)
	}
	*l.n = n
	return nil
}

func (l layerCount) Type() string { return "head|N|all" }

func (a *app) trainCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "train",
		Short: "train a classifier, a router, a reader, or the encoder, on your own data",
		Long: `Trains on the CPU, without Python. --out is a folder: of a classifier, an encoder or a reader, it holds a checkpoint while the
training runs, which is written after each epoch and every two minutes; Ctrl-C writes one and ends. The same command
goes on from it, and gives the same bits as a training without a break. In the end the folder is a model: config.json,
model.safetensors, tokenizer.json and model.yaml, which says where it comes from. A router takes seconds, and has files
of its own.`}
	cmd.AddCommand(a.trainClassifierCommand(), a.trainEncoderCommand(), a.trainReaderCommand(), a.trainRouterCommand())
	return group(cmd)
}

func (a *app) trainClassifierCommand() *cobra.Command {
	f := trainFlags{set: train.ClassifierDefaults(), kind: "distilbert"}
	cmd := &cobra.Command{Use: "classifier --data FILE.jsonl --out DIR",
		Short: "train a text classifier on labelled texts",
		Long: `Reads {"text","label"} lines, or {"text","labels":[…]} lines where a text may have several labels or none. Further fields
are ignored; a bad line is an error, with its number, before anything is trained. Without --validation a share of the
texts, label by label, is kept to validate with: after each epoch, to keep the best one, and at the end to make the
probabilities mean what they say (temperature) and to suggest from which probability on a label is worth giving
(threshold).

The model is a DistilBERT in its architecture. It begins from --from (the default encoder, or a BERT or DistilBERT by its
name or folder). --layers says what is trained: the head alone (fast; the texts go through the model once), the last
layers, or all; the embeddings are never trained.

--json prints one object an epoch, and a last one with the scores.`,
		Example: "  sluice train classifier --data tickets.jsonl --out router\n" +
			"  sluice train classifier --data train.jsonl --validation dev.jsonl --test test.jsonl --layers all " +
			"--out router",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.trainClassifier(cmd, &f) }}
	f.flags(cmd, `texts with labels (required; "-": standard input)`)
	fl := cmd.Flags()
	fl.StringVar(&f.kind, "kind", f.kind, "architecture of the model: distilbert")
	fl.StringVar(&f.test, "test", "", "texts with labels that the finished model is tested on, once")
	fl.Float64Var(&f.set.HeadRate, "head-rate", f.set.HeadRate, "rate of the classification head")
	fl.Float64Var(&f.set.Dropout, "dropout", f.set.Dropout, "share of activations that is dropped while training")
	fl.BoolVar(&f.set.ClassWeights, "class-weights", false, "rare labels count as much as frequent ones")
	fl.Float64Var(&f.threshold, "threshold", 0,
		"probability below which no label is given (default: suggested by the validation texts)")
	return cmd
}

// flags adds the flags that both verbs have.
func (f *trainFlags) flags(cmd *cobra.Command, data string) {
	f.layers.n = &f.set.Layers
	fl := cmd.Flags()
	fl.StringVar(&f.data, "data", "", data)
	fl.StringVar(&f.out, "out", "", "folder of the model (required)")
	fl.StringVar(&f.validation, "validation", "", "data to validate with, in place of a share of --data")
	fl.StringVar(&f.from, "from", sluice.DefaultEncoder,
		"model to begin from: a name of 'sluice models list', or a folder")
	fl.StringVar(&f.name, "name", "", "name of the model (default: that of the folder)")
	fl.Var(f.layers, "layers", "what is trained: head, the last N layers, or all")
	fl.IntVar(&f.set.Epochs, "epochs", f.set.Epochs, "how often the data are gone through, at most")
	fl.IntVar(&f.set.Batch, "batch", f.set.Batch, "examples of one step")
	fl.Float64Var(&f.set.Rate, "rate", f.set.Rate, "rate of the layers, at its highest")
	fl.Float64Var(&f.set.WarmUp, "warm-up", f.set.WarmUp, "share of the steps in which the rates grow")
	fl.Float64Var(&f.set.WeightDecay, "weight-decay", f.set.WeightDecay, "weight decay of matrices")
	fl.IntVar(&f.set.Patience, "patience", f.set.Patience, "end after so many epochs without a better one; 0: never")
	fl.Uint64Var(&f.set.Seed, "seed", f.set.Seed, "seed of everything random")
	fl.IntVar(&f.set.MaxTokens, "max-tokens", f.set.MaxTokens,
		"where texts are cut (default: as the model that it begins from says)")
	fl.Float64Var(&f.set.ValidationShare, "validation-share", f.set.ValidationShare,
		"share of the data without --validation")
}

// needed checks that the flags without a default are set.
func needed(data, out string) error {
	switch {
	case data == "":
		return usagef("--data is missing")
	case out == "":
		return usagef("--out is missing")
	}
	return nil
}

func (a *app) trainClassifier(cmd *cobra.Command, f *trainFlags) error {
	if err := needed(f.data, f.out); err != nil {
		return err
	}
	if f.kind != "distilbert" {
		return usagef("--kind %q is not known; distilbert is", f.kind)
	}
	if f.threshold < 0 || f.threshold > 1 {
		return usagef("--threshold must be a probability from 0 to 1, given %v", f.threshold)
	}
	in := train.ClassifierInput{Out: f.out, Name: f.name, Settings: f.set, Threshold: f.threshold}
	var err error
	if in.Training, in.Validation, in.Test, err = readAll(a.stdin, f, train.ReadExamples); err != nil {
		return err
	}
	done, err := a.trainWith(cmd, f, &in.From, &in.Tokenizer, &in.Engine, &in.Hooks)
	if err != nil {
		return err
	}
	r, err := train.Classifier(cmd.Context(), in)
	done()
	return a.trained(f.out, r, err)
}

// trainWith opens what a training needs beside its data; done frees it.
func (a *app) trainWith(cmd *cobra.Command, f *trainFlags, from *string, tokenizer *train.Tokenizer, to **engine.Engine,
	hooks *train.Hooks) (done func(), err error) {
	l, err := a.settings(cmd)
	if err != nil {
		return nil, err
	}
	if *from, err = models.Locate(f.from); err != nil {
		return nil, err
	}
	budget := cores.New(l.Config.Threads)
	if *to, err = engine.New(engine.Options{Cores: budget, ISA: l.Config.ISA,
		Device: engine.DeviceCPU}); err != nil {
		return nil, err
	}
	t, err := embed.OpenTokenizer(*from)
	if err != nil {
		return nil, err
	}
	*tokenizer = t
	var task, before *progress.Task
	*hooks = train.Hooks{
		Prepare: func(done, total int) {
			if before == nil {
				before = a.task("reading", "texts")
			}
			if before.Set(int64(done), int64(total)); done == total {
				before.Finish()
				before = nil
			}
		},
		Step: func(done, total int) {
			if task == nil {
				task = a.task("training", "steps")
			}
			task.Set(int64(done), int64(total))
		},
		Epoch:   a.reportEpoch,
		Warn:    func(text string) { a.warn("%s", text) },
		Resumed: func(epoch, step int) { a.note("going on with epoch %d, behind step %d", epoch, step) },
	}
	return func() { before.Finish(); task.Finish(); t.Close() }, nil
}

func (a *app) reportEpoch(e train.Epoch) {
	if a.json {
		_ = a.printJSON(e) // a closed pipe ends the program
		return
	}
	mark := ""
	if e.Best {
		mark = ", the best so far"
	}
	fmt.Fprintf(a.stdout, "epoch %d: loss %.4f, validation %s, %.0f s%s\n", e.Epoch, e.Loss, scoreText(e.Validation),
		e.Seconds, mark)
}

func scoreText(s train.Scores) string {
	if s.Reader != nil {
		return readerText(s)
	}
	if s.NDCG > 0 {
		return fmt.Sprintf("NDCG@10 %.4f (loss %.4f)", s.NDCG, s.Loss)
	}
	return fmt.Sprintf("accuracy %.4f, F1 %.4f (loss %.4f)", s.Accuracy, s.F1, s.Loss)
}

func (a *app) trained(out string, r *train.Result, err error) error {
	if errors.Is(err, context.Canceled) {
		if _, statErr := os.Stat(out); statErr == nil {
			a.note("what was trained is kept in %s; the same command goes on from there", out)
		}
	}
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(r)
	}
	var b strings.Builder
	if r.Report != nil { // in the format of a router's
		labels := make([]route.LabelReport, len(r.Report.Labels))
		for i, l := range r.Report.Labels {
			labels[i] = route.LabelReport(l)
		}
		labelTable(&b, labels, r.Report.Confusion, r.Report.Multi)
	}
	fmt.Fprintf(&b, "the best of %d epochs is number %d: validation %s\n", r.Epochs, r.BestEpoch,
		scoreText(r.Validation))
	if r.Before != nil {
		fmt.Fprintf(&b, "before the training: validation %s\n", scoreText(*r.Before))
	}
	if c := r.Calibration; c != nil {
		fmt.Fprintf(&b, "temperature %.3f: calibration error %.4f, %.4f without it\n", c.Temperature, c.ECE,
			c.ECEBefore)
		fmt.Fprintf(&b,
			"threshold %.3f: %.1f %% of the validation texts get a label, %.2f %% of these are right\n",
			c.Threshold, 100*c.Kept, 100*c.Precision)
	}
	if r.Test != nil {
		fmt.Fprintf(&b, "test: %s on %d examples\n", scoreText(*r.Test), r.Test.Examples)
	}
	fmt.Fprintf(&b, "the model is in %s\n", r.Out)
	return a.print(b.String())
}

func (a *app) trainEncoderCommand() *cobra.Command {
	f := trainFlags{set: train.EncoderDefaults()}
	cmd := &cobra.Command{Use: "encoder --data FILE.jsonl --out DIR",
		Short: "train the sentence encoder on queries and the contexts that answer them",
		Long: `Reads {"query","context"} lines, optionally with "group": what is trained on, or validated with, as a whole, for example
a topic; without it the context. Pseudo-queries of a calibration are such queries. Each query is to find its context
among those of its batch (multiple negatives ranking loss), so larger batches are harder and better.

Without --validation a share of the groups is kept, whose contexts are not trained on. The validation is NDCG@10 of
finding each query's context among all validation contexts; it is also computed before the training.

The vectors of the result are other ones: it is another encoder to a store, which has to be made anew for it.`,
		Example: "  sluice train encoder --data pairs.jsonl --out my-encoder\n" +
			"  sluice ingest --encoder my-encoder --store kb docs",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.trainEncoder(cmd, &f) }}
	f.flags(cmd, `queries and contexts (required; "-": standard input)`)
	cmd.Flags().Float64Var(&f.set.Scale, "scale", f.set.Scale, "what cosines are multiplied by in the loss")
	return cmd
}

func (a *app) trainEncoder(cmd *cobra.Command, f *trainFlags) error {
	if err := needed(f.data, f.out); err != nil {
		return err
	}
	in := train.EncoderInput{Out: f.out, Name: f.name, Settings: f.set}
	var err error
	if in.Training, in.Validation, _, err = readAll(a.stdin, f, train.ReadPairs); err != nil {
		return err
	}
	done, err := a.trainWith(cmd, f, &in.From, &in.Tokenizer, &in.Engine, &in.Hooks)
	if err != nil {
		return err
	}
	r, err := train.Encoder(cmd.Context(), in)
	done()
	return a.trained(f.out, r, err)
}
