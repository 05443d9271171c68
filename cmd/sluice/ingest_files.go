package main

import (
	"github.com/spf13/cobra"

	"github.com/sluice-rag/sluice/internal/config"
	"github.com/sluice-rag/sluice/rag/corpus"
)

// fileFlags adds the flags for which files are read and how, and returns a function that combines them with the
// settings.
func (a *app) fileFlags(cmd *cobra.Command) func(config.Config) corpus.FileOptions {
	var o corpus.FileOptions
	f := cmd.Flags()
	f.StringArrayVar(&o.Include, "include", nil, "read only files that match this pattern, such as '*.md' or "+
		"'docs/**'; may be given several times")
	f.StringArrayVar(&o.Exclude, "exclude", nil, "leave out files and folders that match this pattern; may be given "+
		"several times")
	f.BoolVar(&o.Hidden, "hidden", false, "read files and folders whose names begin with a dot, too")
	f.BoolVar(&o.NoIgnore, "no-ignore", false, "read what .gitignore, .ignore and .sluiceignore name, and folders of "+
		"packages and caches, too")
	f.StringVar(&o.As, "as", "", "read the files given as this format, such as txt, csv or py, whatever their endings "+
		"are, and those in folders whose endings say nothing")
	a.flags(cmd, "ingest.encoding", "ingest.max_file_seconds", "ingest.max_archive_gib", "ingest.max_archive_entries",
		"ingest.max_archive_ratio", "ingest.archive_nesting")
	return func(c config.Config) corpus.FileOptions {
		set := c.Ingest.Files
		o.Encoding, o.MaxSeconds, o.Archives = set.Encoding, set.MaxSeconds, set.Archives
		return o
	}
}
