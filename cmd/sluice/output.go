package main

import (
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// protocolOutput returns standard output for a protocol. Whatever else writes to standard output from then on, native
// code as well, goes to standard error.
func (a *app) protocolOutput() (io.Writer, error) {
	if f, ok := a.stdout.(*os.File); !ok || f != os.Stdout {
		return a.stdout, nil // of a test
	}
	fd, err := unix.FcntlInt(os.Stdout.Fd(), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return nil, err
	}
	if err := replace(int(os.Stderr.Fd()), int(os.Stdout.Fd())); err != nil {
		return nil, err
	}
	a.stdout = a.stderr
	return os.NewFile(uintptr(fd), "stdout"), nil
}
