//go:build unix

package regular

import "syscall"

// nonblocking lets the opening of a pipe return; it means nothing to regular files.
const nonblocking = syscall.O_NONBLOCK
