package main

import (
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-rag/sluice"
	"github.com/sluice-rag/sluice/internal/config"
	"github.com/sluice-rag/sluice/rag/ingest"
)

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
