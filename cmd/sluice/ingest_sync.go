package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-rag/sluice/internal/printable"
	"github.com/sluice-rag/sluice/rag/ingest"
)

const syncHelp = `--sync brings the store up to date with the folders given, as rsync does: new, changed and moved files are read and only
chunks whose text is new are embedded; the documents of files that have gone are removed. Files whose size, times and
number are what they were are not read (--checksum reads all). A file that cannot be read keeps its documents, one that
is left out now (ignored, hidden, --exclude) too, unless --delete-excluded is given. When a folder is empty or more than
--max-delete percent of its 10 or more documents would be removed, none is, unless --delete-all is given: its disk may
not be there. --dry-run tells what would be done. With --json, {"change":{...}} is printed for each document.`

// syncFlags holds the flags of --sync.
type syncFlags struct {
	sync, watch bool
	interval    time.Duration
	o           ingest.SyncOptions
}

func (a *app) syncFlags(cmd *cobra.Command) *syncFlags {
	s := &syncFlags{}
	f := cmd.Flags()
	f.BoolVar(&s.sync, "sync", false,
		"read what has changed since the last time only, and remove documents whose files have gone")
	f.BoolVar(&s.o.Checksum, "checksum", false, "with --sync: read all files, whatever their sizes and times")
	f.BoolVarP(&s.o.DryRun, "dry-run", "n", false, "with --sync: tell what would be done, and change nothing")
	f.BoolVar(&s.o.DeleteAll, "delete-all", false, "with --sync: remove as many documents as have vanished")
	f.BoolVar(&s.o.DeleteExcluded, "delete-excluded", false,
		"with --sync: also remove documents whose files are there, but left out now")
	f.BoolVar(&s.watch, "watch", false, "synchronise again after each change, until Ctrl-C")
	f.DurationVar(&s.interval, "interval", ingest.DefaultEvery, "with --watch: time between two syncs without a change")
	a.flags(cmd, "ingest.max_delete", "ingest.calibrate")
	f.Lookup("calibrate").NoOptDefVal = "true" // it may stand without a value
	return s
}

// set adds the flags to the options of an ingest.
func (s *syncFlags) set(o *ingest.Options) error {
	s.sync, s.o.MaxDelete = s.sync || s.watch, o.MaxDelete
	o.Sync, o.SyncOptions = s.sync, s.o
	if s.interval <= 0 {
		return usagef("--interval %v is not above 0", s.interval)
	}
	if !s.sync && (s.o.Checksum || s.o.DryRun || s.o.DeleteAll || s.o.DeleteExcluded) {
		return usagef("--checksum, --dry-run, --delete-all and --delete-excluded go with --sync")
	}
	return nil
}

// change reports a change: as JSON; as a line on standard output for a dry run and a watch; otherwise with --verbose on
// standard error.
func (i *ingesting) change(c ingest.Change) {
	line := fmt.Sprintf("%-8s %s", c.Kind, printable.Line(c.ID))
	switch {
	case c.Kind == ingest.Failed:
		line = fmt.Sprintf("%-8s %s", c.Kind, printable.Line(c.Source))
	case c.From != "":
		line += " from " + printable.Line(c.From)
	}
	switch {
	case i.tell.out != nil:
		i.tell.print("change", c)
	case i.o.DryRun, i.watches:
		fmt.Fprintln(i.stdout, line)
	case i.verbose && c.Kind != ingest.Failed: // failures were reported before
		i.say("%s", line)
	}
}

// syncSummary returns a line about what a sync has done.
func syncSummary(r ingest.Result, dry bool) string {
	s := r.Sync
	line := fmt.Sprintf("%d new, %d changed, %d moved, %d removed, %d unchanged documents; %d files read", s.New,
		s.Changed, s.Moved, s.Removed, s.Unchanged, r.Read)
	if dry {
		return "dry run: " + line
	}
	return line + fmt.Sprintf(", %d chunks embedded, %d had the text of others, in %.1f s", r.Embedded, r.Reused,
		r.Seconds)
}
