package generate

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// resident returns the VmRSS of a process in bytes; Linux counts the shared pages of the model's file in it.
func resident(process int) (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", process))
	if err != nil {
		return 0, fmt.Errorf("bench: the memory of process %d is not known: %w", process, err)
	}
	return parseStatus(string(text))
}

// parseStatus reads VmRSS of /proc/PID/status.
func parseStatus(text string) (int64, error) {
	for line := range strings.Lines(text) {
		value, ok := strings.CutPrefix(line, "VmRSS:")
		if !ok {
			continue
		}
		number, unit, _ := strings.Cut(strings.TrimSpace(value), " ")
		n, err := strconv.ParseInt(number, 10, 64)
		if err != nil || n < 0 || n > 1<<50 || strings.TrimSpace(unit) != "kB" {
			return 0, fmt.Errorf("bench: VmRSS is %q, not a number of kB", strings.TrimSpace(value))
		}
		return n << 10, nil
	}
	return 0, fmt.Errorf("bench: a process status without VmRSS")
}
