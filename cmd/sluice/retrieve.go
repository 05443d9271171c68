package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluice-rag/sluice"
	"github.com/sluice-rag/sluice/internal/config"
	"github.com/sluice-rag/sluice/internal/jsonl"
	"github.com/sluice-rag/sluice/internal/printable"
	"github.com/sluice-rag/sluice/internal/terminal"
	"github.com/sluice-rag/sluice/rag/corpus"
	"github.com/sluice-rag/sluice/rag/excerpt"
	"github.com/sluice-rag/sluice/rag/prompt"
	"github.com/sluice-rag/sluice/rag/retrieve"
)

// snippetRunes is about how long a passage is that is not shown in full.
const snippetRunes = 400

// retrieveLine is what `retrieve --json` prints.
type retrieveLine struct {
	ID      string           `json:"id,omitempty"`
	Results []retrieveResult `json:"results"`
}

type retrieveResult struct {
	ID       string            `json:"id"`
	Score    float64           `json:"score"`
	Document string            `json:"document"`
	Title    string            `json:"title,omitempty"`
	Source   string            `json:"source"`
	Heading  string            `json:"heading,omitempty"`
	Anchor   string            `json:"anchor,omitempty"`
	Topic    string            `json:"topic,omitempty"`
	Start    int               `json:"start"` // bytes of the source
	End      int               `json:"end"`
	Text     string            `json:"text,omitempty"`
	Sentence *excerpt.Sentence `json:"sentence,omitempty"` // nearest to the query; its bytes are the passage's
}

func (a *app) retrieveCommand() *cobra.Command {
	var q query
	cmd := &cobra.Command{
		Use:   "retrieve QUERY",
		Short: "find the best contexts for a query, without asking the gate",
		Long: "Prints the best contexts of the store, better first: score, title and heading, place, and the text with " +
			"\">\" at\n" +
			"the sentence that is nearest to the query. It needs neither a calibration nor a language model.\n" +
			questionHelp + batchHelp,
		Example: "  sluice retrieve --k 10 \"How are slices grown?\"\n" +
			"  sluice retrieve --batch questions.jsonl --json",
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := q.text(cmd.Context(), a, args)
			if err != nil {
				return err
			}
			s, c, err := a.openFor(cmd, q.batch == "")
			if err != nil {
				return err
			}
			o := sluice.RetrieveOptions{K: c.Retrieve.K, Mode: retrieve.Mode(c.Retrieve.Mode),
				Sentences: c.Retrieve.Sentences}
			if q.batch != "" {
				return closing(s, a.retrieveBatch(cmd, s, q, o, c.Retrieve))
			}
			return closing(s, a.retrieveOne(cmd, s, text, o, c.Retrieve))
		},
	}
	q.flags(cmd)
	a.flag(cmd, "retrieve.k", "k")
	a.flag(cmd, "retrieve.mode", "mode")
	a.flag(cmd, "retrieve.sentences", "sentences")
	a.flag(cmd, "retrieve.text", "text")
	return cmd
}

func (a *app) retrieveOne(
	cmd *cobra.Command, s *sluice.Sluice, text string, o sluice.RetrieveOptions, c config.Retrieve,
) error {
	spinner := a.spin("searching")
	lists, titles, err := passages(cmd.Context(), s, []string{text}, o)
	spinner.Stop()
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(retrieveLine{Results: results(lists[0], titles, c.Text)})
	}
	var b strings.Builder
	screen := a.screen()
	for i, p := range lists[0] {
		if i > 0 && c.Text != "none" {
			b.WriteByte('\n')
		}
		number := fmt.Sprintf("%2d  %.4f  ", i+1, p.Score)
		k := p.Chunk
		name, below := passageLines(titles[k.Document], k.Source, k.Heading,
			position(k.Source, k.Start, k.End, k.Text)+"  ("+printable.Line(k.ID)+")")
		b.WriteString(screen.BoldLines(screen.Wrap(name, number, "    ")))
		if below != "" {
			b.WriteString(screen.FaintLines(screen.Wrap(below, "    ", "    ")))
		}
		switch c.Text {
		case "full":
			writeParts(&b, screen, excerpt.Parts(k.Text, p.Sentence), "    ")
		case "snippet":
			writeParts(&b, screen, excerpt.Snippet(k.Text, p.Sentence, snippetRunes), "    ")
		}
	}
	_, err = fmt.Fprint(a.stdout, b.String())
	return err
}

// writeParts writes a passage with a bar at its left, and an arrow at the sentence that is nearest to the question.
func writeParts(b *strings.Builder, s terminal.Screen, parts []excerpt.Part, indent string) {
	for _, p := range parts {
		mark := indent + "| "
		if p.Nearest {
			mark = indent + "> "
		}
		text := s.Wrap(p.Text, mark, mark)
		if p.Nearest {
			text = s.BoldLines(text)
		}
		b.WriteString(text)
	}
}

// passages searches, and looks the documents' titles up.
func passages(
	ctx context.Context, s *sluice.Sluice, texts []string, o sluice.RetrieveOptions,
) (lists [][]prompt.Passage, titles map[string]string, err error) {
	if lists, err = s.Passages(ctx, texts, o); err != nil {
		return nil, nil, err
	}
	var documents []string
	for _, list := range lists {
		for _, p := range list {
			documents = append(documents, p.Chunk.Document)
		}
	}
	titles, err = s.Titles(ctx, documents)
	return lists, titles, err
}

// results are passages as JSON has them; how is retrieve.text.
func results(list []prompt.Passage, titles map[string]string, how string) []retrieveResult {
	all := make([]retrieveResult, len(list))
	for i, p := range list {
		c := p.Chunk
		all[i] = retrieveResult{ID: c.ID, Score: p.Score, Document: c.Document, Title: titles[c.Document],
			Source: c.Source, Heading: c.Heading, Anchor: c.Anchor, Topic: c.Topic, Start: c.Start, End: c.End,
			Sentence: p.Sentence}
		switch how {
		case "full":
			all[i].Text = c.Text
		case "snippet":
			all[i].Text = snippetText(c, p.Sentence)
		}
	}
	return all
}

func snippetText(c corpus.Chunk, s *excerpt.Sentence) string {
	var parts []string
	for _, p := range excerpt.Snippet(c.Text, s, snippetRunes) {
		parts = append(parts, p.Text)
	}
	return strings.Join(parts, " ")
}

func (a *app) retrieveBatch(
	cmd *cobra.Command, s *sluice.Sluice, q query, o sluice.RetrieveOptions, c config.Retrieve,
) error {
	out := newPrinter(a.stdout)
	return q.run(cmd.Context(), a, false, func(items []jsonl.Item) error {
		lists, titles, err := passages(cmd.Context(), s, texts(items), o)
		if err != nil {
			return err
		}
		for i, list := range lists {
			if err := out.print(retrieveLine{ID: items[i].ID, Results: results(list, titles, c.Text)}); err != nil {
				return err
			}
		}
		return out.flush()
	})
}
