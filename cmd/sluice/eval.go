package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"github.com/sluice-rag/sluice"
	"github.com/sluice-rag/sluice/bench/harness"
	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/eval/dataset"
	"github.com/sluice-rag/sluice/eval/experiment"
	"github.com/sluice-rag/sluice/eval/preset"
	"github.com/sluice-rag/sluice/eval/report"
	"github.com/sluice-rag/sluice/internal/config"
	"github.com/sluice-rag/sluice/internal/models"
	"github.com/sluice-rag/sluice/internal/progress"
	"github.com/sluice-rag/sluice/llm/remote"
)

func (a *app) evalCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "eval",
		Short: "experiments over questions with known answers: the papers' tables on your data, or your own",
		Long: `Runs every combination of encoders, chunkers, retrievers, generators and gates that an experiment names over a
dataset, and writes report.html, results.md, results.csv, results.parquet and plots. A dataset is a folder with
contexts.jsonl ({"id","topic","text"}) and queries.jsonl ({"id","context_id","text","answerable","answers"}).
--encoder and --model replace the models that the experiment names.

A run that was ended, by Ctrl-C or a kill, goes on where it stopped when the same command is given again.`,
	}
	cmd.AddCommand(a.evalRunCommand(), a.evalShowCommand(), a.evalReproduceCommand(),
		a.evalImportCommand(), a.evalBuildCommand(), a.evalRateCommand(), a.evalCoverageCommand())
	for _, name := range preset.Names() {
		cmd.AddCommand(a.evalPresetCommand(name))
	}
	return group(cmd)
}

type evalFlags struct {
	data, out, judge, book, questions string
	sample                            int
}

func (f *evalFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.out, "out", "", "folder of the reports, the journal and the stores (required)")
	cmd.Flags().StringVar(&f.judge, "judge", "", "model that grades answers, instead of the experiment's")
	cmd.Flags().StringVar(&f.book, "book", "", "ask about this document (a PDF, or any other) instead of the data")
	cmd.Flags().StringVar(&f.questions, "questions", "",
		`questions about --book: one on each line, or {"text","answers"} lines of a .jsonl file`)
	cmd.Flags().IntVar(&f.sample, "sample", 0,
		"about so many questions in each part that draws a sample (0: as it says)")
}

// useBook has an experiment ask about --book.
func (f *evalFlags) useBook(file *experiment.File) error {
	book, err := filepath.Abs(f.book)
	if err != nil {
		return err
	}
	questions, err := filepath.Abs(f.questions)
	if err != nil {
		return err
	}
	return file.UseBook(book, questions)
}

func (a *app) evalRunCommand() *cobra.Command {
	var f evalFlags
	cmd := &cobra.Command{
		Use: "run FILE.yaml", Short: "run the experiment of a file",
		Example: "  sluice eval run experiment.yaml --out results",
		Args:    takes(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := os.ReadFile(args[0])
			if err != nil {
				return usageError{err}
			}
			file, err := experiment.Parse(text)
			if err != nil {
				return fmt.Errorf("%s: %w", args[0], err)
			}
			if file.Data != "" && !filepath.IsAbs(file.Data) {
				file.Data = filepath.Join(filepath.Dir(args[0]), file.Data)
			}
			return a.evaluate(cmd, file, f)
		},
	}
	f.add(cmd)
	cmd.Flags().StringVar(&f.data, "data", "", "folder of the dataset, instead of the file's")
	return cmd
}

func (a *app) evalPresetCommand(name string) *cobra.Command {
	var f evalFlags
	cmd := &cobra.Command{
		Use: name, Short: "a paper's tables on your data, with the published values beside",
		Example: "  sluice eval " + name + " --data folder --out results" + bookExample(name),
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			file, err := preset.Load(name)
			if err != nil {
				return err
			}
			return a.evaluate(cmd, file, f)
		},
	}
	if file, err := preset.Load(name); err == nil { // a test loads every preset
		cmd.Short, cmd.Long = file.Title, file.Title+"\n\n"+strings.TrimSpace(file.Note)
	}
	f.add(cmd)
	cmd.Flags().StringVar(&f.data, "data", "", "folder of the dataset, or of several (squad16, clinc150)")
	return cmd
}

// bookExample is a further example of the preset that is about a book.
func bookExample(name string) string {
	if name != "keibel-book" {
		return ""
	}
	return "\n  sluice eval keibel-book --book book.pdf --questions questions.txt --out results"
}

// evaluate runs an experiment and writes its report.
func (a *app) evaluate(cmd *cobra.Command, file *experiment.File, f evalFlags) error {
	file.Data = cmp.Or(f.data, file.Data)
	switch {
	case f.out == "":
		return usagef("--out must name a folder for the results")
	case (f.book == "") != (f.questions == ""):
		return usagef("--book and --questions are given together")
	case file.Data == "" && f.book == "" && file.NeedsData():
		return usagef("--data must name the folder of the dataset")
	case f.sample < 0:
		return usagef("--sample must not be negative, given %d", f.sample)
	}
	if f.book != "" {
		if err := f.useBook(file); err != nil {
			return usageError{err}
		}
	}
	if f.sample > 0 {
		file.Scale(f.sample)
	}
	file.Judge = cmp.Or(f.judge, file.Judge)
	l, err := a.settings(cmd)
	if err != nil {
		return err
	}
	if err := a.evalModels(cmd, file, l.Config); err != nil {
		return err
	}
	shown := evalProgress{app: a}
	defer func() { shown.task.Finish() }()
	result, err := experiment.Run(cmd.Context(), experiment.Options{
		File: file, Out: f.out, Config: a.evalConfig(l.Config), Judge: a.judge,
		Progress: func(part string, done, total int) { shown.set(part, done, total, "") },
		Training: func(part string, done, total int) {
			shown.set(part, shown.done, shown.total, fmt.Sprintf("training: step %d of %d", done, total))
		},
		Note: func(text string) { a.note("%s", text) },
	})
	if errors.Is(err, context.Canceled) {
		a.note("the same command goes on from %s", f.out)
	}
	if err != nil {
		return err
	}
	settings, err := yaml.Marshal(file)
	if err != nil {
		return err
	}
	r := report.Report{Result: result, Settings: string(settings), When: time.Now(),
		Machine: fmt.Sprintf("%s, %d threads", harness.Processor(), cmp.Or(l.Config.Threads, runtime.NumCPU()))}
	if r.People, err = a.people(f.out); err != nil {
		return err
	}
	if err := r.Write(f.out); err != nil {
		return err
	}
	return a.result(map[string]any{"experiment": file.Name, "items": result.Items, "resumed": result.Resumed,
		"unscored": result.Unscored, "seconds": result.Seconds, "notes": result.Notes,
		"report": filepath.Join(f.out, report.HTML)},
		"%s: %d items, %d of them from the journal; %d values unscored; %.0f s\n%s\n",
		file.Name, result.Items, result.Resumed, result.Unscored, result.Seconds, filepath.Join(f.out, report.HTML))
}

// evalModels has an experiment use the models that flags name, instead of its own.
func (a *app) evalModels(cmd *cobra.Command, file *experiment.File, c config.Config) error {
	named := func(flag, name string) string {
		if f := cmd.Flag(flag); f != nil && f.Changed {
			return name
		}
		return ""
	}
	encoder, model := named("encoder", c.Encoder), named("model", c.Model)
	if _, _, remotely := remote.SplitName(encoder); encoder != "" && !remotely {
		name, _, _ := embed.SplitName(encoder)
		if _, err := models.Locate(name); err != nil {
			return err
		}
	}
	if _, _, remotely := remote.SplitName(model); model != "" && !remotely {
		if _, err := models.LocateGGUF(model); err != nil {
			return err
		}
	}
	file.Use(encoder, model)
	return nil
}

func (a *app) evalShowCommand() *cobra.Command {
	return &cobra.Command{
		Use: "show PRESET", Short: "print a paper's experiment as the file that 'eval run' takes",
		Example: "  sluice eval show cag-tables > mine.yaml", Args: takes(1, 1), ValidArgs: preset.Names(),
		RunE: func(_ *cobra.Command, args []string) error {
			text, err := preset.Text(args[0])
			if err != nil {
				return usageError{err}
			}
			_, err = a.stdout.Write(text)
			return err
		},
	}
}

// evalProgress shows how far an experiment is.
type evalProgress struct {
	*app
	task        *progress.Task
	part        string
	done, total int // items of the current part
}

// set shows the progress of a part, with about for what is under way.
func (p *evalProgress) set(part string, done, total int, about string) {
	if part != p.part { // each part has its own rate
		p.task.Finish()
		p.task, p.part = p.app.task(part, "items"), part
		if about != "" {
			done, total = 0, 0 // of the previous part
		}
	}
	p.done, p.total = done, total
	p.task.Describe(about)
	p.task.Set(int64(done), int64(total))
}

// evalConfig returns the configuration that all cells share.
func (a *app) evalConfig(c config.Config) sluice.Config {
	return sluice.Config{
		Encoder: c.Encoder, Model: c.Model, Threads: c.Threads, ISA: c.ISA, MemLimit: c.MemLimit,
		ONNXRuntime: c.ONNXRuntime, EncoderDevice: c.EncoderDevice,
		EncoderMemory: c.EncoderMemory,
		Workers:       c.Workers, MaxBatchTokens: c.MaxBatchTokens,
		EncoderQueue:  c.EncoderQueue,
		ContextTokens: c.ContextTokens, Slots: 1, Templates: c.Templates, Logger: a.logger("error"),
		Embedder: a.embedder, Generator: a.generator, Remote: c.Remote, RemoteEncoder: encoderOptions(c),
		ModelHelper: a.helper,
	}
}

func (a *app) evalImportCommand() *cobra.Command {
	var format, out string
	cmd := &cobra.Command{
		Use: "import FILE", Short: "make a dataset of a file of SQuAD, CRSB or SciBench",
		Example: "  sluice eval import --format squad dev-v2.0.json --out squad",
		Args:    takes(1, 1),
		RunE: func(_ *cobra.Command, args []string) error {
			if out == "" {
				return usagef("--out must name the folder of the dataset")
			}
			text, err := os.ReadFile(args[0])
			if err != nil {
				return err
			}
			set, err := dataset.Import(format, text)
			if err != nil {
				return fmt.Errorf("%s: %w", args[0], err)
			}
			if err := set.Save(out); err != nil {
				return err
			}
			if text := set.Faults.String(); text != "" {
				a.warn("%s: %s", args[0], text)
			}
			return a.result(map[string]any{"contexts": len(set.Contexts), "queries": len(set.Queries),
				"faults": set.Faults}, "%s: %d contexts, %d questions\n", out, len(set.Contexts), len(set.Queries))
		},
	}
	cmd.Flags().StringVar(&format, "format", "squad", "what the file is: "+strings.Join(dataset.Formats(), ", "))
	cmd.Flags().StringVar(&out, "out", "", "folder of the dataset (required)")
	return cmd
}
