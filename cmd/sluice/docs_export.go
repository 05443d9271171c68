package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/sluice-rag/sluice"
	"github.com/sluice-rag/sluice/internal/durable"
	"github.com/sluice-rag/sluice/internal/printable"
	"github.com/sluice-rag/sluice/rag/store"
)

func (a *app) exportCommand() *cobra.Command {
	out := ""
	cmd := &cobra.Command{Use: "export [DOCUMENT...]", Short: "write the store, or some documents, into one file",
		Long: `Writes documents with their chunks, vectors, labels and folders as JSON lines, to standard output or into --out. Without
DOCUMENT it is the whole store, with its calibrations and its router: 'docs restore' makes a store of it that answers as
this one does. It is one state of the store, whoever writes meanwhile.

` + documentsHelp,
		RunE: a.withStore(func(cmd *cobra.Command, s *sluice.Sluice, args []string) (err error) {
			var ids []string
			if len(args) > 0 {
				if ids, err = s.Documents().Find(cmd.Context(), args); err != nil {
					return err
				}
			}
			if out == "" && a.screen().Columns > 0 {
				return usagef("docs export would fill the terminal: give --out FILE, or send it elsewhere")
			}
			defer a.spin("exporting").Stop()
			var done store.Exported
			write := func(w io.Writer) (err error) {
				done, err = s.Store().Export(cmd.Context(), w, ids)
				return err
			}
			if out == "" {
				return write(a.stdout)
			}
			if err := writeWhole(out, write); err != nil {
				return err
			}
			return a.result(done,
				"exported %d documents, %d chunks and %d files into %s (%d bytes, sha256 %s)\n",
				done.Documents, done.Chunks, done.Files, printable.Line(out), done.Bytes, done.SHA256)
		})}
	cmd.Flags().StringVar(&out, "out", "", "file to write, which is replaced when it is complete")
	cmd.ValidArgsFunction = a.completing(documentIDs, true)
	return cmd
}

// writeWhole writes a regular file atomically: on failure the old one stays. Other targets, such as pipes, are written
// to directly.
func writeWhole(name string, write func(io.Writer) error) error {
	if i, err := os.Stat(name); err != nil || i.Mode().IsRegular() {
		return durable.Replace(name, write)
	}
	f, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}

func (a *app) restoreCommand() *cobra.Command {
	replace := false
	cmd := &cobra.Command{Use: "restore FILE", Short: "bring back what 'docs export' has written",
		Long: `Reads an export ('-' is standard input) twice: first all of it, and nothing is changed if it is not whole, does not
fit together or is of another encoder. A store that is not there is made, complete or not at all. Into a store that is
there the documents come one by one, and what it has already stays: after an interruption the same command goes on.
Documents that it has with another content are refused, or replaced with --replace; its calibrations and router stay.`,
		Args: takes(1, 1),
		RunE: a.withStore(func(cmd *cobra.Command, s *sluice.Sluice, args []string) error {
			from, err := a.seekable(args[0])
			if err != nil {
				return err
			}
			defer from.Close()
			spinner := a.spin("restoring")
			done, err := s.Store().Restore(cmd.Context(), from, replace)
			spinner.Stop()
			if err != nil {
				return err
			}
			if a.json {
				return a.printJSON(done)
			}
			how := "into the store"
			if done.New {
				how = "into a new store"
			}
			_, err = fmt.Fprintf(a.stdout,
				"restored %d documents, %d chunks and %d files %s; %d documents were there\n",
				done.Restored, done.Chunks, done.Files, how, done.Held)
			if done.LeftOut > 0 {
				a.note("calibrations and router of the export were left out: the store keeps its own")
			}
			return err
		})}
	cmd.Flags().BoolVar(&replace, "replace", false, "replace documents that the store has with another content")
	return cmd
}

// seekable opens a file, or a temporary copy of standard input ("-") and of other input that cannot be read twice.
func (a *app) seekable(name string) (f *os.File, err error) {
	in := io.NopCloser(a.stdin)
	if name != "-" {
		if f, err = os.Open(name); err != nil {
			return nil, err
		}
		i, err := f.Stat()
		if err != nil || i.Mode().IsRegular() {
			return f, err
		}
		if i.IsDir() {
			return nil, errors.Join(usagef("%s is a folder, an export is a file", name), f.Close())
		}
		in = f
	}
	defer in.Close()
	if f, err = os.CreateTemp("", "sluice-restore-*"); err != nil {
		return nil, err
	}
	if err = os.Remove(f.Name()); err == nil { // it lives as long as it is open
		_, err = io.Copy(f, in)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
