// Package harness holds what every benchmark needs besides its measurements: the machine's name, rounded
// figures, files that are written as a whole or not at all, and the last line that a process wrote.
package harness

import (
	"bufio"
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
)

// Processor returns the system's name of its CPU, or the architecture if it has none.
func Processor() string {
	if name := cpuInfo("model name"); name != "" {
		return name
	}
	return runtime.GOARCH
}

// cpuInfo returns the first value of a field of Linux's list of processors, or "".
func cpuInfo(field string) string {
	f, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return ""
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if name, text, ok := strings.Cut(lines.Text(), ":"); ok && strings.TrimSpace(name) == field {
			return strings.TrimSpace(text)
		}
	}
	return ""
}

// TableHead returns the first two lines of a table in Markdown.
func TableHead(columns ...string) string {
	return "| " + strings.Join(columns, " | ") + " |\n" + strings.Repeat("|---", len(columns)) + "|\n"
}

// Digits rounds to four significant decimal digits, which is more than a measurement has.
func Digits(x float64) float64 {
	y, err := strconv.ParseFloat(strconv.FormatFloat(x, 'g', 4, 64), 64)
	if err != nil {
		return x
	}
	return y
}

// Atomically writes a temporary file beside path and renames it when it is complete.
func Atomically(path string, write func(*os.File) error) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // gone after the rename
	if err := errors.Join(write(f), f.Chmod(0o644), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// Tail keeps the end of a process's standard error. The zero value is ready.
type Tail struct {
	mu   sync.Mutex
	text []byte
}

func (t *Tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p...)
	if over := len(t.text) - 4096; over > 0 {
		t.text = append(t.text[:0], t.text[over:]...)
	}
	return len(p), nil
}

// Last returns ": " and the last line that is not empty, or "".
func (t *Tail) Last() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	lines := bytes.Split(bytes.TrimSpace(t.text), []byte("\n"))
	if text := strings.TrimSpace(string(lines[len(lines)-1])); text != "" {
		return ": " + text
	}
	return ""
}
