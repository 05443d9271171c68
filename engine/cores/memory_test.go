package cores

import (
	"testing"
	"testing/fstest"
)

func TestAvailableMemory(t *testing.T) {
	file := func(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s)} }
	const free = "MemTotal:       24682416 kB\nMemAvailable:   1000 kB\nBuffers: 1 kB\n"
	for name, c := range map[string]struct {
		fs     fstest.MapFS
		bytes  int64
		source string
	}{
		"nothing to read": {fstest.MapFS{}, 0, ""},
		"no group":        {fstest.MapFS{"proc/meminfo": file(free)}, 1000 << 10, FromMachine},
		"v2 without limit": {fstest.MapFS{
			"proc/meminfo": file(free), "proc/self/cgroup": file("0::/a\n"),
			"sys/fs/cgroup/a/memory.max": file("max\n"), "sys/fs/cgroup/a/memory.current": file("5\n")}, 1000 << 10,
			FromMachine},
		"v2, page cache is not use": {fstest.MapFS{
			"proc/meminfo": file(free), "proc/self/cgroup": file("0::/a\n"),
			"sys/fs/cgroup/a/memory.max": file("900000\n"), "sys/fs/cgroup/a/memory.current": file("800000\n"),
			"sys/fs/cgroup/a/memory.stat": file("anon 1\nfile 700000\ninactive_file 300000\nactive_file 200000\n")},
			600000, FromGroup},
		"v2, an ancestor leaves less": {fstest.MapFS{
			"proc/meminfo": file(free), "proc/self/cgroup": file("0::/a/b\n"),
			"sys/fs/cgroup/a/b/memory.max": file("900000\n"), "sys/fs/cgroup/a/b/memory.current": file("0\n"),
			"sys/fs/cgroup/a/memory.max": file("900000\n"), "sys/fs/cgroup/a/memory.current": file("899999\n")}, 1,
			FromGroup},
		"v2, over its limit": {fstest.MapFS{
			"proc/self/cgroup":         file("0::/\n"),
			"sys/fs/cgroup/memory.max": file("10\n"), "sys/fs/cgroup/memory.current": file("11\n")}, 0, FromGroup},
		"v1": {fstest.MapFS{
			"proc/meminfo": file(free), "proc/self/cgroup": file("4:memory:/x\n0::/\n"),
			"sys/fs/cgroup/memory/x/memory.limit_in_bytes": file("500000\n"),
			"sys/fs/cgroup/memory/x/memory.usage_in_bytes": file("450000\n"),
			"sys/fs/cgroup/memory/x/memory.stat": file("cache 1\ninactive_file 1\ntotal_inactive_file " +
				"40000\ntotal_active_file 10000\n")}, 100000, FromGroup},
		"v1 unlimited": {fstest.MapFS{
			"proc/meminfo": file(free), "proc/self/cgroup": file("4:memory:/\n"),
			"sys/fs/cgroup/memory/memory.limit_in_bytes": file("9223372036854771712\n"),
			"sys/fs/cgroup/memory/memory.usage_in_bytes": file("450000\n")}, 1000 << 10, FromMachine},
		"limit of the address space": {fstest.MapFS{
			"proc/meminfo":     file("MemAvailable: 9000000 kB\n"),
			"proc/self/status": file("VmPeak: 1 kB\nVmSize:  1000 kB\n"),
			"proc/self/limits": file("Max address space         2000000000           2000000000           bytes\n")},
			2000000000 - 1000<<10 - reservedSpace, FromProcess},
		"no limit of the address space": {fstest.MapFS{
			"proc/meminfo": file(free), "proc/self/status": file("VmSize:  1000 kB\n"),
			"proc/self/limits": file("Max address space         unlimited            unlimited            bytes\n")},
			1000 << 10, FromMachine},
		"nonsense": {fstest.MapFS{
			"proc/meminfo": file("MemAvailable: -3 kB\n"), "proc/self/cgroup": file("0::/\nx\n"),
			"sys/fs/cgroup/memory.max": file("12 0\n")}, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			bytes, source, ok := availableMemory(c.fs)
			if source != c.source || ok != (c.source != "") || ok && bytes != c.bytes {
				t.Errorf("%d, %q, %v; want %d, %q", bytes, source, ok, c.bytes, c.source)
			}
		})
	}
}

// FuzzAvailableMemory checks that AvailableMemory returns no value or a non-negative number, whatever the files
// contain.
func FuzzAvailableMemory(f *testing.F) {
	f.Add("MemAvailable: 1 kB\n", "0::/a\n", "150000\n", "3\n", "inactive_file 5\n")
	f.Add("MemAvailable: 9223372036854775807 kB\n", "4:memory:/../..\n0::\n", "max\n", "-1",
		"active_file 9223372036854775807\n")
	f.Fuzz(func(t *testing.T, info, groups, limit, used, stat string) {
		root := fstest.MapFS{"proc/meminfo": &fstest.MapFile{Data: []byte(info)},
			"proc/self/cgroup": &fstest.MapFile{Data: []byte(groups)}}
		for _, dir := range []string{"sys/fs/cgroup/", "sys/fs/cgroup/a/", "sys/fs/cgroup/memory/"} {
			root[dir+"memory.max"] = &fstest.MapFile{Data: []byte(limit)}
			root[dir+"memory.current"] = &fstest.MapFile{Data: []byte(used)}
			root[dir+"memory.limit_in_bytes"] = &fstest.MapFile{Data: []byte(limit)}
			root[dir+"memory.usage_in_bytes"] = &fstest.MapFile{Data: []byte(used)}
			root[dir+"memory.stat"] = &fstest.MapFile{Data: []byte(stat)}
		}
		if bytes, source, ok := availableMemory(root); bytes < 0 || ok != (source != "") {
			t.Errorf("%d, %q, %v", bytes, source, ok)
		}
	})
}
