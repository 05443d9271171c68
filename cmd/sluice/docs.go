package main

import (
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/sluice-rag/sluice"
	"github.com/sluice-rag/sluice/rag/store"
)

// withStore opens Sluice for a verb.
func (a *app) withStore(f func(cmd *cobra.Command, s *sluice.Sluice, args []string) error) func(*cobra.Command,
	[]string) error {
	return func(cmd *cobra.Command, args []string) error {
		s, _, err := a.open(cmd)
		if err != nil {
			return err
		}
		return closing(s, f(cmd, s, args))
	}
}

func (a *app) docsCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "docs", Short: "list, show and remove what the store holds", Args: cobra.NoArgs}
	var chunks bool
	list := &cobra.Command{Use: "list", Short: "list documents, or with --chunks every chunk", Args: cobra.NoArgs,
		RunE: a.withStore(func(cmd *cobra.Command, s *sluice.Sluice, _ []string) error {
			if chunks {
				return a.listChunks(cmd, s, "")
			}
			return a.listDocuments(cmd, s)
		})}
	list.Flags().BoolVar(&chunks, "chunks", false, "list chunks instead of documents")
	show := &cobra.Command{Use: "show DOCUMENT", Short: "show a document's chunks with their text",
		Args: cobra.ExactArgs(1),
		RunE: a.withStore(func(cmd *cobra.Command, s *sluice.Sluice,
			args []string) error {
			return a.listChunks(cmd, s, args[0])
		})}
	rm := &cobra.Command{Use: "rm DOCUMENT...", Short: "remove documents with their chunks",
		Args: cobra.MinimumNArgs(1),
		RunE: a.withStore(func(cmd *cobra.Command, s *sluice.Sluice, args []string) error {
			n, err := s.DeleteDocuments(cmd.Context(), args)
			if err != nil {
				return err
			}
			if a.json {
				return a.printJSON(map[string]any{"removed": args, "chunks": n})
			}
			fmt.Fprintf(a.stdout, "removed %d documents, %d chunks\n", len(args), n)
			return nil
		})}
	cmd.AddCommand(list, show, rm, a.compactCommand())
	return cmd
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
			n, err := s.Compact(cmd.Context(), share)
			if err != nil {
				return err
			}
			if a.json {
				return a.printJSON(map[string]any{"vectors": n})
			}
			_, err = fmt.Fprintf(a.stdout, "gave back the space of %d vectors\n", n)
			return err
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
}

func (a *app) listDocuments(cmd *cobra.Command, s *sluice.Sluice) error {
	docs, err := s.Documents(cmd.Context())
	if err != nil {
		return err
	}
	if a.json {
		p := newPrinter(a.stdout)
		for _, d := range docs {
			if err := p.print(documentLine{d.ID, d.Source, d.Title, d.Topic, d.Digest, d.Chunks, d.Tokens,
				d.Added}); err != nil {
				return err
			}
		}
		return p.flush()
	}
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ID\tCHUNKS\tTOKENS\tTITLE\tSOURCE")
	for _, d := range docs {
		fmt.Fprintf(w, "%s\t%d\t%d\t%s\t%s\n", d.ID, d.Chunks, d.Tokens, short(d.Title, 50), d.Source)
	}
	return w.Flush()
}

// listChunks prints all chunks, or those of one document with their text.
func (a *app) listChunks(cmd *cobra.Command, s *sluice.Sluice, document string) error {
	p := newPrinter(a.stdout)
	found := 0
	chunks := s.AllChunks(cmd.Context())
	if document != "" {
		chunks = s.DocumentChunks(cmd.Context(), document)
	}
	for c, err := range chunks {
		if err != nil {
			return err
		}
		found++
		switch {
		case a.json:
			err = p.print(c)
		case document != "":
			_, err = fmt.Fprintf(p.w, "%s  %s:%d-%d  %d tokens\n%s%s\n\n", c.ID, c.Source, c.Start, c.End, c.Tokens,
				heading(c.Heading), c.Text)
		default:
			_, err = fmt.Fprintf(p.w, "%s  %s\n", c.ID, short(c.Text, 100))
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

func heading(h string) string {
	if h == "" {
		return ""
	}
	return "[" + h + "]\n"
}
