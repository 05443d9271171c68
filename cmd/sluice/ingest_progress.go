package main

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"github.com/sluice-rag/sluice/internal/progress"
	"github.com/sluice-rag/sluice/rag/corpus"
	"github.com/sluice-rag/sluice/rag/ingest"
)

// ingestEvents reports on an ingest: a bar or lines on standard error, and with --json or --events JSON lines on
// standard output, each an object with one key: "committed" with either flag, and with --events also "progress",
// "skipped" and, at the end, "summary". Scripts rely on --json printing only "committed".
type ingestEvents struct {
	out  *printer // nil without JSON
	all  bool     // --events
	task *progress.Task
	last time.Time        // time of the last "progress" line
	rest *ingest.Progress // progress since that line
	err  error            // of the first failed write
}

// eventInterval is the time between two "progress" lines.
const eventInterval = time.Second

func (e *ingestEvents) print(kind string, v any) {
	if e.out != nil && e.err == nil {
		e.err = errors.Join(e.out.print(map[string]any{kind: v}), e.out.flush())
	}
}

// progress reports how far the ingest is.
func (e *ingestEvents) progress(p ingest.Progress) {
	e.task.Describe(ingestState(p))
	e.task.Set(p.Bytes/1000, p.BytesTotal/1000)
	if !e.all {
		return
	}
	e.rest = &p
	if now := time.Now(); now.Sub(e.last) >= eventInterval {
		e.last, e.rest = now, nil
		e.print("progress", p)
	}
}

// skipped reports a file or line that is not read.
func (e *ingestEvents) skipped(k corpus.Skipped) {
	if e.all {
		e.print("skipped", map[string]string{"source": k.Source, "reason": reason(k.Err), "error": k.Err.Error()})
	}
}

// end reports the final counts.
func (e *ingestEvents) end(r ingest.Result) {
	e.task.Finish()
	if e.rest != nil {
		e.print("progress", e.rest)
	}
	if e.all || r.Sync != nil {
		e.print("summary", r)
	}
}

// ingestState returns the part of a progress line beyond bytes: "3 of 12 files, 512 chunks, 98,304 tokens (9,120/s)".
func ingestState(p ingest.Progress) string {
	number := message.NewPrinter(language.English)
	s := number.Sprintf("%d chunks", p.Chunks)
	if p.FilesTotal > 1 {
		s = number.Sprintf("%d of %d files, ", p.Files, p.FilesTotal) + s
	}
	if p.Tokens > 0 {
		s += number.Sprintf(", %d tokens", p.Tokens)
	}
	if p.TokensPerSecond >= 1 {
		s += fmt.Sprintf(" (%s/s)", number.Sprint(int64(p.TokensPerSecond)))
	}
	return s
}
