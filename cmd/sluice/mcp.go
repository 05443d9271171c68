package main

import (
	"context"
	"encoding/json"
	"os"
	"sync"

	"github.com/spf13/cobra"

	"github.com/sluice-rag/sluice"
	"github.com/sluice-rag/sluice/internal/buildinfo"
	"github.com/sluice-rag/sluice/internal/config"
	"github.com/sluice-rag/sluice/internal/panics"
	"github.com/sluice-rag/sluice/rag/corpus"
	"github.com/sluice-rag/sluice/rag/ingest"
	"github.com/sluice-rag/sluice/serve/mcp"
)

func (a *app) mcpCommand() *cobra.Command {
	var f retrieveFlags
	cmd := &cobra.Command{
		Use:   "mcp",
		Short: "serve the store to a program that speaks the Model Context Protocol",
		Long: `Speaks the Model Context Protocol on standard input and output until the input ends: tools gate, search, ask,
get_document and list_documents, and the documents as resources. Programs such as Claude Desktop, VS Code and Cursor start
it themselves (docs/mcp.md has their configurations). With --mcp-ingest there is the tool ingest, too, by which the
program may put texts into the store.

Nothing but the protocol goes to standard output. 'sluice serve' has the same tools for several programs at /mcp.`,
		Example: "  sluice mcp --store ~/kb\n  sluice mcp --store ~/kb --mcp-ingest",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.with(cmd, func(s *sluice.Sluice, c config.Config) (err error) {
				o := mcp.Options{Ask: c.Ask, Version: buildinfo.Version}
				o.Base = func(context.Context) (mcp.Base, error) { return mcp.Base{Name: "default", Sluice: s}, nil }
				if o.Retrieve, err = f.options(c); err != nil {
					return err
				}
				out, err := a.protocolOutput()
				if err != nil {
					return err
				}
				var followers sync.WaitGroup
				defer followers.Wait()
				ctx, stop := context.WithCancel(cmd.Context())
				defer stop()
				if c.MCPIngest {
					o.Ingest = a.ingestTexts(ctx, s, c, &followers)
				}
				return mcp.Stdio(ctx, o, a.stdin, out)
			})
		},
	}
	f.add(a, cmd)
	a.askFlags(cmd)
	a.flags(cmd, "mcp.ingest")
	brief(cmd, "gate", "k", "mcp-ingest", "style", "where")
	return cmd
}

// ingestTexts returns the function of the tool ingest. The calibration is brought up to date afterwards, one ingest at
// a time, until ctx ends.
func (a *app) ingestTexts(ctx context.Context, s *sluice.Sluice, c config.Config, followers *sync.WaitGroup) func(
	context.Context, mcp.Base, []mcp.Text, func(done, total int64)) (mcp.Ingested, error) {
	turn := make(chan struct{}, 1)
	return func(call context.Context, _ mcp.Base, documents []mcp.Text, progress func(done, total int64)) (
		out mcp.Ingested, err error) {
		path, err := linesOf(documents)
		if err != nil {
			return out, err
		}
		defer os.Remove(path) //nolint:errcheck // a file of the system's folder for such files
		o := c.Ingest.Options
		o.Given = map[string]string{path: "texts.jsonl"} // the file is here for the ingest only
		o.Progress = func(p ingest.Progress) { progress(p.Bytes, p.BytesTotal) }
		o.OnSkip = func(k corpus.Skipped) {
			out.Skipped = append(out.Skipped, mcp.Skipped{Source: "texts.jsonl", Error: k.Err.Error()})
		}
		r, err := s.Ingest(call, []string{path}, o)
		out.Documents, out.Passages = r.Documents, r.Chunks
		if err != nil {
			return out, err
		}
		followers.Go(func() {
			turn <- struct{}{}
			defer func() { <-turn }()
			err := panics.Call(func() error { return a.follow(ctx, s, c, r) })
			if err != nil && ctx.Err() == nil {
				a.warn("the calibration is as it was: %v", err)
			}
		})
		return out, nil
	}
}

// linesOf writes documents as JSON lines into a file of its own.
func linesOf(documents []mcp.Text) (path string, err error) {
	f, err := os.CreateTemp("", "sluice-*.jsonl")
	if err != nil {
		return "", err
	}
	defer func() {
		if closed := f.Close(); err == nil {
			err = closed
		}
		if err != nil {
			_ = os.Remove(f.Name())
		}
	}()
	encoder := json.NewEncoder(f)
	for _, d := range documents {
		if err := encoder.Encode(d.Named()); err != nil {
			return "", err
		}
	}
	return f.Name(), nil
}
