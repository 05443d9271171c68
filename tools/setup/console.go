package setup

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
)

// console prints lines, and between them a status that a terminal overwrites and a log sees now and then.
type console struct {
	mu     sync.Mutex
	out    io.Writer
	tty    bool
	every  time.Duration
	last   time.Time
	status bool // a status is on the terminal's last line
}

func newConsole(out io.Writer) *console {
	c := &console{out: out, every: 20 * time.Second, last: time.Now()}
	if f, ok := out.(*os.File); ok {
		if st, err := f.Stat(); err == nil && st.Mode()&os.ModeCharDevice != 0 {
			c.tty, c.every = true, 200*time.Millisecond
		}
	}
	return c
}

func (c *console) printf(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.clear()
	fmt.Fprintf(c.out, format+"\n", args...)
	c.last = time.Now()
}

// progress shows a passing state; most calls print nothing.
func (c *console) progress(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.last) < c.every {
		return
	}
	c.last = time.Now()
	text := fmt.Sprintf(format, args...)
	if !c.tty {
		fmt.Fprintln(c.out, text)
		return
	}
	c.clear()
	if r := []rune(text); len(r) > 100 {
		text = string(r[:100])
	}
	fmt.Fprint(c.out, text)
	c.status = true
}

func (c *console) clear() {
	if c.status {
		fmt.Fprint(c.out, "\r\033[K")
		c.status = false
	}
}

// bytes is a fetch.Progress.
func (c *console) bytes(name string, done, total int64) {
	if total > 0 {
		c.progress("  %s: %s of %s", name, size(done), size(total))
		return
	}
	c.progress("  %s: %s", name, size(done))
}

// follower shows the last line of a command's output as progress and keeps the end of it for an error.
type follower struct {
	part    string
	console *console
	line    bytes.Buffer
	last    []string
}

const followLines = 30

func (f *follower) Write(p []byte) (int, error) {
	for _, b := range p {
		if b != '\n' && b != '\r' {
			f.line.WriteByte(b)
			continue
		}
		if line := strings.TrimSpace(f.line.String()); line != "" {
			f.console.progress("  %s: %s", f.part, line)
			f.last = append(f.last, line)
			f.last = f.last[max(0, len(f.last)-followLines):]
		}
		f.line.Reset()
	}
	return len(p), nil
}

func (f *follower) tail() string {
	lines := append([]string{}, f.last...)
	if s := strings.TrimSpace(f.line.String()); s != "" {
		lines = append(lines, s)
	}
	return strings.Join(lines, "\n")
}

// size prints a number of bytes for people, in decimal units.
func size(n int64) string {
	switch {
	case n >= 1e9:
		return fmt.Sprintf("%.2f GB", float64(n)/1e9)
	case n >= 1e6:
		return fmt.Sprintf("%.1f MB", float64(n)/1e6)
	case n >= 1e3:
		return fmt.Sprintf("%.0f kB", float64(n)/1e3)
	}
	return fmt.Sprintf("%d B", n)
}

// took prints a duration for people.
func took(d time.Duration) string {
	if d >= time.Minute {
		return fmt.Sprintf("%d min %02d s", int(d.Minutes()), int(d.Seconds())%60)
	}
	return fmt.Sprintf("%.1f s", d.Seconds())
}
