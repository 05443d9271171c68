package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluice-rag/sluice"
	"github.com/sluice-rag/sluice/eval/crsb"
	"github.com/sluice-rag/sluice/eval/experiment"
	"github.com/sluice-rag/sluice/eval/rating"
)

func (a *app) evalBuildCommand() *cobra.Command {
	var o crsb.Options
	var queries string
	cmd := &cobra.Command{
		Use:   "build-crsb PATH...",
		Short: "make a Context Retrieval Supervision Benchmark of documents",
		Long: `Ingests documents into a store of its own (in the folder of --out) and writes contexts.jsonl, queries.jsonl and
pairs.jsonl: questions that the language model wrote about each context, or those of a file, each paired with its
context and with contexts of other topics. A topic is a line's "topic", or the folder of the document.`,
		Example: "  sluice eval build-crsb docs/ --out crsb --sample 100",
		Args:    takes(1, many),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if o.Out == "" {
				return usagef("--out must name the folder of the benchmark")
			}
			l, err := a.settings(cmd)
			if err != nil {
				return err
			}
			cfg := a.evalConfig(l.Config)
			cfg.Store = filepath.Join(o.Out, "store")
			s, err := sluice.Open(cmd.Context(), cfg)
			if err != nil {
				return err
			}
			o.Paths, o.Ingest.Chunk, o.Ingest.Chunker = args, l.Config.Ingest.Chunk, l.Config.Ingest.Chunker
			return closing(s, a.buildCRSB(cmd, s, o, queries))
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Out, "out", "", "folder of the benchmark (required)")
	f.StringVar(&queries, "queries", "",
		`file of {"context_id","text"} lines, instead of questions of the language model`)
	f.IntVar(&o.Questions, "questions", 3, "questions of each context")
	f.IntVar(&o.Sample, "sample", 0, "contexts that get questions (0: all)")
	f.IntVar(&o.Negatives, "negatives", 5, "contexts of other topics that each question is paired with (-1: none)")
	f.BoolVar(&o.Ingest.NoChunk, "no-chunk", false, "a document or JSON line is one context")
	a.flags(cmd, "ingest.chunk")
	a.flags(cmd, "ingest.chunker")
	return cmd
}

func (a *app) buildCRSB(cmd *cobra.Command, s *sluice.Sluice, o crsb.Options, queries string) error {
	if queries != "" {
		file, err := os.Open(queries)
		if err != nil {
			return err
		}
		defer file.Close()
		o.Queries = file
	}
	task := a.task("questions", "contexts")
	o.Progress = func(done, total int) { task.Set(int64(done), int64(total)) }
	r, err := crsb.Build(cmd.Context(), s, o)
	task.Finish()
	if err != nil {
		return err
	}
	if r.BadLines+r.Unknown > 0 {
		a.warn("%s: %d bad lines, %d questions about contexts that are not there", queries, r.BadLines, r.Unknown)
	}
	if r.Short > 0 {
		a.warn("%d of %d contexts have fewer than %d questions: what else the model wrote about them was rejected",
			r.Short, r.Generated.Contexts, o.Questions)
	}
	return a.result(r, "%s: %d contexts in %d topics, %d questions, %d positive and %d negative pairs\n",
		o.Out, r.Contexts, r.Topics, r.Queries, r.Positive, r.Negative)
}

type rateFlags struct {
	ratings, rater, write, read, part string
	report                            bool
	seed                              uint64
}

func (a *app) evalRateCommand() *cobra.Command {
	var f rateFlags
	cmd := &cobra.Command{
		Use:   "rate ITEMS.jsonl|RESULTS",
		Short: "have two people rate answers of several systems, and how far they agree",
		Long: `Shows the answers of {"id","question","answers":{"SYSTEM":"TEXT"}} lines, or those of an experiment (the folder of
its results, or the journal.jsonl there), one after another, in a random order for each rater and without the systems'
names, and appends the ratings (1 to 5) to a file; a later call goes on. --write and --read exchange them as JSON lines
instead: a rater fills in "rating". --report prints Cohen's kappa of two raters, how often each system got which rating,
and how far the judge of an experiment agrees with them. If the ratings are RESULTS/ratings.jsonl, the next run of the
experiment says that above its tables.`,
		Example: "  sluice eval rate answers.jsonl --rater ann --ratings ratings.jsonl\n" +
			"  sluice eval rate results --part answers --rater ann --ratings results/ratings.jsonl\n" +
			"  sluice eval rate answers.jsonl --ratings ratings.jsonl --report",
		Args: takes(1, 1),
		RunE: func(_ *cobra.Command, args []string) error {
			if f.ratings == "" && f.write == "" {
				return usagef("--ratings must name the file that the ratings are kept in")
			}
			if f.rater == "" && !f.report {
				return usagef("--rater must name who rates")
			}
			items, err := a.rated(args[0], f.part)
			if err != nil {
				return err
			}
			return a.rate(items, f)
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&f.ratings, "ratings", "", "file that ratings are appended to")
	fl.StringVar(&f.rater, "rater", "", "name of who rates")
	fl.StringVar(&f.write, "write", "", "write the rater's pairs to this file instead of asking")
	fl.StringVar(&f.read, "read", "", "take the rater's ratings from this file instead of asking")
	fl.StringVar(&f.part, "part", "", "part of the experiment whose answers are rated (empty: all)")
	fl.BoolVar(&f.report, "report", false, "print agreement and histogram")
	fl.Uint64Var(&f.seed, "seed", 0, "of the orders")
	cmd.MarkFlagsMutuallyExclusive("write", "read", "report")
	return cmd
}

// readFile parses a file; its errors name the file.
func readFile[T any](path string, read func(io.Reader) (T, error)) (v T, err error) {
	f, err := os.Open(path)
	if err != nil {
		return v, err
	}
	defer f.Close()
	if v, err = read(f); err != nil {
		err = fmt.Errorf("%s: %w", path, err)
	}
	return v, err
}

// rated reads the items of a file, or the answers of an experiment's journal; part "" takes all of its parts.
func (a *app) rated(path, part string) ([]rating.Item, error) {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		path = filepath.Join(path, experiment.Journal)
	}
	return readFile(path, func(r io.Reader) ([]rating.Item, error) {
		text := bufio.NewReader(r)
		if head, _ := text.Peek(64); !experiment.IsJournal(head) { // an error comes up again
			if part != "" {
				return nil, usagef("--part %q is for experiments, and %s is not the journal of one", part, path)
			}
			return rating.ReadItems(text)
		}
		answers, unnamed, err := experiment.ReadAnswers(text)
		if unnamed > 0 {
			a.warn("%s: %d answers of an older version do not say what was asked, and are left out", path, unnamed)
		}
		if err != nil {
			return nil, err
		}
		items := itemsOf(answers, part)
		if len(items) == 0 {
			return nil, fmt.Errorf("%w: there is no answer of part %q", rating.ErrRating, part)
		}
		return items, nil
	})
}

// people compares the verdicts of the judge of an experiment with the ratings in the folder of its results, if any are
// there.
func (a *app) people(out string) (map[string]rating.Agreement, error) {
	path := filepath.Join(out, ratingsFile)
	given, err := readFile(path, rating.ReadRatings)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	items, err := a.rated(out, "")
	return rating.Judges(items, given), err
}

// ratingsFile in the folder of an experiment's results is read for its report.
const ratingsFile = "ratings.jsonl"

// itemsOf collects the answers to each question in each part.
func itemsOf(answers []experiment.Answered, part string) (items []rating.Item) {
	at := map[string]int{}
	for _, x := range answers {
		if part != "" && x.Part != part || strings.TrimSpace(x.Answer) == "" {
			continue
		}
		id := x.Part + " " + x.ID
		i, known := at[id]
		if !known {
			i = len(items)
			at[id] = i
			items = append(items, rating.Item{ID: id, Question: x.Question, Answers: map[string]string{},
				Correct: map[string]map[string]float64{}})
		}
		items[i].Answers[x.Cell] = x.Answer
		for _, m := range []string{"correct", "correct_by_context"} {
			if v, ok := x.Judged[m]; ok {
				if items[i].Correct[x.Cell] == nil {
					items[i].Correct[x.Cell] = map[string]float64{}
				}
				items[i].Correct[x.Cell][m] = v
			}
		}
	}
	return items
}

func (a *app) rate(items []rating.Item, f rateFlags) error {
	pairs := rating.Pairs(items, f.rater, f.seed)
	if f.write != "" {
		return writeLines(f.write, os.O_TRUNC, pairs)
	}
	done, err := readFile(f.ratings, rating.ReadRatings)
	if err != nil && (f.report || !errors.Is(err, os.ErrNotExist)) {
		return err
	}
	if f.report {
		r, err := rating.Summarise(items, done)
		if err != nil {
			return err
		}
		return a.result(r, "%s", r.Text())
	}
	if f.read != "" {
		open := 0
		given, err := readFile(f.read, func(r io.Reader) (given []rating.Rating, err error) {
			given, open, err = rating.ReadPairs(r, f.rater)
			return given, err
		})
		if err != nil {
			return err
		}
		a.note("%d ratings, %d pairs without one", len(given), open)
		return writeLines(f.ratings, os.O_APPEND, given)
	}
	return rating.Ask(a.stdin, a.stdout, pairs, f.rater, done, func(x rating.Rating) error {
		return writeLines(f.ratings, os.O_APPEND, []rating.Rating{x})
	})
}

func writeLines[T any](path string, how int, list []T) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|how, 0o644)
	if err != nil {
		return err
	}
	return errors.Join(newPrinter(file).lines(len(list), func(i int) any { return list[i] }), file.Close())
}
