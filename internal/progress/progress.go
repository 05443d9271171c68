// Package progress shows how far a long task is and the remaining time: a bar on a terminal, plain lines at intervals
// anywhere else. It writes to standard error, never to results.
package progress

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// interval is the time between two plain lines: seldom enough for a log file.
const interval = 5 * time.Second

// Style is how progress is shown.
type Style uint8

// The styles.
const (
	Auto  Style = iota // Bar on a terminal, else Lines
	Bar                // redrawn in place
	Lines              // one line every few seconds
	Quiet              // nothing
)

// on returns what Auto is on w; other styles stay.
func (s Style) on(w io.Writer) Style {
	if s != Auto {
		return s
	}
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		return Bar
	}
	return Lines
}

// Task is one running count. Its methods may be called from any goroutine; a nil *Task shows nothing.
type Task struct {
	mu    sync.Mutex
	w     io.Writer
	now   func() time.Time
	name  string
	unit  string
	bar   *progressbar.ProgressBar
	start time.Time
	last  time.Time
	first int64 // count of the first report: work that an earlier run had done does not speed up the estimate
	begun bool
	about string
	done  int64
	total int64
}

// Start begins a task such as Start(os.Stderr, Auto, "embedding", "texts"). It returns nil for Quiet.
func Start(w io.Writer, style Style, name, unit string) *Task {
	style = style.on(w)
	if style == Quiet {
		return nil
	}
	t := &Task{w: w, now: time.Now, name: name, unit: unit}
	if style == Bar {
		t.bar = progressbar.NewOptions64(-1, progressbar.OptionSetWriter(w), progressbar.OptionSetDescription(name),
			progressbar.OptionShowCount(), progressbar.OptionSetPredictTime(true), progressbar.OptionSetWidth(30),
			progressbar.OptionSetSpinnerChangeInterval(0), // no goroutine of its own
			progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionClearOnFinish(),
			progressbar.OptionFullWidth())
	}
	t.start = t.now()
	t.last = t.start
	return t
}

// Set reports that done of total units are finished; a total of 0 is one that is not known.
func (t *Task) Set(done, total int64) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.begun {
		t.begun, t.first = true, done
	}
	changed := total != t.total
	t.done, t.total = done, total
	if t.bar != nil {
		if changed && total > 0 {
			t.bar.ChangeMax64(total)
		}
		_ = t.bar.Set64(done) // a terminal that is gone must not stop the work
		return
	}
	if now := t.now(); now.Sub(t.last) >= interval {
		t.last = now
		fmt.Fprintln(t.w, t.line(now))
	}
}

// Describe adds details to the task with the next Set: "3 of 12 files, 9,120 tokens/s".
func (t *Task) Describe(about string) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.about = about
	if t.bar != nil {
		t.bar.Describe(strings.TrimSpace(t.name + "  " + about))
	}
}

// Finish ends the task. A bar is erased; the caller reports the result.
func (t *Task) Finish() {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.bar != nil {
		_ = t.bar.Clear()
		_ = t.bar.Exit()
	}
}

// line returns a plain report: "embedding: 512/1906 texts (26 %), 1m3s left".
func (t *Task) line(now time.Time) string {
	about := ""
	if t.about != "" {
		about = ", " + t.about
	}
	if t.total <= 0 {
		return fmt.Sprintf("%s: %d %s%s, %s", t.name, t.done, t.unit, about, round(now.Sub(t.start)))
	}
	s := fmt.Sprintf("%s: %d/%d %s (%d %%)", t.name, t.done, t.total, t.unit, 100*t.done/t.total) + about
	if left, ok := remaining(now.Sub(t.start), t.done-t.first, t.total-t.done); ok {
		s += fmt.Sprintf(", %s left", round(left))
	}
	return s
}

// remaining extrapolates linearly; it knows nothing before the first unit.
func remaining(elapsed time.Duration, done, todo int64) (time.Duration, bool) {
	if done <= 0 || todo < 0 {
		return 0, false
	}
	return time.Duration(float64(elapsed) / float64(done) * float64(todo)), true
}

func round(d time.Duration) time.Duration {
	if d < time.Minute {
		return d.Round(time.Second)
	}
	return d.Round(5 * time.Second)
}
