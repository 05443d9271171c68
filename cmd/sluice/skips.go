package main

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/internal/jsonl"
	"github.com/sluice-rag/sluice/internal/models"
	"github.com/sluice-rag/sluice/internal/printable"
	"github.com/sluice-rag/sluice/rag/corpus"
	"github.com/sluice-rag/sluice/rag/store"
)

// skips collects what an ingest did not read: one line at the end, or with --verbose one line for each at once.
// Unreadable paths of the command line, and documents whose id belongs to another source, are always reported.
type skips struct {
	app          *app
	in           *inputs
	unread       int            // paths that could not be read
	count        map[string]int // by reason
	kinds        map[string]int // files of an unknown kind, by ending
	order        []string       // of reasons, as they first occurred
	first        string
	readPictures string // how text in pictures would be read
	said         int    // how many were reported one by one
	all          int
}

func (s *skips) add(k corpus.Skipped) {
	line := fmt.Sprintf("%s: %v", printable.Line(cmp.Or(s.in.names[k.Source], k.Source)), k.Err)
	named := slices.ContainsFunc(s.in.paths,
		func(p string) bool { return filepath.Clean(p) == filepath.Clean(k.Source) })
	// Of a document that was read, pages that are pictures are not an unread path.
	pages := errors.Is(k.Err, corpus.ErrPictures) && !errors.Is(k.Err, corpus.ErrUnknown)
	named = named && !pages && !isAny(k.Err, corpus.ErrHidden, corpus.ErrIgnored, corpus.ErrTooLarge, corpus.ErrNoWords,
		corpus.ErrDuplicate)
	if named {
		s.unread++
	}
	s.all++
	switch {
	case errors.Is(k.Err, models.ErrNotPulled):
		s.readPictures = " ('sluice models pull ocr' brings what reads it)"
	case s.readPictures == "" && errors.Is(k.Err, corpus.ErrPictures):
		s.readPictures = " (--ocr auto reads it)"
	}
	if s.app.verbose || named || errors.Is(k.Err, store.ErrConflict) {
		s.app.say("skipped %s", line)
		s.said++
	}
	s.first = cmp.Or(s.first, line)
	if s.count == nil {
		s.count = map[string]int{}
	}
	why := reason(k.Err)
	if s.count[why] == 0 {
		s.order = append(s.order, why)
	}
	s.count[why]++
	if errors.Is(k.Err, corpus.ErrUnknown) && !errors.Is(k.Err, corpus.ErrPictures) {
		if s.kinds == nil {
			s.kinds = map[string]int{}
		}
		s.kinds[cmp.Or(strings.ToLower(filepath.Ext(k.Source)), "without an ending")]++
	}
}

// failed reports paths that could not be read.
func (s *skips) failed() error {
	if s.unread == 0 {
		return nil
	}
	s.app.say("%d of the %d paths could not be read", s.unread, len(s.in.paths))
	return errReported
}

// mostKinds is how many endings the summary names.
const mostKinds = 8

// endings returns the endings of files of an unknown kind with their counts, the most frequent first.
func (s *skips) endings() string {
	names := slices.SortedFunc(maps.Keys(s.kinds), func(a, b string) int {
		return cmp.Or(cmp.Compare(s.kinds[b], s.kinds[a]), strings.Compare(a, b))
	})
	var parts []string
	for _, name := range names[:min(len(names), mostKinds)] {
		parts = append(parts, fmt.Sprintf("%d %s", s.kinds[name], printable.Line(name)))
	}
	if n := len(names) - mostKinds; n > 0 {
		parts = append(parts, fmt.Sprintf("%d other endings", n))
	}
	return strings.Join(parts, ", ")
}

// picturesUnread is the reason of files whose text is in pictures.
const picturesUnread = "with text in pictures"

// reason returns in a few words why something was skipped.
func reason(err error) string {
	for _, r := range []struct {
		err  error
		text string
	}{{corpus.ErrPictures, picturesUnread}, {corpus.ErrUnknown, "of an unknown kind"},
		{corpus.ErrHidden, "hidden"}, {corpus.ErrIgnored, "ignored"},
		{corpus.ErrTooLarge, "too large"},
		{corpus.ErrTime, "too slow"},
		{corpus.ErrNoWords, "without words"}, {corpus.ErrDuplicate, "with an id seen before"},
		{jsonl.ErrLine, "bad lines"},
		{embed.ErrUnknownWords, "of unknown words"}, {embed.ErrRepetition, "of one word"},
		{store.ErrConflict, "with the id of another source"}, {corpus.ErrFormat, "unreadable"}} {
		if errors.Is(err, r.err) {
			return r.text
		}
	}
	return "for other reasons"
}

// summary prints one line about what was skipped, unless all of it was reported before.
func (s *skips) summary() {
	if s.all == s.said {
		return
	}
	var parts []string
	for _, why := range s.order {
		part := fmt.Sprintf("%d %s", s.count[why], why)
		if why == reason(corpus.ErrUnknown) {
			part += " (" + s.endings() + ")"
		}
		if why == picturesUnread {
			part += s.readPictures
		}
		parts = append(parts, part)
	}
	if s.all == 1 {
		s.app.warn("skipped %s", s.first)
		return
	}
	s.app.warn("skipped %d files or lines: %s; the first is %s; --verbose lists them all", s.all,
		strings.Join(parts, ", "), s.first)
}
