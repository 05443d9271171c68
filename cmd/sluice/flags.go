package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// checkSwitches refuses a value as a separate word after a switch: a switch takes its value after "=", and the word
// would be read as a text or a file. It returns the command that is called.
func checkSwitches(root *cobra.Command, args []string) (*cobra.Command, error) {
	cmd, rest, err := root.Find(args)
	if err != nil {
		return root, nil // the execution reports the error
	}
	for i := 0; i < len(rest) && rest[i] != "--"; i++ {
		f := flagOf(cmd, rest[i])
		switch {
		case f == nil:
		case f.NoOptDefVal == "": // the next word is its value
			i++
		case i+1 < len(rest) && isValue(f, rest[i+1]):
			return cmd, usagef("%s is a switch, and takes its value behind '=': %[1]s=%s; if %[2]q is a text, write '--' before it",
				rest[i], rest[i+1])
		}
	}
	return cmd, nil
}

// isValue reports whether a word would be a value of a flag that may stand alone.
func isValue(f *pflag.Flag, word string) bool {
	s, ok := f.Value.(*setting)
	return word == "true" || word == "false" || ok && slices.Contains(s.field.OneOf, word)
}

// flagOf returns the flag that a word names without giving its value, else nil.
func flagOf(cmd *cobra.Command, word string) *pflag.Flag {
	name, long := strings.CutPrefix(word, "--")
	switch {
	case strings.Contains(word, "="):
		return nil
	case long:
		return cmd.Flag(name)
	case len(word) == 2 && word[0] == '-' && word != "--":
		cmd.InheritedFlags() // makes them known to Flags
		return cmd.Flags().ShorthandLookup(word[1:])
	}
	return nil
}

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
