package main

import (
	"github.com/spf13/cobra"

	"github.com/sluice-rag/sluice/embed/train"
)

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
