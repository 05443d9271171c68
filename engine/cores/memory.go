package cores

import (
	"bytes"
	"io/fs"
	"math"
	"os"
	"path"
	"strconv"
	"strings"
)

// Where AvailableMemory has its number from.
const (
	FromMachine = "free memory of the machine"
	FromGroup   = "memory limit of the control group"
	FromProcess = "address space of the process, ulimit -v"
)

// AvailableMemory returns how many bytes this process may still take before the system swaps or kills, and which limit
// says so: the kernel's MemAvailable, what the memory limit of a control group leaves, or what a limit of the process's
// address space does, whichever is least. Page cache counts as available in both, since the kernel gives it up first.
// ok is false where neither can be read (not Linux).
func AvailableMemory() (bytes int64, source string, ok bool) { return availableMemory(os.DirFS("/")) }

func availableMemory(root fs.FS) (int64, string, bool) {
	lowest, source := int64(math.MaxInt64), ""
	if n, ok := field(root, "proc/meminfo", "MemAvailable:"); ok && n <= math.MaxInt64>>10 {
		lowest, source = n<<10, FromMachine
	}
	eachGroup(root, "memory", func(dir string, v2 bool) {
		if n, ok := groupLeaves(root, dir, v2); ok && n < lowest {
			lowest, source = n, FromGroup
		}
	})
	if n, ok := addressSpace(root); ok && n < lowest {
		lowest, source = n, FromProcess
	}
	return lowest, source, source != ""
}

// reservedSpace is how much address space a process takes beside what it allocates: stacks and allocation arenas of the
// threads to come, and the ranges that Go's heap grows into. Where a model of 226 MB was opened with less than this
// left beside it, on two cores, threads could not be made.
const reservedSpace = 512 << 20

// addressSpace returns what RLIMIT_AS leaves: allocations beyond it fail, and some of their callers abort.
func addressSpace(root fs.FS) (int64, bool) {
	limits, err := fs.ReadFile(root, "proc/self/limits")
	if err != nil {
		return 0, false
	}
	for line := range strings.Lines(string(limits)) {
		text, ok := strings.CutPrefix(line, "Max address space")
		if !ok {
			continue
		}
		fields := strings.Fields(text)
		if len(fields) == 0 {
			return 0, false
		}
		limit, err := strconv.ParseInt(fields[0], 10, 64) // "unlimited" is not a number
		if err != nil || limit < 0 {
			return 0, false
		}
		used, ok := field(root, "proc/self/status", "VmSize:")
		if !ok || used > math.MaxInt64>>10 {
			return 0, false
		}
		return max(limit-min(limit, used<<10)-reservedSpace, 0), true
	}
	return 0, false
}

// groupLeaves returns a group's limit minus its use. What its page cache takes is not use: see memory.stat in the
// kernel's admin-guide/cgroup-v2 and cgroup-v1/memory.
func groupLeaves(root fs.FS, dir string, v2 bool) (int64, bool) {
	limitFile, useFile, prefix := "memory.max", "memory.current", ""
	if !v2 {
		limitFile, useFile, prefix = "memory.limit_in_bytes", "memory.usage_in_bytes", "total_"
	}
	limit, ok := number(root, path.Join(dir, limitFile)) // "max" is not a number
	if !ok {
		return 0, false
	}
	used, ok := number(root, path.Join(dir, useFile))
	if !ok {
		return 0, false
	}
	for _, name := range []string{"inactive_file", "active_file"} {
		if n, ok := field(root, path.Join(dir, "memory.stat"), prefix+name); ok {
			used -= min(used, n)
		}
	}
	return limit - min(limit, used), true
}

// number reads a file that holds one number that is not negative.
func number(root fs.FS, name string) (int64, bool) {
	text, err := fs.ReadFile(root, name)
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseInt(string(bytes.TrimSpace(text)), 10, 64)
	return n, err == nil && n >= 0
}

// field reads the number behind a name in a file of lines like "MemAvailable:   19289052 kB".
func field(root fs.FS, file, name string) (int64, bool) {
	text, err := fs.ReadFile(root, file)
	if err != nil {
		return 0, false
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) >= 2 && f[0] == name {
			n, err := strconv.ParseInt(f[1], 10, 64)
			return n, err == nil && n >= 0
		}
	}
	return 0, false
}
