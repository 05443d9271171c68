package main

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluice-rag/sluice"
	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/internal/config"
	"github.com/sluice-rag/sluice/internal/jsonl"
	"github.com/sluice-rag/sluice/internal/manifest"
)

// rerankLine is the output of `rerank --json`.
type rerankLine struct {
	ID      string         `json:"id,omitempty"`
	Results []rerankResult `json:"results"`
}

type rerankResult struct {
	Index int     `json:"index"`        // of the document, from 0
	ID    string  `json:"id,omitempty"` // of a document of a .jsonl file
	Score float32 `json:"score"`
}

type rerankFlags struct {
	query
	documents string
	top       int
	raw       bool
}

func (a *app) rerankCommand() *cobra.Command {
	f := rerankFlags{query: query{group: 16}}
	cmd := &cobra.Command{
		Use:   "rerank --reranker MODEL QUERY [DOCUMENT...]",
		Short: "put documents in the order in which they answer a query",
		Long: `Scores each document by a cross-encoder, which reads it together with the query, and prints them best first. The score is
a number from 0 to 1, the sigmoid of the model's; --raw-scores prints the model's own. The documents are arguments, or
come from --documents: a FILE.jsonl with {"id","text"} lines, or any other file with one document a line ("-", or a pipe
where there are no other documents: standard input).

The model is a name of 'sluice models list', or a folder. What does not fit in the model is cut, the longer text first,
and said: of a query at least half of the tokens that the model takes are read. It needs no store.

With --batch, each line of FILE.jsonl is {"id","query","documents":[…]} and gives one JSON line {"id","results"}, in input
order. A bad line is reported with its number, gives no output line and does not stop the batch (--strict does); bad
lines are counted at the end, and the exit code is then 1.`,
		Example: "  sluice rerank --reranker ms-marco-MiniLM-L-6-v2 \"Who keeps bees?\" \"Beekeepers do.\" \"It rains.\"\n" +
			"  sluice rerank --reranker bge-reranker-base \"Who keeps bees?\" --documents passages.jsonl --top 5 --json\n" +
			"  sluice rerank --reranker bge-reranker-base --batch candidates.jsonl --json",
		RunE: func(cmd *cobra.Command, args []string) error { return a.rerank(cmd, &f, args) },
	}
	fl := cmd.Flags()
	fl.StringVar(&f.batch, "batch", "", `queries with their documents to take from FILE.jsonl, "-" for standard input`)
	fl.BoolVar(&f.strict, "strict", false, "the first bad line ends the batch")
	fl.StringVar(&f.documents, "documents", "", `documents to take from a file, "-" for standard input`)
	fl.IntVar(&f.top, "top", 0, "documents at most; 0 is all")
	fl.BoolVar(&f.raw, "raw-scores", false, "the model's own scores, not their sigmoid")
	a.flags(cmd, "reranker")
	_ = cmd.RegisterFlagCompletionFunc("reranker", modelNames(true, manifest.Reranker)) // fails only for unknown flags
	return cmd
}

// check validates the arguments before anything is read.
func (f *rerankFlags) check(args []string) error {
	switch {
	case f.top < 0:
		return usagef("--top must not be negative, given %d", f.top)
	case f.batch != "" && (len(args) > 0 || f.documents != ""):
		return usagef("either a query with documents or --batch, not both")
	case f.batch != "":
	case len(args) == 0:
		return usagef("a query with documents, or --batch FILE.jsonl, is wanted")
	case strings.TrimSpace(args[0]) == "":
		return usagef("the query is empty")
	case len(args) > 1 && f.documents != "":
		return usagef("either documents as arguments or --documents, not both")
	}
	return nil
}

func (a *app) rerank(cmd *cobra.Command, f *rerankFlags, args []string) error {
	if err := f.check(args); err != nil {
		return err
	}
	return a.with(cmd, func(s *sluice.Sluice, c config.Config) error {
		switch {
		case c.Reranker == "":
			return usagef("--reranker is missing: a name of 'sluice models list', or a folder")
		case f.batch != "":
			return a.rerankBatch(cmd, s, f)
		}
		return a.rerankOne(cmd, s, f, args)
	})
}

func (a *app) rerankBatch(cmd *cobra.Command, s *sluice.Sluice, f *rerankFlags) error {
	out := newPrinter(a.stdout)
	lines := func(r io.Reader) iter.Seq2[jsonl.Ranking, error] { return jsonl.Rankings(r, f.batch) }
	return runBatch(cmd.Context(), a, &f.query, lines, func(group []jsonl.Ranking) error {
		for _, one := range group {
			scores, err := s.Models().Rerank(cmd.Context(), one.Query, one.Documents)
			if err != nil {
				return err
			}
			a.cutPairs(scores, one.ID)
			if err := out.print(rerankLine{one.ID, f.results(scores, nil)}); err != nil {
				return err
			}
		}
		return out.flush()
	})
}

func (a *app) rerankOne(cmd *cobra.Command, s *sluice.Sluice, f *rerankFlags, args []string) error {
	documents := make([]jsonl.Item, 0, len(args))
	for _, text := range args[1:] {
		documents = append(documents, jsonl.Item{Text: text})
	}
	if len(args) == 1 {
		var err error
		if documents, err = a.readDocuments(cmd, f.documents); err != nil {
			return err
		}
	}
	spinner := a.spin("scoring " + count(len(documents), "document"))
	scores, err := s.Models().Rerank(cmd.Context(), args[0], texts(documents))
	spinner.Stop()
	if err != nil {
		return err
	}
	a.cutPairs(scores, "")
	results := f.results(scores, documents)
	if a.json {
		return a.printJSON(rerankLine{Results: results})
	}
	var b strings.Builder
	for i, r := range results {
		name := fmt.Sprintf("[%d]", r.Index)
		if r.ID != "" {
			name = r.ID
		}
		fmt.Fprintf(&b, "%2d  %.4f  %s  %s\n", i+1, r.Score, short(name, 40), short(documents[r.Index].Text, 200))
	}
	return a.printHanging(4, b.String())
}

// results returns the best documents, best first, as many as requested.
func (f *rerankFlags) results(scores *embed.Scores, documents []jsonl.Item) []rerankResult {
	out := []rerankResult{}
	for _, i := range scores.Ranked(f.top) {
		r := rerankResult{Index: i, Score: scores.Probability(i)}
		if f.raw {
			r.Score = scores.Logits[i]
		}
		if documents != nil {
			r.ID = documents[i].ID
		}
		out = append(out, r)
	}
	return out
}

// cutPairs reports how many pairs were truncated or repaired.
func (a *app) cutPairs(s *embed.Scores, id string) {
	of := ""
	if id != "" {
		of = fmt.Sprintf(" (id %q)", id)
	}
	if s.Truncated > 0 {
		query := ""
		if s.QueryTruncated > 0 {
			query = ", the query as well"
		}
		a.warn("%s %s cut at the model's limit%s%s", count(s.Truncated, "document"),
			byNumber(s.Truncated, "was", "were"), query, of)
	}
	a.repairedTexts(s.Repaired, of)
}

// readDocuments reads {"id","text"} lines of a .jsonl file, or one document per line of any other file.
func (a *app) readDocuments(cmd *cobra.Command, path string) (documents []jsonl.Item, err error) {
	if path == "" && !a.piped() {
		return nil, usagef("no documents: they are arguments, or come from --documents FILE")
	}
	path = cmp.Or(path, "-")
	r, err := a.input(cmd.Context(), path)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	if strings.HasSuffix(path, ".jsonl") {
		for item, err := range jsonl.Items(r, path, true) {
			if err != nil {
				return nil, err
			}
			documents = append(documents, item)
		}
		return documents, nil
	}
	br := bufio.NewReader(r)
	for {
		line, err := br.ReadString('\n')
		if text := strings.TrimSpace(line); text != "" {
			documents = append(documents, jsonl.Item{Text: text})
		}
		if errors.Is(err, io.EOF) {
			return documents, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
}
