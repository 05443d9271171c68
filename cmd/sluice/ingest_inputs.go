package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/sluice-rag/sluice/internal/config"
	"github.com/sluice-rag/sluice/internal/printable"
	"github.com/sluice-rag/sluice/rag/corpus"
	"github.com/sluice-rag/sluice/rag/ingest"
	"github.com/sluice-rag/sluice/rag/web"
)

const inputsHelp = `A path - is standard input, whose document is called uploads/ and the --name that it is given; the ending of that name,
or --as, says what it is, else its first bytes do. With --allow-net a path may be the address of a page of the web,
of any format that is read, which is fetched by the rules of docs/web.md if the site's robots.txt allows it; links
are not followed.`

type inputFlags struct {
	name     string
	allowNet bool
}

func (a *app) inputFlags(cmd *cobra.Command) *inputFlags {
	i := &inputFlags{}
	f := cmd.Flags()
	f.StringVar(&i.name, "name", "", "with -: the name of what standard input holds, such as notes.md (default: stdin "+
		"and the ending of what it is)")
	f.BoolVar(&i.allowNet, "allow-net", false, "fetch the pages of the web whose addresses are given")
	return i
}

// open copies standard input and web pages into temporary files, and returns the paths with these in their place. Close
// removes them.
func (i *inputFlags) open(ctx context.Context, a *app, args []string, o *ingest.Options,
	c config.Config) (_ *inputs, err error) {
	in := &inputs{paths: slices.Clone(args)}
	standard := 0
	pages := slices.ContainsFunc(args, isPage)
	for _, arg := range args {
		if arg == "-" {
			standard++
		}
	}
	switch {
	case standard > 1:
		return nil, usagef("- is given %d times: standard input can be read once", standard)
	case i.name != "" && standard == 0:
		return nil, usagef("--name goes with -, which reads standard input")
	case o.Sync && (standard > 0 || pages):
		return nil, usagef("--sync and --watch follow files: neither - nor pages of the web")
	case pages && !i.allowNet:
		return nil, usagef("%s is in the web, and nothing is fetched without --allow-net",
			printable.Line(args[slices.IndexFunc(args, isPage)]))
	case standard == 0 && !pages:
		return in, nil
	}
	if in.dir, err = os.MkdirTemp("", "sluice-ingest-"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			in.close()
		}
	}()
	if pages {
		if err = in.fetch(ctx, a, c, o); err != nil {
			return nil, err
		}
	}
	if at := slices.Index(args, "-"); at >= 0 {
		path, name, err := in.standard(a.stdin, i.name, o.MaxFileBytes)
		if err != nil {
			return nil, err
		}
		in.paths[at], o.Given = path, map[string]string{path: name}
	}
	in.names = maps.Clone(o.Pages)
	if in.names == nil {
		in.names = map[string]string{}
	}
	maps.Copy(in.names, o.Given)
	return in, nil
}

type inputs struct {
	paths []string
	dir   string            // of temporary files; "" if all inputs are files
	names map[string]string // names of the temporary files, by their paths
}

func (in *inputs) close() {
	if in.dir != "" {
		_ = os.RemoveAll(in.dir) // it is a temporary folder
	}
}

// shown replaces the names of temporary files in an error by those of the inputs.
func (in *inputs) shown(err error) error {
	if err == nil || len(in.names) == 0 {
		return err
	}
	var pairs []string
	for path, name := range in.names {
		pairs = append(pairs, path, name)
	}
	return &renamedError{strings.NewReplacer(pairs...).Replace(err.Error()), err}
}

type renamedError struct {
	text string
	err  error
}

func (e *renamedError) Error() string { return e.text }
func (e *renamedError) Unwrap() error { return e.err }

// isPage reports whether a path is the URL of a web page.
func isPage(path string) bool {
	scheme, _, ok := strings.Cut(path, "://")
	return ok && (strings.EqualFold(scheme, "http") || strings.EqualFold(scheme, "https"))
}

// fetch downloads each page into a file.
func (in *inputs) fetch(ctx context.Context, a *app, c config.Config, o *ingest.Options) error {
	client, err := web.OpenPages(c.Config.Web)
	if err != nil {
		return err
	}
	o.Pages = map[string]string{}
	for n, address := range in.paths {
		if !isPage(address) {
			continue
		}
		source, err := client.Download(ctx, address)
		if err != nil {
			return err
		}
		if source.Cut {
			a.warn("%s: only its first %d bytes are read (web.max_page_bytes)", printable.Line(source.URL),
				len(source.Content))
		}
		folder := filepath.Join(in.dir, fmt.Sprintf("page-%d", n+1))
		path := filepath.Join(folder, pageName(source.URL, source.Ending))
		err = errors.Join(os.Mkdir(folder, 0o700), os.WriteFile(path, []byte(source.Content), 0o600))
		if err != nil {
			return err
		}
		in.paths[n], o.Pages[path] = path, source.URL
	}
	return nil
}

// pageName returns the name of the file for a page: the last part of its address, which becomes the heading above a
// table, with the ending of its format.
func pageName(address, ending string) string {
	name := "page"
	if u, err := url.Parse(address); err == nil {
		base := path.Base(u.Path)
		if n := len(base) - len(ending) - 1; n > 0 && strings.EqualFold(base[n:], "."+ending) {
			base = base[:n]
		}
		if len(base) <= 100 && !strings.HasPrefix(base, ".") && !strings.ContainsFunc(base, isNoNameRune) {
			name = base
		}
	}
	return name + "." + ending
}

// isNoNameRune reports whether a rune of an address is left out of file names.
func isNoNameRune(r rune) bool { return !unicode.IsPrint(r) || strings.ContainsRune(`/\:*?"<>|`, r) }

// standard copies standard input into a file. Its type is the one that its name or the user gives, or else is detected
// from its first bytes.
func (in *inputs) standard(from io.Reader, name string, most int64) (path, shown string, err error) {
	r := bufio.NewReader(from)
	head, err := r.Peek(512)
	if err != nil && !errors.Is(err, io.EOF) {
		return "", "", fmt.Errorf("standard input: %w", err)
	}
	kind, _, _ := strings.Cut(http.DetectContentType(head), ";")
	ending := cmp.Or(filepath.Ext(name), map[string]string{"text/html": ".html", "application/pdf": ".pdf",
		"application/zip": ".zip", "application/x-gzip": ".gz"}[kind], ".txt")
	base := strings.TrimSuffix(filepath.Base(name), filepath.Ext(name)) // becomes the heading above a table
	if name == "" || strings.HasPrefix(base, ".") {
		base = "stdin"
	}
	path = filepath.Join(in.dir, base+ending)
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return "", "", err
	}
	_, err = io.Copy(f, io.LimitReader(r, most+1)) // the reader of the file reports one that is too large
	if err = errors.Join(err, f.Close()); err != nil {
		return "", "", fmt.Errorf("standard input: %w", err)
	}
	return path, cmp.Or(name, "stdin"+ending), nil
}

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
