package corpus

import (
	"context"
	"fmt"
	"time"

	"github.com/sluice-rag/sluice/rag/corpus/internal/doc"
)

// limited begins the time limit for parsing a file of the given size; end releases it.
func (l *loader) limited(bytes int64) *timeLimit {
	seconds := l.o.MaxSeconds
	if seconds <= 0 {
		seconds = DefaultSeconds
	}
	seconds += secondsMiB * float64(max(bytes, 0)>>20)
	most := time.Duration(seconds * float64(time.Second))
	ctx, cancel := context.WithCancel(l.ctx)
	timer := time.AfterFunc(most, cancel)
	return &timeLimit{&doc.Pulse{Ctx: ctx}, l.ctx, most, time.Now(), timer, func() { timer.Stop(); cancel() }}
}

// timeLimit ends the parsing of a file that takes too long.
type timeLimit struct {
	*doc.Pulse
	outer context.Context
	most  time.Duration
	began time.Time
	timer *time.Timer
	end   func()
}

// more lets a file take longer.
func (l *timeLimit) more(d time.Duration) {
	l.most += d
	l.timer.Reset(l.most - time.Since(l.began))
}

// parsing runs parse, which beats. When it has taken too long, parsing returns ErrTime, and parse ends when it next
// beats; a part that does not beat runs on until it is done.
func (l *timeLimit) parsing(parse func() error) error {
	err := doc.Parsing(l.Ctx, doc.LongParse, parse)
	if err != nil && l.Ctx.Err() != nil && l.outer.Err() == nil {
		return fmt.Errorf("%w: %v (ingest.max_file_seconds)", ErrTime, l.most.Round(time.Millisecond))
	}
	return err
}

// DefaultSeconds is the default of FileOptions.MaxSeconds, and secondsMiB is added for each MiB of a file. Both are far
// above what real files take on a busy machine, where 500 pages of PDF take 9 s of a loaded core.
const (
	DefaultSeconds = 300
	secondsMiB     = 5
)
