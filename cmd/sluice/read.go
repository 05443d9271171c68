package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluice-rag/sluice"
	"github.com/sluice-rag/sluice/internal/config"
	"github.com/sluice-rag/sluice/internal/manifest"
	"github.com/sluice-rag/sluice/rag/corpus"
	"github.com/sluice-rag/sluice/rag/excerpt"
	"github.com/sluice-rag/sluice/rag/ingest"
)

// readLine is the output of `read --json`.
type readLine struct {
	Question  string     `json:"question"`
	Answers   bool       `json:"answers"`             // some passage answers the question
	Threshold *float64   `json:"threshold,omitempty"` // of the scores; absent for a reader without a null answer
	Passages  int        `json:"passages"`            // that were read
	Found     []readSpan `json:"found"`               // better first
}

// readSpan is a span that a reader found.
type readSpan struct {
	Text    string  `json:"text"`
	Score   float64 `json:"score"` // above the null answer, in logits
	Answers bool    `json:"answers"`
	Source  string  `json:"source"`
	Place   string  `json:"place"`
	Passage string  `json:"passage"`
	Start   int     `json:"start"` // bytes of the passage
	End     int     `json:"end"`
}

func (a *app) readCommand() *cobra.Command {
	var top int
	var threshold float64
	cmd := &cobra.Command{
		Use:   "read --reader MODEL QUESTION PATH...",
		Short: "find the words in files that answer a question",
		Long: `Reads files as 'ingest' does, and prints the spans that answer the question best by a reader (extractive question
answering), each with its place. It needs no store and calls no language model. The score is in logits above the null
answer: a passage answers from --threshold on. Where none does, that is said and the exit code is 3. A reader of SQuAD
1.1 has no null answer and always finds something.

The model is a name of 'sluice models list', or a folder: one that 'sluice train reader' made, or one as Hugging Face
publishes it (…ForQuestionAnswering), with config.json, model.safetensors and tokenizer.json. A path - is standard
input.`,
		Example: "  sluice read --reader minilm-uncased-squad2 \"When does a deferred function run?\" docs/\n" +
			"  man -P cat tar | sluice read --reader ~/models/reader \"Which option keeps old files?\" - --json",
		Args: takes(2, many),
	}
	inputs := a.inputFlags(cmd)
	cmd.Flags().IntVar(&top, "top", 3, "spans at most")
	cmd.Flags().Float64Var(&threshold, "threshold", 0, "score from which a passage answers (default: the model's own)")
	a.flags(cmd, "reader")
	_ = cmd.RegisterFlagCompletionFunc("reader", modelNames(true, manifest.Reader)) // fails only for unknown flags
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if top < 1 {
			return usagef("--top must be at least 1, given %d", top)
		}
		if strings.TrimSpace(args[0]) == "" {
			return usagef("the question is empty")
		}
		return a.with(cmd, func(s *sluice.Sluice, c config.Config) error {
			if c.Reader == "" {
				return usagef("--reader is missing: a name of 'sluice models list', or a folder; 'sluice models " +
					"pull minilm-uncased-squad2' fetches one, 'sluice train reader' makes one")
			}
			o := c.Ingest.Options
			in, err := inputs.open(cmd.Context(), a, args[1:], &o, c)
			if err != nil {
				return err
			}
			defer in.close()
			var given *float64
			if cmd.Flags().Changed("threshold") {
				given = &threshold
			}
			return in.shown(a.read(cmd, s, in, o, args[0], top, given))
		})
	}
	return cmd
}

// readTogether is how many passages are read between two progress reports.
const readTogether = 32

// read prints the best spans of files.
func (a *app) read(cmd *cobra.Command, s *sluice.Sluice, in *inputs, o ingest.Options, question string, top int,
	threshold *float64) error {
	ctx := cmd.Context()
	reader, err := s.Models().Reader(ctx)
	if err != nil {
		return err
	}
	line := readLine{Question: question, Found: []readSpan{}}
	if own, ok := reader.NullThreshold(); ok {
		if line.Threshold = &own; threshold != nil {
			line.Threshold = threshold
		}
	} else if threshold != nil {
		return usagef("--threshold: the reader %s has no null answer (SQuAD 1.1)", reader.Info().Name)
	}
	skipped := &skips{app: a, in: in}
	o.OnSkip = skipped.add
	task := a.task("read", "passages")
	defer task.Finish()
	keep := func(chunks []corpus.Chunk) error {
		texts := make([]string, len(chunks))
		for i, c := range chunks {
			texts[i] = c.Text
		}
		readings, err := reader.Read(ctx, question, texts)
		if err != nil {
			return err
		}
		for i, r := range readings {
			if r.Start == r.End {
				continue
			}
			c := chunks[i]
			span := readSpan{Text: c.Text[r.Start:r.End], Score: r.Score - r.Null, Source: c.Source, Passage: c.Text,
				Start: r.Start, End: r.End, Place: position(c.Source, c.Anchor, c.Start, c.End, c.Text)}
			span.Answers = line.Threshold == nil || span.Score >= *line.Threshold
			line.Answers = line.Answers || span.Answers
			line.Found = append(line.Found, span)
		}
		slices.SortStableFunc(line.Found, func(a, b readSpan) int { return cmp.Compare(b.Score, a.Score) })
		line.Found = line.Found[:min(top, len(line.Found))]
		line.Passages += len(chunks)
		task.Set(int64(line.Passages), 0)
		return nil
	}
	var waiting []corpus.Chunk
	for c, err := range s.Preview(ctx, in.paths, o) {
		if err != nil {
			return err
		}
		if waiting = append(waiting, c); len(waiting) < readTogether {
			continue
		}
		if err := keep(waiting); err != nil {
			return err
		}
		waiting = waiting[:0]
	}
	if err := keep(waiting); err != nil {
		return err
	}
	task.Finish()
	skipped.summary()
	if err := a.printSpans(line); err != nil {
		return err
	}
	if err := skipped.failed(); err != nil || line.Answers {
		return err
	}
	return errGateClosed
}

// printSpans prints spans, each below its place.
func (a *app) printSpans(line readLine) error {
	if a.json {
		return a.printJSON(line)
	}
	screen := a.screen()
	var b strings.Builder
	if !line.Answers {
		fmt.Fprintf(&b, "None of the %s answers the question, by the reader.\n", count(line.Passages, "passage"))
		if len(line.Found) > 0 {
			b.WriteString("What comes nearest:\n")
		}
	}
	for _, s := range line.Found {
		text := strings.Join(strings.Fields(s.Text), " ")
		b.WriteString(screen.BoldLines(screen.Wrap(text, fmt.Sprintf("%6.2f  ", s.Score), "        ")))
		b.WriteString(screen.FaintLines(screen.Wrap(s.Place, "        ", "        ")))
		at := excerpt.Sentence{Text: s.Text, Start: s.Start, End: s.End}
		writeParts(&b, screen, excerpt.Snippet(s.Passage, &at, snippetRunes), "        ")
	}
	return a.print(b.String())
}
