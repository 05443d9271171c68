package main

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/sluice-rag/sluice/internal/buildinfo"
	"github.com/sluice-rag/sluice/llm"
)

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{Use: "version", Short: "print version, commit and how this binary was built",
		Args: cobra.NoArgs, RunE: func(*cobra.Command, []string) error {
			if a.json {
				return a.printJSON(map[string]any{"version": buildinfo.Version, "commit": buildinfo.Commit(),
					"go":       runtime.Version(),
					"platform": runtime.GOOS + "/" + runtime.GOARCH, "native": llm.Available})
			}
			native := "without native parts"
			if llm.Available {
				native = "with native parts"
			}
			_, err := fmt.Fprintf(a.stdout, "%s, %s, %s/%s, %s\n", buildinfo.Tool(), runtime.Version(), runtime.GOOS,
				runtime.GOARCH, native)
			return err
		}}
}
