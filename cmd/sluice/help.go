package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// brief limits --help to the shown flags of a verb with many; --help --all shows all, with settings grouped by section.
func brief(cmd *cobra.Command, shown ...string) {
	all := cmd.Flags().Bool("all", false, "with --help: show all flags")
	shown = append(shown, "all", "help")
	whole := cmd.HelpFunc()
	cmd.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		var order []string
		sections, hidden := map[string]*pflag.FlagSet{}, 0
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if f.Hidden || slices.Contains(shown, f.Name) {
				return
			}
			section := "Other flags:"
			if s, ok := f.Value.(*setting); ok && strings.Contains(s.field.Key, ".") {
				name, _, _ := strings.Cut(s.field.Key, ".")
				section = "Flags of the settings " + name + ".*:"
			}
			if sections[section] == nil {
				order = append(order, section)
				sections[section] = pflag.NewFlagSet(section, pflag.ContinueOnError)
			}
			listed := *f
			sections[section].AddFlag(&listed)
			f.Hidden = true
			hidden++
		})
		whole(cmd, args)
		out := cmd.OutOrStdout()
		if !*all {
			fmt.Fprintf(out, "\n%d more flags: '%s --help --all'\n", hidden, cmd.CommandPath())
			return
		}
		slices.Sort(order)
		for _, section := range order {
			fmt.Fprintf(out, "\n%s\n%s", section, sections[section].FlagUsages())
		}
	})
}
