package cores

import (
	"errors"
	"io/fs"
	"math"
	"os"
	"path"
	"strconv"
	"strings"
)

func systemQuota() (cpus int, ok bool) { return quota(os.DirFS("/")) }

// quota reads the CPU quota of the process's cgroup below root, rounded up to whole CPUs: the least
// cpu.max (v2), or cpu.cfs_quota_us over cpu.cfs_period_us (v1), of the group and its ancestors.
func quota(root fs.FS) (cpus int, ok bool) {
	lowest := math.Inf(1)
	eachGroup(root, "cpu", func(dir string, v2 bool) {
		limit := limitV1
		if v2 {
			limit = limitV2
		}
		if l, err := limit(root, dir); err == nil {
			lowest = min(lowest, l)
		}
	})
	if math.IsInf(lowest, 1) {
		return 0, false
	}
	return max(1, int(math.Ceil(min(lowest, 1<<20)))), true // an int, whatever the file says
}

// eachGroup visits the folders that may describe the process's cgroup of a controller, and those of its ancestors.
// Inside a container the path in /proc/self/cgroup may be the host's; then only the mount's own root exists.
func eachGroup(root fs.FS, controller string, visit func(dir string, v2 bool)) {
	groups, err := fs.ReadFile(root, "proc/self/cgroup")
	if err != nil {
		return
	}
	for line := range strings.Lines(string(groups)) {
		// hierarchy-ID:controller-list:path
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) != 3 {
			continue
		}
		switch controllers := fields[1]; {
		case fields[0] == "0" && controllers == "":
			upwards("sys/fs/cgroup", fields[2], func(dir string) { visit(dir, true) })
			upwards("sys/fs/cgroup/unified", fields[2], func(dir string) { visit(dir, true) })
		case hasController(controllers, controller):
			upwards("sys/fs/cgroup/"+controllers, fields[2], func(dir string) { visit(dir, false) })
			upwards("sys/fs/cgroup/"+controller, fields[2], func(dir string) { visit(dir, false) })
		}
	}
}

func hasController(list, name string) bool {
	for c := range strings.SplitSeq(list, ",") {
		if c == name {
			return true
		}
	}
	return false
}

// upwards walks from the group up to the mount point.
func upwards(mount, group string, visit func(dir string)) {
	for group = path.Clean("/" + group); ; group = path.Dir(group) {
		visit(path.Join(mount, group))
		if group == "/" {
			return
		}
	}
}

var errNoLimit = errors.New("no limit")

// limitV2 reads "max 100000" or "150000 100000".
func limitV2(root fs.FS, dir string) (float64, error) {
	text, err := fs.ReadFile(root, path.Join(dir, "cpu.max"))
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(text))
	if len(fields) != 2 {
		return 0, errNoLimit
	}
	return ratio(fields[0], fields[1])
}

// limitV1 reads a quota of microseconds (−1: none) and its period.
func limitV1(root fs.FS, dir string) (float64, error) {
	quota, err := fs.ReadFile(root, path.Join(dir, "cpu.cfs_quota_us"))
	if err != nil {
		return 0, err
	}
	period, err := fs.ReadFile(root, path.Join(dir, "cpu.cfs_period_us"))
	if err != nil {
		return 0, err
	}
	return ratio(strings.TrimSpace(string(quota)), strings.TrimSpace(string(period)))
}

func ratio(quota, period string) (float64, error) {
	q, err := strconv.ParseInt(quota, 10, 64)
	if err != nil || q <= 0 { // "max", "-1"
		return 0, errNoLimit
	}
	p, err := strconv.ParseInt(period, 10, 64)
	if err != nil || p <= 0 {
		return 0, errNoLimit
	}
	return float64(q) / float64(p), nil
}
