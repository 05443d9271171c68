package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-rag/sluice"
	"github.com/sluice-rag/sluice/internal/config"
	"github.com/sluice-rag/sluice/internal/printable"
	"github.com/sluice-rag/sluice/rag/web"
)

func (a *app) webCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "web", Short: "search the web, and see what is kept of it",
		Long: `The web is searched by the provider that web.provider names (searxng, brave or tavily), and by nobody where none
is named. Pages lie beside the store for web.lifetime_h hours. They change neither the calibration nor the gate.`}
	cmd.AddCommand(a.webSearchCommand(), a.webListCommand(), a.webRemoveCommand())
	return group(cmd)
}

// webPage is a page as JSON, with the reason if it was not read.
type webPage struct {
	web.Page
	Error string `json:"error,omitempty"`
}

func (a *app) webSearchCommand() *cobra.Command {
	var keep bool
	cmd := &cobra.Command{Use: "search QUESTION", Short: "ask the provider and fetch the pages that it finds",
		Args: takes(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withFor(cmd, true, func(s *sluice.Sluice, c config.Config) error {
				spinner := a.spin("searching the web")
				pages, err := s.Web().Search(cmd.Context(), args[0], c.WebResults)
				spinner.Stop()
				if err != nil {
					return err
				}
				if len(pages) == 0 {
					a.note("no pages were found")
				}
				if err := a.printPages(pages); err != nil || !keep {
					return err
				}
				kept, err := s.Web().Keep(cmd.Context(), pages)
				if err == nil {
					a.note("kept %s, %s", count(kept.Pages, "page"), count(kept.Chunks, "chunk"))
				}
				return err
			})
		}}
	cmd.Flags().BoolVar(&keep, "keep", false, "keep the pages beside the store, for web.lifetime_h hours")
	a.flags(cmd, "web.results", "web.provider", "web.url")
	return cmd
}

func (a *app) printPages(pages []web.Page) error {
	if a.json {
		list := make([]webPage, len(pages))
		for i, p := range pages {
			list[i].Page = p
			if p.Err != nil {
				list[i].Error = p.Err.Error()
			}
		}
		return a.printJSON(map[string]any{"pages": list})
	}
	screen := a.screen()
	var b strings.Builder
	for i, p := range pages {
		b.WriteString(screen.BoldLines(screen.Wrap(printable.Line(p.Title), fmt.Sprintf("%2d. ", i+1), "    ")))
		b.WriteString(screen.FaintLines(screen.Wrap(printable.Line(p.URL), "    ", "    ")))
		if text := short(p.Content(), 300); text != "" {
			b.WriteString(screen.Wrap(text, "    ", "    "))
		}
	}
	return a.print(b.String())
}

func (a *app) webListCommand() *cobra.Command {
	return &cobra.Command{Use: "list", Short: "list the pages that are kept", Args: cobra.NoArgs,
		RunE: a.withStore(func(cmd *cobra.Command, s *sluice.Sluice, _ []string) error {
			list, err := s.Web().List(cmd.Context())
			if err != nil {
				return err
			}
			if a.json {
				return a.printJSON(map[string]any{"pages": list})
			}
			for _, d := range list {
				state := "until " + d.Expires.Format(time.DateTime)
				if d.Expired {
					state = "expired"
				}
				fmt.Fprintf(a.stdout, "%s  %s  %s, %s  %s\n", d.Fetched.Format(time.DateTime), state,
					count(d.Chunks, "chunk"), printable.Line(d.URL), printable.Line(d.Title))
			}
			return nil
		})}
}

func (a *app) webRemoveCommand() *cobra.Command {
	var expired bool
	cmd := &cobra.Command{Use: "rm URL... | --expired", Short: "remove pages that are kept",
		Args: func(_ *cobra.Command, args []string) error {
			if expired != (len(args) == 0) {
				return usagef("web rm takes addresses, or --expired")
			}
			return nil
		},
		RunE: a.withStore(func(cmd *cobra.Command, s *sluice.Sluice, args []string) error {
			n, err := s.Web().Remove(cmd.Context(), args...)
			if err != nil {
				return err
			}
			return a.result(map[string]any{"removed": n}, "removed %s\n", count(n, "page"))
		})}
	cmd.Flags().BoolVar(&expired, "expired", false, "remove those whose time is over")
	return cmd
}
