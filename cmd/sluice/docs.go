package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/sluice-rag/sluice"
	"github.com/sluice-rag/sluice/internal/config"
	"github.com/sluice-rag/sluice/internal/printable"
	"github.com/sluice-rag/sluice/internal/terminal"
	"github.com/sluice-rag/sluice/rag/corpus"
	"github.com/sluice-rag/sluice/rag/ingest"
	"github.com/sluice-rag/sluice/rag/knowledge"
	"github.com/sluice-rag/sluice/rag/store"
)

// withStore opens Sluice for a verb.
func (a *app) withStore(f func(cmd *cobra.Command, s *sluice.Sluice, args []string) error) func(*cobra.Command,
	[]string) error {
	return func(cmd *cobra.Command, args []string) error {
		return a.with(cmd, func(s *sluice.Sluice, _ config.Config) error { return f(cmd, s, args) })
	}
}

func (a *app) docsCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "docs", Short: "list, show, remove, export and check what the store holds"}
	var chunks, gone bool
	list := &cobra.Command{Use: "list", Short: "list documents, or with --chunks every chunk", Args: cobra.NoArgs,
		RunE: a.withStore(func(cmd *cobra.Command, s *sluice.Sluice, _ []string) error {
			if chunks {
				return a.listChunks(cmd, s, "")
			}
			read := s.Documents().List
			if gone {
				read = s.Documents().Gone
			}
			return a.listDocuments(cmd, read)
		})}
	list.Flags().BoolVar(&gone, "gone", false, "list those whose files are not there any more")
	list.Flags().BoolVar(&chunks, "chunks", false, "list chunks instead of documents")
	list.MarkFlagsMutuallyExclusive("chunks", "gone")
	show := &cobra.Command{Use: "show DOCUMENT...", Short: "show documents' chunks with their text",
		Long: documentsHelp, Args: takes(1, many),
		RunE: a.withStore(func(cmd *cobra.Command, s *sluice.Sluice, args []string) error {
			ids, err := s.Documents().Find(cmd.Context(), args)
			for _, id := range ids {
				err = errors.Join(err, a.listChunks(cmd, s, id))
			}
			return err
		})}
	a.flags(list, "groups")
	a.flags(show, "groups")
	rm := &cobra.Command{Use: "rm DOCUMENT... | --gone", Short: "remove documents with their chunks",
		Long: documentsHelp +
			" With --gone: those whose files are not there any more, as 'docs list --gone' shows them.\n\nA removed " +
			"document whose file is still there comes back with the next 'ingest' or 'ingest --sync' of its folder;\n" +
			"a line in .sluiceignore keeps the file out.",
		Args: func(_ *cobra.Command, args []string) error {
			if gone != (len(args) == 0) {
				return usagef("docs rm takes documents, or --gone")
			}
			return nil
		},
		RunE: a.withStore(func(cmd *cobra.Command, s *sluice.Sluice, args []string) error {
			ids, err := a.documentsToRemove(cmd, s, args)
			if err != nil {
				return err
			}
			n, err := s.Documents().Delete(cmd.Context(), ids)
			if err != nil {
				return err
			}
			return a.result(map[string]any{"removed": ids, "chunks": n},
				"removed %d documents, %d chunks\n", len(ids), n)
		})}
	show.ValidArgsFunction = a.completing(documentIDs, true)
	rm.ValidArgsFunction = show.ValidArgsFunction
	rm.Flags().BoolVar(&gone, "gone", false, "remove those whose files are not there any more")
	cmd.AddCommand(list, show, rm, a.rootCommand(), a.exportCommand(), a.restoreCommand(), a.checkCommand(),
		a.repairCommand(), a.compactCommand())
	cmd.AddCommand(a.duplicatesCommand())
	return group(cmd)
}

// documentsToRemove returns the ids of the named documents, or of those whose files no longer exist.
func (a *app) documentsToRemove(cmd *cobra.Command, s *sluice.Sluice, args []string) (ids []string, err error) {
	if len(args) > 0 {
		return s.Documents().Find(cmd.Context(), args)
	}
	docs, err := s.Documents().Gone(cmd.Context())
	for _, d := range docs {
		ids = append(ids, d.ID)
		a.note("removing %s: %s is not there any more", printable.Line(d.ID), printable.Line(d.Path))
	}
	return ids, err
}

const documentsHelp = `DOCUMENT is an id as 'docs list' shows it, the path of a file, or a pattern of ids in quotes: '*' and '?' stand for
what is between two slashes, '**' for slashes as well, as in 'docs/**'.`

func (a *app) rootCommand() *cobra.Command {
	return &cobra.Command{Use: "root [NAME FOLDER]", Short: "list the folders of documents, or say where one is now",
		Long: `Without arguments: the folders that documents were ingested from, with the names that their ids begin with. With a name
and a folder: that is where the folder of this name is now. The documents keep their ids, and 'ingest FOLDER' brings
them up to date.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 0 && len(args) != 2 {
				return usagef("docs root takes no argument, or a NAME and a FOLDER")
			}
			return nil
		},
		RunE: a.withStore(func(cmd *cobra.Command, s *sluice.Sluice, args []string) error {
			if len(args) == 2 {
				if err := s.Documents().MoveCollection(cmd.Context(), args[0], args[1]); err != nil {
					return err
				}
			}
			list, err := s.Documents().Collections(cmd.Context())
			if err != nil {
				return err
			}
			p := newPrinter(a.stdout)
			w := tabwriter.NewWriter(p.w, 0, 0, 2, ' ', 0)
			for _, c := range list {
				_, gone := os.Stat(c.Root)
				switch {
				case a.json:
					err = errors.Join(err, p.print(rootLine{c, gone != nil}))
				case gone != nil:
					fmt.Fprintf(w, "%s\t%s (not there now)\n", printable.Line(c.Name), printable.Line(c.Root))
				default:
					fmt.Fprintf(w, "%s\t%s\n", printable.Line(c.Name), printable.Line(c.Root))
				}
			}
			return errors.Join(err, w.Flush(), p.flush())
		})}
}

// rootLine is the output of `docs root --json`.
type rootLine struct {
	store.Collection
	Gone bool `json:"gone"`
}

func (a *app) repairCommand() *cobra.Command {
	return &cobra.Command{Use: "repair", Short: "embed again what is damaged", Args: cobra.NoArgs,
		Long: `Compares all vectors and texts with their checksums. The chunks of damaged vectors are embedded again from
their texts; of damaged texts the sources are named, which 'ingest' reads again. The exit code is 1 when some are left. Every
'ingest' repairs vectors, too.`,
		RunE: a.withStore(func(cmd *cobra.Command, s *sluice.Sluice, _ []string) error {
			r, err := s.Store().Repair(cmd.Context())
			if err != nil {
				return err
			}
			err = a.result(r, "%d damaged blocks of vectors: %d chunks embedded again, %d lost; "+
				"%d damaged texts\n", r.Blocks, r.Chunks, len(r.Lost), len(r.Texts))
			for _, source := range r.Sources {
				a.say("'sluice ingest %s' completes what is damaged or incomplete", printable.Line(source))
			}
			if err == nil && len(r.Sources) > 0 {
				err = errReported
			}
			return err
		})}
}

func (a *app) compactCommand() *cobra.Command {
	share := 0.
	cmd := &cobra.Command{Use: "compact", Short: "give back the space of removed documents", Args: cobra.NoArgs,
		Long: "Writes the vectors that are left into new files if at least --min-share of them are of removed or " +
			"replaced\n" +
			"chunks, and makes the index of a large store anew. Others may go on reading meanwhile. 'ingest' does so " +
			"by itself\n" +
			"when a third is removed.",
		RunE: a.withStore(func(cmd *cobra.Command, s *sluice.Sluice, _ []string) error {
			if share < 0 || share > 1 {
				return fmt.Errorf("%w: --min-share %g is not within 0 and 1", sluice.ErrOption, share)
			}
			n, err := s.Store().Compact(cmd.Context(), share)
			if err != nil {
				return err
			}
			return a.result(map[string]any{"vectors": n}, "gave back the space of %d vectors\n", n)
		})}
	cmd.Flags().Float64Var(&share, "min-share", 0, "leave the store as it is when less than this share is removed")
	return cmd
}

type documentLine struct {
	ID     string `json:"id"`
	Source string `json:"source"`
	Title  string `json:"title,omitempty"`
	Topic  string `json:"topic,omitempty"`
	Digest string `json:"digest"`
	Chunks int    `json:"chunks"`
	Tokens int    `json:"tokens"`
	Added  string `json:"added"`

	Path       string `json:"path,omitempty"` // absolute
	Collection string `json:"collection,omitempty"`
	Partial    bool   `json:"partial,omitempty"`
	Language   string `json:"language,omitempty"` // ISO 639-1, guessed or given

	Meta corpus.Meta `json:"meta,omitempty"` // other metadata, the language included
}

func (a *app) listDocuments(
	cmd *cobra.Command, read func(context.Context) ([]store.DocumentInfo, error),
) error {
	docs, err := read(cmd.Context())
	if err != nil {
		return err
	}
	for _, d := range docs {
		if d.Partial {
			a.warn("%s is incomplete: an ingest was interrupted; 'sluice ingest %s' completes it",
				printable.Line(d.ID), printable.Line(ingest.FileOf(d.Source)))
		}
	}
	if a.json {
		return newPrinter(a.stdout).lines(len(docs), func(i int) any {
			d := docs[i]
			return documentLine{d.ID, d.Source, d.Title, d.Topic, d.Digest, d.Chunks, d.Tokens, d.Added, d.Path,
				d.Collection, d.Partial, d.Meta.Text("language"), d.Meta}
		})
	}
	table := terminal.Table{Columns: []terminal.Column{{Title: "ID", Path: true}, {Title: "CHUNKS", Right: true},
		{Title: "TOKENS", Right: true, Spare: true}, {Title: "LANG", Spare: true}, {Title: "TITLE"},
		{Title: "SOURCE", Path: true, Spare: true}}}
	for _, d := range docs {
		if d.Partial {
			d.Source += " (incomplete)"
		}
		table.Add(d.ID, strconv.Itoa(d.Chunks), strconv.Itoa(d.Tokens), d.Meta.Text("language"), short(d.Title, 50),
			d.Source)
	}
	return a.print(table.Text(a.screen()))
}

// chunkLine is the output of 'docs show --json' and 'docs list --chunks --json'.
type chunkLine struct {
	corpus.Chunk
	Labels []store.Label `json:"labels,omitempty"`
}

// listChunks prints all chunks, or a document's record and its chunks with their text.
func (a *app) listChunks(cmd *cobra.Command, s *sluice.Sluice, document string) error {
	p := newPrinter(a.stdout)
	found := 0
	chunks := s.Documents().AllChunks(cmd.Context())
	if document != "" {
		chunks = s.Documents().ChunksOf(cmd.Context(), document)
	}
	for c, err := range chunks {
		if err != nil {
			return err
		}
		if found++; found == 1 && document != "" && !a.json {
			if err := a.showDocument(cmd, p.w, s, document); err != nil {
				return err
			}
		}
		var labels map[string][]store.Label
		if a.json || document != "" {
			if labels, err = s.Documents().Labels(cmd.Context(), []string{c.ID}); err != nil {
				return err
			}
		}
		switch {
		case a.json:
			err = p.print(chunkLine{c, labels[c.ID]})
		case document != "":
			_, err = fmt.Fprintf(p.w, "%s  %s:%d-%d  %d tokens\n%s%s%s\n\n", printable.Line(c.ID),
				printable.Line(c.Source), c.Start, c.End, c.Tokens, heading(c.Heading), labelText(labels[c.ID]),
				printable.Text(c.Text))
		default:
			_, err = fmt.Fprintf(p.w, "%s  %s\n", printable.Line(c.ID), short(c.Text, 100))
		}
		if err != nil {
			return err
		}
	}
	if document != "" && found == 0 {
		return fmt.Errorf("%w: document %q; 'sluice docs list' shows the ids", store.ErrNotFound, document)
	}
	return p.flush()
}

// showDocument prints a document's record without its chunks, a line for each field.
func (a *app) showDocument(cmd *cobra.Command, w io.Writer, s *sluice.Sluice, id string) error {
	d, err := s.Documents().Get(cmd.Context(), id)
	if err != nil {
		return err
	}
	for _, x := range [][2]string{{"title", d.Title}, {"topic", d.Topic}} {
		if x[1] != "" {
			fmt.Fprintf(w, "%s: %s\n", x[0], printable.Line(x[1]))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(d.Meta)) {
		fmt.Fprintf(w, "%s: %s\n", printable.Line(key), printable.Line(d.Meta.Text(key)))
	}
	_, err = fmt.Fprintln(w)
	return err
}

// labelText returns a chunk's labels by kind, on one line.
func labelText(labels []store.Label) string {
	var parts []string
	for i, l := range labels {
		if i > 0 && labels[i-1].Kind == l.Kind {
			parts[len(parts)-1] += ", " + printable.Line(l.Value)
		} else {
			parts = append(parts, l.Kind+": "+printable.Line(l.Value))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return "{" + strings.Join(parts, "; ") + "}\n"
}

func heading(h string) string {
	if h == "" {
		return ""
	}
	return "[" + printable.Line(h) + "]\n"
}

func (a *app) duplicatesCommand() *cobra.Command {
	var o knowledge.DuplicateOptions
	cmd := &cobra.Command{Use: "duplicates", Short: "list chunks that are in the store more than once, or nearly",
		Long: `Lists groups of chunks that say the same: those of the same text, and those whose vectors and words are both
near enough. Each has the cosine with an earlier chunk of its group, and the share of pairs of neighbouring words that both
have. Nothing is removed: 'docs rm' removes documents. With --json, an object for each group.`,
		Args: cobra.NoArgs,
		RunE: a.withStore(func(cmd *cobra.Command, s *sluice.Sluice, _ []string) error {
			groups, err := s.Documents().Duplicates(cmd.Context(), o)
			if err != nil {
				return err
			}
			return a.printDuplicates(groups)
		})}
	cmd.Flags().Float64Var(&o.Cosine, "cosine", knowledge.DefaultDuplicateCosine, "of the vectors, at least")
	cmd.Flags().Float64Var(&o.Overlap, "words", knowledge.DefaultDuplicateOverlap,
		"share of pairs of neighbouring words that both texts have, at least")
	return cmd
}

func (a *app) printDuplicates(groups []knowledge.DuplicateGroup) error {
	p := newPrinter(a.stdout)
	var err error
	more := 0
	for _, g := range groups {
		more += len(g.Chunks) - 1
		if a.json {
			err = errors.Join(err, p.print(g))
			continue
		}
		for _, c := range g.Chunks {
			alike := "the first"
			if c.Of != "" {
				alike = fmt.Sprintf("cosine %.3f, words %.2f", c.Cosine, c.Overlap)
			}
			fmt.Fprintf(p.w, "%s  %s  (%s)\n    %s\n", printable.Line(c.ID), printable.Line(c.Source), alike,
				short(c.Text, 100))
		}
		fmt.Fprintln(p.w)
	}
	a.note("%d groups; %d chunks say what another one does", len(groups), more)
	return errors.Join(err, p.flush())
}

// checkReport is the output of 'docs check --json'.
type checkReport struct {
	store.Inspected
	Damaged  int             `json:"damaged"` // findings that are not harmless
	Findings []store.Finding `json:"findings"`
}

func (a *app) checkCommand() *cobra.Command {
	return &cobra.Command{Use: "check", Short: "compare everything with its checksums, and name what is damaged",
		Args: cobra.NoArgs, Long: `Reads the whole store and compares: the database's pages and references, every vector and every text
with its checksum, rows, files of vectors, the list of rows, calibrations, router and indexes. Each damage is named with
what mends it; the exit code is 1 then. Others may read and write meanwhile.`,
		RunE: a.withStore(func(cmd *cobra.Command, s *sluice.Sluice, _ []string) (err error) {
			r := checkReport{Findings: []store.Finding{}}
			spinner := a.spin("checking")
			r.Inspected, err = s.Store().Check(cmd.Context(), func(f store.Finding) {
				if r.Findings = append(r.Findings, f); !f.Harmless {
					r.Damaged++
				}
			})
			spinner.Stop()
			if err != nil {
				return err
			}
			if a.json {
				err = a.printJSON(r)
			} else {
				err = a.printFindings(r)
			}
			if err == nil && r.Damaged > 0 {
				err = errReported
			}
			return err
		})}
}

func (a *app) printFindings(r checkReport) error {
	for _, f := range r.Findings {
		kind := "damaged"
		if f.Harmless {
			kind = "note"
		}
		if _, err := fmt.Fprintf(a.stdout, "%s: %s: %s: %s\n  %s\n", kind, f.What, printable.Line(f.Where),
			printable.Line(f.Problem), printable.Line(f.Mend)); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(a.stdout, "checked %d documents, %d texts, %d vectors in %d blocks: %d damaged\n",
		r.Documents, r.Texts, r.Rows, r.Blocks, r.Damaged)
	return err
}
