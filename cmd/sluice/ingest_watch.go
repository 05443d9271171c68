package main

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-rag/sluice"
	"github.com/sluice-rag/sluice/rag/ingest"
)

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
