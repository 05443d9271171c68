package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/sluice-rag/sluice/internal/config"
	"github.com/sluice-rag/sluice/internal/terminal"
)

func (a *app) configCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "config", Short: "show, find and write settings",
		Long: "Settings come from, in this order: defaults, sluice.yaml, SLUICE_* environment variables, flags."}
	show := &cobra.Command{Use: "show", Short: "print the settings in force and where each comes from",
		Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error { return a.showConfig(cmd) }}
	path := &cobra.Command{Use: "path", Short: "print the settings file that is read", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			l, err := a.settings(cmd)
			if err != nil {
				return err
			}
			if l.Path == "" {
				a.note("no settings file; 'sluice config init' writes one")
				return nil
			}
			return a.result(map[string]string{"path": l.Path}, "%s\n", l.Path)
		}}
	init := &cobra.Command{Use: "init [FILE]",
		Short: "write a file with every setting explained (default ./sluice.yaml)", Args: takes(0, 1),
		RunE: func(_ *cobra.Command, args []string) error {
			file := append(args, config.FileName)[0]
			if err := config.Init(file); err != nil {
				return err
			}
			return a.result(map[string]string{"path": file}, "wrote %s\n", file)
		}}
	cmd.AddCommand(show, path, init)
	return group(cmd)
}

func (a *app) showConfig(cmd *cobra.Command) error {
	l, err := a.settings(cmd)
	if err != nil {
		return err
	}
	if len(l.Unused) > 0 {
		a.note("variables that are no settings: %v", l.Unused)
	}
	if a.json {
		list := l.Values()
		return newPrinter(a.stdout).lines(len(list), func(i int) any { return list[i] })
	}
	table := terminal.Table{Columns: make([]terminal.Column, 3)}
	table.Columns[0].Keep, table.Columns[1].Path = true, true
	for _, v := range l.Values() {
		table.Add(v.Key, fmt.Sprint(v.Value), string(v.Origin))
	}
	return a.print(table.Text(a.screen()))
}
