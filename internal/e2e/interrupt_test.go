//go:build native

package e2e

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/sluice-rag/sluice/internal/npy"
)

// writeLine writes a file of one line with about a number of megabytes of words.
func writeLine(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: line FILE MEGABYTES")
	}
	n, err := strconv.Atoi(args[1])
	ts.Check(err)
	const words = "the pump opens its second valve when pressure falls below three bars "
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), bytes.Repeat([]byte(words), n*1_000_000/len(words)), 0o644))
}

// makeFIFO makes a named pipe without a writer.
func makeFIFO(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: fifo FILE")
	}
	ts.Check(syscall.Mkfifo(ts.MkAbs(args[0]), 0o600))
}

// limits of a run: interrupted after so long (never, when 0), then at its end within so long, in so much memory.
type limits struct {
	interrupt, within time.Duration
	memory            int64 // bytes; 0 is any
}

// interrupted runs the program under limits, with a silent standard input.
func interrupted(ts *testscript.TestScript, bin string, neg bool, args []string) {
	if neg || len(args) < 4 {
		ts.Fatalf("usage: interrupt AFTER WITHIN MEGABYTES ARG... (durations; 0 for no interrupt, 0 for any memory)")
	}
	var l limits
	var err error
	l.interrupt, err = time.ParseDuration(args[0])
	ts.Check(err)
	l.within, err = time.ParseDuration(args[1])
	ts.Check(err)
	megabytes, err := strconv.ParseInt(args[2], 10, 64)
	ts.Check(err)
	l.memory = megabytes << 20
	cmd := exec.Command(bin, args[3:]...)
	cmd.Dir = ts.MkAbs(".")
	cmd.Env = environment(ts)
	cmd.Stdout, cmd.Stderr = ts.Stdout(), ts.Stderr()
	in, silent, err := os.Pipe()
	ts.Check(err)
	defer in.Close()
	defer silent.Close()
	cmd.Stdin = in
	ts.Check(cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	if l.interrupt > 0 {
		select {
		case err := <-ended:
			ts.Fatalf("it ended before it was interrupted: %v", err)
		case <-time.After(l.interrupt):
			ts.Check(cmd.Process.Signal(os.Interrupt))
		}
	}
	select {
	case err = <-ended:
	case <-time.After(l.within):
		_ = cmd.Process.Kill()
		<-ended
		ts.Fatalf("sluice %s: not at its end within %v", strings.Join(args[3:], " "), l.within)
	}
	want := 0
	if l.interrupt > 0 {
		want = 130
	}
	if code := exitCode(ts, args[3:], err); code != want {
		ts.Fatalf("exit code %d, not %d", code, want)
	}
	usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	if peak := usage.Maxrss << 10; ok && runtime.GOOS == "linux" && l.memory > 0 && peak > l.memory {
		ts.Fatalf("%d bytes of memory, at most %d", peak, l.memory)
	}
	fmt.Fprintf(ts.Stderr(), "peak of memory: %d kB\n", usage.Maxrss)
}

// environment returns the script's environment, for programs that are not started by testscript.
func environment(ts *testscript.TestScript) (env []string) {
	for _, key := range []string{"HOME", "SLUICE_CACHE", "PATH", "MODEL", "DOCS", "NO_COLOR", "TERM", "SLUICE_MODEL",
		"TMPDIR"} {
		if v := ts.Getenv(key); v != "" {
			env = append(env, key+"="+v)
		}
	}
	return env
}

// writeHuge writes rows whose scalar products are more than float32 holds.
func writeHuge(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: huge FILE.npy")
	}
	const cols = 8
	rows := make([]float32, 3*cols)
	for i := range rows {
		rows[i] = 1
		if i/cols == 1 {
			rows[i] = 1e30
		}
	}
	var b bytes.Buffer
	ts.Check(npy.WriteFloat32(&b, rows, 3, cols))
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), b.Bytes(), 0o644))
}
