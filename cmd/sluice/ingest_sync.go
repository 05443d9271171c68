package main

import (
	"context"
	"errors"
	"fmt"
	"time"

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

const watchHelp = `--watch goes on with that: a sync after each change, once nothing has happened for half a second, and one every
--interval, for what file systems of other machines do not tell. Ctrl-C ends it, with exit code 0. A 'sluice serve' of the
same store answers from what is new at once.`

// watch syncs until the command's context ends; after is called after each sync that has changed something.
func (a *app) watch(
	cmd *cobra.Command, s *sluice.Sluice, i *ingesting, every time.Duration,
	after func(context.Context, ingest.Result) error,
) error {
	if i.o.DryRun {
		return usagef("--watch and --dry-run exclude each other")
	}
	rounds := 0
	err := s.Watch(cmd.Context(), i.in.paths, i.o, sluice.WatchOptions{
		WatchOptions: ingest.WatchOptions{Every: every, OnBlind: func(err error) {
			a.warn("changes are not told (%v): folders are looked through every %v", err,
				min(every, ingest.DefaultBlind))
		}},
		OnSync: func(ctx context.Context, r ingest.Result, err error) {
			if rounds++; rounds > 1 && err == nil && r.Read == 0 && r.Sync.Removed == 0 {
				i.begin()
				return // nothing has changed
			}
			if err = i.end(r, err); err == nil {
				err = after(ctx, r)
			}
			if err != nil && !errors.Is(err, errReported) && ctx.Err() == nil {
				a.say("%v", err)
			}
			if rounds == 1 && ctx.Err() == nil {
				a.note("watching; Ctrl-C ends it")
			}
			i.begin()
		}})
	if cmd.Context().Err() != nil {
		return nil
	}
	return err
}

// ingestFrom ingests what a connector writes; with --watch it starts the program again whenever it has ended.
func (a *app) ingestFrom(cmd *cobra.Command, s *sluice.Sluice, c config.Config, o ingest.Options, command string,
	sync *syncFlags, events bool) error {
	switch {
	case sync.sync || sync.o.Checksum || sync.o.DryRun || sync.o.DeleteAll || sync.o.DeleteExcluded:
		return usagef("--from takes no flags of --sync: the program says what has changed, and what is gone")
	case sync.interval <= 0:
		return usagef("--interval %v is not above 0", sync.interval)
	}
	ctx := cmd.Context()
	for round := 1; ; round++ {
		i := a.newIngesting(&inputs{}, o, events, sync.watch)
		r, err := s.IngestFrom(ctx, ingest.Connector{Command: command, Stderr: a.stderr}, i.o)
		if sync.watch && ctx.Err() != nil {
			return nil
		}
		if err = i.end(r, err); err == nil {
			err = a.follow(ctx, s, c, r)
		}
		if !sync.watch || err != nil && !errors.Is(err, ingest.ErrConnector) && !errors.Is(err, errReported) {
			return err
		}
		if err != nil {
			a.say("%v; it is started again in %v", err, sync.interval)
		} else if round == 1 {
			a.note("started again every %v; Ctrl-C ends it", sync.interval)
		}
		select {
		case <-time.After(sync.interval):
		case <-ctx.Done():
			return nil
		}
	}
}
