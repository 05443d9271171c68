package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/sluice-rag/sluice"
	"github.com/sluice-rag/sluice/internal/config"
	"github.com/sluice-rag/sluice/internal/printable"
	"github.com/sluice-rag/sluice/rag/ingest"
)

const syncHelp = `--sync brings the store up to date with the folders given, as rsync does: new, changed and moved files are read and only
chunks whose text is new are embedded; the documents of files that have gone are removed. Files whose size, times and
number are what they were are not read (--checksum reads all). A file that cannot be read keeps its documents, one that
is left out now (ignored, hidden, --exclude) too, unless --delete-excluded is given. When a folder is empty or more than
--max-delete percent of its 10 or more documents would be removed, none is, unless --delete-all is given: its disk may
not be there. --dry-run tells what would be done. With --json, {"change":{...}} is printed for each document.`

// syncFlags are those of --sync.
type syncFlags struct {
	sync bool
	o    sluice.SyncOptions
}

func (a *app) syncFlags(cmd *cobra.Command) *syncFlags {
	s := &syncFlags{}
	f := cmd.Flags()
	f.BoolVar(&s.sync, "sync", false, "read what has changed since the last time only, and remove documents whose files "+
		"have gone")
	f.BoolVar(&s.o.Checksum, "checksum", false, "with --sync: read all files, whatever their sizes and times")
	f.BoolVarP(&s.o.DryRun, "dry-run", "n", false, "with --sync: tell what would be done, and change nothing")
	f.BoolVar(&s.o.DeleteAll, "delete-all", false, "with --sync: remove as many documents as have vanished")
	f.BoolVar(&s.o.DeleteExcluded, "delete-excluded", false,
		"with --sync: also remove documents whose files are there, but left out now")
	a.flag(cmd, "ingest.max_delete", "max-delete")
	return s
}

// fill sets the options of an ingest.
func (s *syncFlags) fill(o *sluice.IngestOptions, c config.Config) error {
	o.Sync, o.SyncOptions = s.sync, s.o
	o.MaxDelete = c.Ingest.MaxDelete
	if !s.sync && (s.o.Checksum || s.o.DryRun || s.o.DeleteAll || s.o.DeleteExcluded) {
		return usagef("--checksum, --dry-run, --delete-all and --delete-excluded go with --sync")
	}
	return nil
}

// tellChanges has the changes of a sync told: as JSON, or those of a dry run as lines for people, or with --verbose on
// standard error.
func (a *app) tellChanges(o *sluice.IngestOptions, tell *ingestEvents) {
	if !o.Sync {
		return
	}
	dry := o.DryRun
	o.OnChange = func(c sluice.Change) {
		line := fmt.Sprintf("%-8s %s", c.Kind, printable.Line(c.ID))
		switch {
		case c.Kind == ingest.Failed:
			line = fmt.Sprintf("%-8s %s", c.Kind, printable.Line(c.Source))
		case c.From != "":
			line += " from " + printable.Line(c.From)
		}
		switch {
		case tell.out != nil:
			tell.print("change", c)
		case dry:
			fmt.Fprintln(a.stdout, line)
		case a.verbose && c.Kind != ingest.Failed: // that is said already
			a.say("%s", line)
		}
	}
}

// syncSummary is a line of what a sync has done.
func syncSummary(r sluice.IngestResult, dry bool) string {
	s := r.Sync
	line := fmt.Sprintf("%d new, %d changed, %d moved, %d removed, %d unchanged documents; %d files read", s.New,
		s.Changed, s.Moved, s.Removed, s.Unchanged, r.Read)
	if dry {
		return "dry run: " + line
	}
	return line + fmt.Sprintf(", %d chunks embedded, %d had the text of others, in %.1f s", r.Embedded, r.Reused,
		r.Seconds)
}
