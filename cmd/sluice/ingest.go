package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluice-rag/sluice"
	"github.com/sluice-rag/sluice/internal/config"
	"github.com/sluice-rag/sluice/internal/manifest"
	"github.com/sluice-rag/sluice/internal/printable"
	"github.com/sluice-rag/sluice/rag/corpus"
	"github.com/sluice-rag/sluice/rag/ingest"
	"github.com/sluice-rag/sluice/rag/knowledge"
	"github.com/sluice-rag/sluice/rag/store"
)

const ingestHelp = `Reads text, Markdown, HTML, PDF, tables (csv, tsv), Office documents (docx, pptx, xlsx, odt, odp, ods), books (epub),
messages (eml, mbox), notebooks, light markup (rst, adoc, org, tex, man pages), data (json, yaml, toml), source code and
JSON lines ({"id","text","topic"?,...}), cuts them into chunks, embeds these and commits them (docs/documents.md). What
is committed survives a kill; the same command again goes on where it stopped, because chunks that are stored with the
same text are not embedded again.

A file's id is the name of the folder that was given, or that the file is in, with the file's path in that folder, as
docs/guide/start.md. It is the same however the file is reached, and stays: 'docs root' says where a folder is now. A
JSON line keeps the id that it has, or gets COLLECTION/ before it. An id that another source has is refused; --replace
takes it.

Of a folder, hidden files, folders of packages and caches (node_modules) and what .gitignore, .ignore and .sluiceignore
name are left out, unless --hidden and --no-ignore say otherwise; a file that is given itself is read. A path may be a
pattern in quotes, such as 'docs/**/*.md'.

With --json, {"committed":[ids]} is printed after each commit; a summary goes to standard error. With --events,
{"progress":{...}} comes about once a second, {"skipped":{...}} for what is not read, and {"summary":{...}} at the end.

`

func (a *app) ingestCommand() *cobra.Command {
	var noChunk, strict, replace, entities, events, preview bool
	var collection, from string
	var files func(config.Config) corpus.FileOptions
	var sync *syncFlags
	var inputs *inputFlags
	cmd := &cobra.Command{
		Use:   "ingest PATH...",
		Short: "put files, folders and JSON lines into the store",
		Long:  ingestHelp + inputsHelp + "\n\n" + syncHelp + "\n\n" + watchHelp,
		Example: "  sluice ingest docs/\n  sluice ingest --sync docs/\n  sluice ingest --sync --dry-run docs/\n" +
			"  sluice ingest --watch docs/ notes/\n  man -l page.1 | sluice ingest - --name page.txt\n" +
			"  sluice ingest 'docs/**/*.md' --exclude drafts\n  sluice ingest --no-chunk --json contexts.jsonl\n  " +
			"sluice ingest --chunker semantic book.md",
		Args: func(cmd *cobra.Command, args []string) error {
			if from != "" {
				return cobra.NoArgs(cmd, args)
			}
			return takes(1, many)(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.with(cmd, func(s *sluice.Sluice, c config.Config) error {
				o := c.Ingest.Options
				o.NoChunk, o.Strict, o.Collection, o.Replace = noChunk, strict, collection, replace
				o.Entities = o.Entities || entities
				o.Files = files(c)
				if from != "" {
					return a.ingestFrom(cmd, s, c, o, from, sync, events)
				}
				if err := sync.set(&o); err != nil {
					return err
				}
				in, err := inputs.open(cmd.Context(), a, args, &o, c)
				if err != nil {
					return err
				}
				defer in.close()
				after := func(ctx context.Context, r ingest.Result) error { return a.follow(ctx, s, c, r) }
				switch {
				case sync.watch:
					return a.watch(cmd, s, a.newIngesting(in, o, events, true), sync.interval, after)
				case preview:
					return in.shown(a.preview(cmd, s, in, o))
				}
				i := a.newIngesting(in, o, events, false)
				r, err := s.Ingest(cmd.Context(), in.paths, i.o)
				if err = i.end(r, err); err == nil && !o.DryRun {
					err = after(cmd.Context(), r)
				}
				return in.shown(err)
			})
		},
	}
	files, inputs, sync = a.fileFlags(cmd), a.inputFlags(cmd), a.syncFlags(cmd)
	f := cmd.Flags()
	f.BoolVar(&noChunk, "no-chunk", false,
		"one chunk for each JSON line or file: its first 64 KiB, of which the encoder reads the beginning")
	f.BoolVar(&strict, "strict", false,
		"a file or line that cannot be read is an error instead of being skipped and reported")
	f.StringVar(&collection, "collection", "",
		"name that the ids begin with; for folders that have one already, that one (default: the folder's name)")
	f.StringVar(&from, "from", "",
		"command that writes documents as JSON lines, instead of paths (docs/connectors.md); with --watch it is "+
			"started again and again")
	f.BoolVar(&replace, "replace", false, "replace documents of other sources that have the same ids")
	f.BoolVar(&entities, "entities", false, "find people, places, organisations, dates and quantities in each chunk; "+
		"names by the classifier, if that labels parts of texts, else by rules")
	f.BoolVar(&preview, "preview", false, "show the chunks of the files, and store nothing")
	f.BoolVar(&events, "events", false, "as --json, with progress, what is skipped, and a summary")
	a.flags(cmd, "ingest.chunk", "ingest.chunker", "ingest.percentile", "ingest.min_tokens", "ingest.buffer",
		"ingest.clean", "ingest.duplicates", "ingest.language", "ingest.commit_every", "ingest.max_file_mib",
		"ingest.metric", "ingest.access", "ingest.ocr", "ocr_model", "classifier")
	_ = cmd.RegisterFlagCompletionFunc("ocr-model", modelNames(true, manifest.OCR)) // fails only for unknown flags
	return cmd
}

// ingesting reports on an ingest, or on one sync of a watch.
type ingesting struct {
	*app
	in      *inputs
	o       ingest.Options
	events  bool
	tell    *ingestEvents
	skipped *skips
	watches bool
}

// newIngesting sets the callbacks of the options.
func (a *app) newIngesting(in *inputs, o ingest.Options, events, watches bool) *ingesting {
	i := &ingesting{app: a, in: in, o: o, events: events, watches: watches}
	i.o.OnSkip = func(k corpus.Skipped) { i.skipped.add(k); i.tell.skipped(k) }
	i.o.OnFolder = func(c store.Collection) {
		a.note("ids of %s begin with %s/", printable.Line(c.Root), printable.Line(c.Name))
	}
	i.o.OnTake = func(id, from string) {
		a.say("%s: replaces the document of %s", printable.Line(id), printable.Line(from))
	}
	i.o.OnDuplicate = func(x knowledge.Repeat) {
		if i.verbose {
			i.say("%s repeats %s (cosine %.3f, words %.2f)", printable.Line(x.ID), printable.Line(x.Of), x.Cosine,
				x.Overlap)
		}
		if i.events {
			i.tell.print("duplicate", x)
		}
	}
	i.o.OnCommit = func(ids []string) { i.tell.print("committed", ids) } // they are durable
	i.o.Progress = func(p ingest.Progress) { i.tell.progress(p) }
	if i.o.Sync {
		i.o.OnChange = i.change
	}
	i.begin()
	return i
}

func (i *ingesting) begin() {
	i.tell = &ingestEvents{all: i.events}
	if !i.watches { // a bar for each changed file would be too much
		i.tell.task = i.task("ingest", "kB")
	}
	if i.json || i.events {
		i.tell.out = newPrinter(i.stdout)
	}
	i.skipped = &skips{app: i.app, in: i.in}
}

// end prints the summary of an ingest.
func (i *ingesting) end(r ingest.Result, err error) error {
	a := i.app
	i.tell.end(r)
	summary := a.note
	if err != nil && r.Commits > 0 {
		summary = a.say // changes to the store are reported even with --quiet
	}
	if err != nil && isUsage(err) {
		return err // the ingest had not begun
	}
	a.summarise(summary, r, i.o)
	for _, x := range []struct {
		n    int
		what string
	}{{r.Cut, "documents are long: only the beginning of each was kept (without --no-chunk, all would be)"},
		{r.Empty, "documents had no words"},
		{r.Truncated, "chunks were cut at what the encoder reads"},
		{r.Unnamed, "chunks are longer than the classifier of names reads: names behind that were not found"},
		{r.Renewed, "chunks were damaged in the store, and were embedded again"},
		{r.EmptyPages, "pages of PDF files have no text" + seeOCR(i.o)},
		{r.Repaired, "chunks held NUL bytes or invalid UTF-8, replaced by U+FFFD"}} {
		if x.n > 0 {
			a.warn("%d %s", x.n, x.what)
		}
	}
	if err != nil && r.Commits > 0 {
		a.say("the %d chunks committed so far are kept; the same command goes on from there", r.Chunks)
	}
	i.skipped.summary()
	if err == nil {
		err = i.skipped.failed()
	}
	return errors.Join(err, i.tell.err)
}

// seeOCR says how pages without text can be read.
func seeOCR(o ingest.Options) string {
	if o.OCR == ingest.OCROff {
		return "; --ocr auto reads them as pictures"
	}
	return ""
}

func (a *app) summarise(say func(string, ...any), r ingest.Result, o ingest.Options) {
	if r.Sync != nil {
		say("%s", syncSummary(r, o.DryRun))
		if n := r.Sync.Excluded; n > 0 {
			a.warn("%d documents stay although their files are left out now; --delete-excluded removes them", n)
		}
	} else {
		say("%d documents, %d chunks (%d embedded, %d known) in %.1f s", r.Documents, r.Chunks, r.Embedded, r.Known,
			r.Seconds)
	}
	if len(r.Cleaned) > 0 {
		say("taken out: %s", takenOut(r.Cleaned))
	}
	if r.Duplicates > 0 && o.Duplicates == ingest.DropDuplicates {
		say("%d chunks nearly repeat others and were not stored; --verbose names them", r.Duplicates)
	} else if r.Duplicates > 0 {
		say("%d chunks nearly repeat others; 'sluice docs duplicates' lists them", r.Duplicates)
	}
	if o.Entities {
		say("%d people, places, organisations, dates and quantities in chunks that had none looked for", r.Entities)
	}
}

// takenOut returns how often each cleaner has removed something.
func takenOut(n map[corpus.Cleaner]int) string {
	var list []string
	for _, by := range slices.Sorted(maps.Keys(n)) {
		list = append(list, fmt.Sprintf("%s %d", by, n[by]))
	}
	return strings.Join(list, ", ")
}
