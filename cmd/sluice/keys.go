package main

import (
	"fmt"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-rag/sluice/serve/keys"
)

// keysCommand manages the file of a server's keys, which sees the changes while it runs.
func (a *app) keysCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "keys", Short: "make, list and remove the API keys of a server",
		Long: "A server that was started with --api-key-file FILE answers only requests with a key of that file, and " +
			"sees its changes\nwithin a second. The file has the digests of keys; a key itself is shown once, when it " +
			"is made.\n\nA key with --groups reads the documents that are for everybody or for one of these groups " +
			"('sluice ingest --access'), and\nchanges nothing. One without --base and --groups may do everything, " +
			"and manage keys over HTTP."}
	var bases []string
	var groups string
	var days int
	add := &cobra.Command{Use: "add NAME", Short: "make a key and print it", Args: takes(1, 1),
		Example: "  sluice keys add --api-key-file keys.txt ann --base docs --groups hr,board --days 90",
		RunE: a.withKeys(func(cmd *cobra.Command, path string, args []string) error {
			k := keys.Key{Name: args[0], Bases: bases}
			if cmd.Flags().Changed("groups") {
				k.Groups = keys.Groups(groups)
			}
			if days < 0 {
				return usagef("--days %d: 0 (the key never expires) or more", days)
			}
			if days > 0 {
				k.Expires = time.Now().UTC().Truncate(time.Second).AddDate(0, 0, days)
			}
			text, err := keys.Add(path, k)
			return a.printKey(args[0], text, err)
		})}
	add.Flags().StringSliceVar(&bases, "base", nil,
		"knowledge base that the key is for; may be given several times, all without")
	add.Flags().StringVar(&groups, "groups", "", "groups that the key's user belongs to, with commas between")
	add.Flags().IntVar(&days, "days", 0, "days after which the key expires; 0: never")
	hours := 24
	rotate := &cobra.Command{Use: "rotate NAME", Short: "make another key for a name; the one of before ends later",
		Args: takes(1, 1),
		RunE: a.withKeys(func(_ *cobra.Command, path string, args []string) error {
			if hours < 0 {
				return usagef("--hours %d: 0 or more", hours)
			}
			text, err := keys.Rotate(path, args[0], time.Now().Add(time.Duration(hours)*time.Hour))
			return a.printKey(args[0], text, err)
		})}
	rotate.Flags().IntVar(&hours, "hours", hours, "hours for which the key of before still counts")
	list := &cobra.Command{Use: "list", Short: "list the keys", Args: cobra.NoArgs,
		RunE: a.withKeys(func(_ *cobra.Command, path string, _ []string) error { return a.listKeys(path) })}
	remove := &cobra.Command{Use: "rm NAME", Short: "remove a key", Args: takes(1, 1),
		RunE: a.withKeys(func(_ *cobra.Command, path string, args []string) error {
			return keys.Remove(path, args[0])
		})}
	cmd.AddCommand(add, list, rotate, remove)
	a.addSettings(cmd, cmd.PersistentFlags(), []string{"serve.api_key_file"})
	return cmd
}

// withKeys reads the settings for a verb that needs the file of keys.
func (a *app) withKeys(f func(cmd *cobra.Command, path string, args []string) error) func(*cobra.Command,
	[]string) error {
	return func(cmd *cobra.Command, args []string) error {
		l, err := a.settings(cmd)
		if err != nil {
			return err
		}
		path := withDefaultsOf(l).Serve.APIKeyFile
		if path == "" {
			return usagef("no file of keys: give --api-key-file, or set serve.api_key_file")
		}
		return f(cmd, path, args)
	}
}

func (a *app) printKey(name, text string, err error) error {
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(map[string]string{"name": name, "key": text})
	}
	a.note("the key of %s, which is shown this once:", name)
	_, err = fmt.Fprintln(a.stdout, text)
	return err
}

func (a *app) listKeys(path string) error {
	in, err := os.Open(path)
	if err != nil {
		return err
	}
	defer in.Close() //nolint:errcheck // it was only read
	list, err := keys.Read(in)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	table := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	if !a.json {
		fmt.Fprintln(table, "NAME\tBASES\tGROUPS\tEXPIRES")
	}
	for _, k := range list {
		if a.json {
			if err := a.printJSON(keyLine{k.Name, k.Bases, k.Groups, k.Expires}); err != nil {
				return err
			}
			continue
		}
		bases, groups, expires := "all", "reads and changes all", "never"
		if len(k.Bases) > 0 {
			bases = strings.Join(k.Bases, ",")
		}
		if k.Groups != nil {
			groups = strings.Join(k.Groups, ",")
		}
		if !k.Expires.IsZero() {
			expires = k.Expires.Format(time.RFC3339)
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", k.Name, bases, groups, expires)
	}
	return table.Flush()
}

// keyLine is a key as `keys list --json` prints it.
type keyLine struct {
	Name    string    `json:"name"`
	Bases   []string  `json:"bases"`  // null: all
	Groups  []string  `json:"groups"` // null: it reads everything, and may change it
	Expires time.Time `json:"expires,omitzero"`
}
