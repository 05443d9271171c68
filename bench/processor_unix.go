//go:build unix

package bench

import (
	"syscall"
	"time"
)

// processorTime is what the process has used of all cores: on a machine that others use as well it says more than
// seconds.
func processorTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
