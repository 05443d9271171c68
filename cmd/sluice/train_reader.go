package main

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/sluice-rag/sluice/embed/train"
)

func (a *app) trainReaderCommand() *cobra.Command {
	f := trainFlags{set: train.ReaderDefaults()}
	cmd := &cobra.Command{Use: "reader --data FILE --out DIR",
		Short: "train a reader, which finds the answer to a question in a text",
		Long: `Reads a file of SQuAD 1.1 or 2.0, or lines of the form {"question","context","answers":[{"text","start"}]}, where "start"
counts characters of the context, and "answers" is empty where the context does not answer the question. An answer that
is not where it is said to be is an error that says its place, before anything is trained.

Without --validation a share of the contexts is kept, whose questions are not trained on. After each epoch they are
answered, and the epoch is kept that finds the answers (F1) and tells answerable questions from others (AUROC) best. The
scores are the measures of SQuAD 2.0.

A context that is longer than --max-tokens is read in windows, of which two in a row share --stride tokens.`,
		Example: "  sluice train reader --data train-v2.0.json --out my-reader\n" +
			"  sluice train reader --data questions.jsonl --validation dev.jsonl --epochs 2 --out my-reader",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.trainReader(cmd, &f) }}
	f.flags(cmd, `questions with their contexts and answers (required; "-": standard input)`)
	fl := cmd.Flags()
	fl.StringVar(&f.test, "test", "", "questions that the finished model is tested on, once")
	fl.Float64Var(&f.set.HeadRate, "head-rate", f.set.HeadRate, "rate of the head")
	fl.Float64Var(&f.set.Dropout, "dropout", f.set.Dropout, "share of activations that is dropped while training")
	fl.IntVar(&f.set.Stride, "stride", f.set.Stride, "tokens of the context that two windows in a row share")
	return cmd
}

func (a *app) trainReader(cmd *cobra.Command, f *trainFlags) error {
	if err := needed(f.data, f.out); err != nil {
		return err
	}
	in := train.ReaderInput{Out: f.out, Name: f.name, Settings: f.set}
	var err error
	if in.Training, in.Validation, in.Test, err = readAll(a.stdin, f, train.ReadQuestions); err != nil {
		return err
	}
	done, err := a.trainWith(cmd, f, &in.From, &in.Tokenizer, &in.Engine, &in.Hooks)
	if err != nil {
		return err
	}
	r, err := train.Reader(cmd.Context(), in)
	done()
	return a.trained(f.out, r, err)
}

// readAll reads the files of a training; what no flag names is nil.
func readAll[T any](stdin io.Reader, f *trainFlags, read func(io.Reader, string) (*T, error)) (
	training, validation, test *T, err error) {
	for _, file := range []struct {
		path string
		to   **T
	}{{f.data, &training}, {f.validation, &validation}, {f.test, &test}} {
		if *file.to, err = readData(stdin, file.path, read); err != nil {
			break
		}
	}
	return training, validation, test, err
}

// readData reads a file of training data, "-" from standard input; nil for path "".
func readData[T any](stdin io.Reader, path string, read func(io.Reader, string) (*T, error)) (*T, error) {
	if path == "" {
		return nil, nil
	}
	if path == "-" {
		return read(stdin, path)
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return read(file, path)
}

// readerText returns the scores of a reader, which are shares, in percent.
func readerText(s train.Scores) string {
	r := s.Reader
	text := fmt.Sprintf("answers EM %.1f F1 %.1f", 100*r.HasAns.Exact, 100*r.HasAns.F1)
	if r.AUROC > 0 {
		text += fmt.Sprintf(", answerable AUROC %.3f, with the best threshold EM %.1f F1 %.1f", r.AUROC,
			100*r.BestExact, 100*r.BestF1)
	}
	return text + fmt.Sprintf(" (loss %.4f)", s.Loss)
}
