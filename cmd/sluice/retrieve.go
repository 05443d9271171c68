package main

import (
	"context"
	"fmt"
	"reflect"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluice-rag/sluice"
	"github.com/sluice-rag/sluice/internal/config"
	"github.com/sluice-rag/sluice/internal/manifest"
	"github.com/sluice-rag/sluice/internal/printable"
	"github.com/sluice-rag/sluice/internal/settings"
	"github.com/sluice-rag/sluice/internal/terminal"
	"github.com/sluice-rag/sluice/rag/corpus"
	"github.com/sluice-rag/sluice/rag/excerpt"
	"github.com/sluice-rag/sluice/rag/prompt"
	"github.com/sluice-rag/sluice/rag/retrieve"
)

// snippetRunes is the approximate length of a passage that is not shown in full.
const snippetRunes = 400

// retrieveLine is the output of `retrieve --json`.
type retrieveLine struct {
	ID      string                `json:"id,omitempty"`
	Taken   retrieve.Taken        `json:"taken"`
	Results []sluice.FoundPassage `json:"results"`
}

func (a *app) retrieveCommand() *cobra.Command {
	var q query
	var f retrieveFlags
	cmd := &cobra.Command{
		Use:   "retrieve QUERY",
		Short: "find the best contexts for a query, without asking the gate",
		Long: `Prints the best contexts of the store, better first: score, title and heading, place, and the text with ">" at
the sentence that is nearest to the query. It needs neither a calibration nor a language model.

--mode says how contexts are ranked; with --json, "taken" says what that came to. --explain prints what each score was
made of. --where selects contexts before they are scored, by topic, document, source, path, title, collection, added or
meta.KEY of their documents, or label.KIND of their own: topic=physics, source~docs/**, meta.year>=2020. Conditions must
hold together; those with = of one field are alternatives.
` + questionHelp + batchHelp,
		Example: "  sluice retrieve --k 10 \"How are slices grown?\"\n" +
			"  sluice retrieve --mode hybrid --weight 0.3 --explain \"How are slices grown?\"\n" +
			"  sluice retrieve --where \"source~spec*\" --expand neighbours \"How are slices grown?\"\n" +
			"  sluice retrieve --batch questions.jsonl --json",
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := q.text(cmd.Context(), a, args)
			if err != nil {
				return err
			}
			return a.withFor(cmd, q.batch == "", func(s *sluice.Sluice, c config.Config) error {
				o, err := f.options(c)
				if err != nil {
					return err
				}
				if q.batch == "" {
					return a.retrieveOne(cmd, s, text, o, c.Retrieve.Text)
				}
				return q.print(cmd.Context(), a, false, func(texts []string) (func(int, string) any, error) {
					lists, titles, err := search(cmd.Context(), s, texts, o)
					return func(i int, id string) any {
						return retrieveLine{id, lists[i].Taken, results(lists[i], titles, c.Retrieve.Text)}
					}, err
				})
			})
		},
	}
	q.flags(cmd)
	f.add(a, cmd)
	a.flags(cmd, "retrieve.text")
	cmd.Flags().BoolVar(&f.explain, "explain", false, "say what each score was made of")
	return cmd
}

// retrieveFlags holds the flags of a search that are not settings.
type retrieveFlags struct {
	where   []string
	explain bool
}

// add adds the flags of a search to a verb.
func (f *retrieveFlags) add(a *app, cmd *cobra.Command) {
	for _, field := range settings.Fields(reflect.TypeFor[retrieve.Options]()) {
		a.flags(cmd, "retrieve."+field.Key)
	}
	a.flags(cmd, "reranker", "device", "groups")
	_ = cmd.RegisterFlagCompletionFunc("reranker", modelNames(true, manifest.Reranker)) // fails only for unknown flags
	cmd.Flags().StringArrayVar(&f.where, "where", nil,
		"only contexts whose documents fit, as topic=physics or meta.year>=2020; may be given several times")
}

// options returns the search options of the settings and the flags.
func (f *retrieveFlags) options(c config.Config) (o retrieve.Options, err error) {
	o = c.Retrieve.Options
	o.Explain = f.explain
	if o.Where, err = retrieve.ParseFilter(f.where); err != nil {
		return o, usageError{err}
	}
	if o.Rerank > 0 && c.Reranker == "" {
		return o, usagef("--rerank %d needs --reranker: a name of 'sluice models list', or a folder", o.Rerank)
	}
	return o, nil
}

// retrieveOne prints what is found for a text, by retrieve.text.
func (a *app) retrieveOne(cmd *cobra.Command, s *sluice.Sluice, text string, o retrieve.Options, how string) error {
	spinner := a.spin("searching")
	lists, titles, err := search(cmd.Context(), s, []string{text}, o)
	spinner.Stop()
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(retrieveLine{Taken: lists[0].Taken, Results: results(lists[0], titles, how)})
	}
	return a.print(retrieveText(a.screen(), lists[0], titles, how, o.Explain))
}

// retrieveText formats the results for people.
func retrieveText(screen terminal.Screen, found sluice.Found, titles map[string]string, how string,
	explain bool) string {
	var b strings.Builder
	if t := found.Taken; explain || len(found.Results) == 0 {
		b.WriteString(screen.FaintLines(screen.Wrap(takenText(t), "", "    ")))
	}
	if explain && len(found.Results) > 0 {
		b.WriteString(partsTable(found))
		b.WriteByte('\n')
	}
	for i, p := range found.Passages {
		if i > 0 && how != "none" {
			b.WriteByte('\n')
		}
		number := fmt.Sprintf("%2d  %.4f  ", i+1, p.Score)
		k := p.Chunk
		place := position(k.Source, k.Anchor, k.Start, k.End, k.Text) + "  (" + printable.Line(k.ID) + ")"
		if len(p.Joined) > 1 {
			place += fmt.Sprintf("  joined from %d chunks", len(p.Joined))
		}
		place += copiesText(p.Copies)
		name, below := passageLines(titles[k.Document], k.Source, k.Heading, place)
		b.WriteString(screen.BoldLines(screen.Wrap(name, number, "    ")))
		if below != "" {
			b.WriteString(screen.FaintLines(screen.Wrap(below, "    ", "    ")))
		}
		switch how {
		case "full":
			writeParts(&b, screen, excerpt.Parts(k.Text, p.Sentence), "    ")
		case "snippet":
			writeParts(&b, screen, excerpt.Snippet(k.Text, p.Sentence, snippetRunes), "    ")
		}
	}
	return b.String()
}

// copiesText names the further sources of a passage.
func copiesText(copies []prompt.Copy) (text string) {
	for _, c := range copies {
		text += "  also in " + printable.Line(c.Source)
	}
	return text
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

// search searches, and looks up the documents' titles.
func search(
	ctx context.Context, s *sluice.Sluice, texts []string, o retrieve.Options,
) (found []sluice.Found, titles map[string]string, err error) {
	if found, err = s.Retrieve(ctx, texts, o); err != nil {
		return nil, nil, err
	}
	titles, err = s.Documents().TitlesOf(ctx, found...)
	return found, titles, err
}

// results converts what was found to JSON output; how is retrieve.text.
func results(found sluice.Found, titles map[string]string, how string) []sluice.FoundPassage {
	all := found.Lines(titles)
	for i, p := range found.Passages {
		switch how {
		case "snippet":
			all[i].Text = snippetText(p.Chunk, p.Sentence)
		case "full":
		default:
			all[i].Text = ""
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
