package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// commands returns a command and all commands below it.
func commands(cmd *cobra.Command) []*cobra.Command {
	all := []*cobra.Command{cmd}
	for _, c := range cmd.Commands() {
		all = append(all, commands(c)...)
	}
	return all
}

// TestSwitchesLeaveTheNextWord checks that no switch of any verb takes the word after it as its value, whether it is a
// setting or not, and that each takes one after "=".
func TestSwitchesLeaveTheNextWord(t *testing.T) {
	switches := map[string]int{}
	for _, cmd := range commands((&app{}).root()) {
		parse := func(args ...string) {
			if err := cmd.ParseFlags(args); err != nil {
				t.Errorf("%s %v: %v", cmd.CommandPath(), args, err)
			}
		}
		parse()
		var names []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if f.Value.Type() == "bool" || f.NoOptDefVal != "" {
				names = append(names, f.Name)
			}
		})
		for _, name := range names {
			parse("--"+name, "word")
			args, value := cmd.Flags().Args(), cmd.Flag(name).Value.String()
			if !slices.Equal(args, []string{"word"}) || value != "true" {
				t.Errorf("%s --%s word: %q, arguments %q", cmd.CommandPath(), name, value, args)
			}
			if parse("--" + name + "=false"); cmd.Flag(name).Value.String() != "false" {
				t.Errorf("%s --%s=false: %q", cmd.CommandPath(), name, cmd.Flag(name).Value)
			}
			switches[cmd.CommandPath()]++
		}
	}
	for _, verb := range []string{"sluice serve", "sluice retrieve", "sluice ask", "sluice ingest"} {
		if switches[verb] < 5 { // --json, --quiet, --verbose, --help and its own
			t.Errorf("%s has %d switches", verb, switches[verb])
		}
	}
}

func TestSwitchBeforeAText(t *testing.T) {
	b := filled(t)
	for _, args := range [][]string{
		{"retrieve", "--sentences", "the lamp"},
		{"retrieve", "--sentences=false", "the lamp"},
		{"ask", "--score", "the lamp"},
		{"ask", "--trace", "the lamp"},
		{"ask", "--trace", "--", "true"},
	} {
		if out := b.ok(args...); out == "" {
			t.Errorf("%v printed nothing", args)
		}
	}
	for _, args := range [][]string{
		{"retrieve", "--sentences", "false", "the lamp"},
		{"ask", "--trace", "true", "story"},
		{"serve", "--read-only", "true"},
		{"ingest", "--calibrate", "auto", "docs"},
		{"--store", "true", "docs", "list", "--json", "true"},
	} {
		if o := b.fails(exitUsage, "is a switch, and takes its value behind '='", args...); o.stdout != "" {
			t.Errorf("%v: %+v", args, o)
		}
	}
	// another flag's value may look like a switch's
	if o := b.run("docs", "list", "--store", "true"); strings.Contains(o.stderr, "is a switch") {
		t.Errorf("%+v", o)
	}
	b.fails(exitUsage, `unknown command "X"`, "serve", "--read-only", "X")
}

// TestErrorsRepeatLittle checks that an error on the terminal repeats no more of the input than a reader needs.
func TestErrorsRepeatLittle(t *testing.T) {
	b := filled(t)
	long := strings.Repeat("9", 1_000_000)
	settings := b.file("long.yaml", "retrieve:\n  k: "+long+"\n")
	for _, args := range [][]string{{"retrieve", "--k", long, "x"}, {"retrieve", "--mode", long, "x"}, {long},
		{"retrieve", "--" + long, "x"}, {"docs", "list", "--config", settings}, {"docs", "list", "--config", long},
		{"docs", "show", long}, {"embed", "--group", long, "x"}, {"ask", "--where", long, "x"}} {
		o := b.run(args...)
		if o.code == exitOK || len(o.stdout)+len(o.stderr) > 5_000 || o.stderr == "" {
			t.Errorf("%.30q: exit code %d, %d bytes: %.300s", args, o.code, len(o.stdout)+len(o.stderr), o.stderr)
		}
	}
}
