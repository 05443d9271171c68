package store

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// start runs the test binary as another process.
func start(t *testing.T, part string, args ...string) (*exec.Cmd, io.WriteCloser, *bufio.Reader) {
	t.Helper()
	c := exec.Command(os.Args[0], args...)
	c.Env = append(os.Environ(), helperEnv+"="+part)
	c.Stderr = os.Stderr
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	return c, in, bufio.NewReader(out)
}

// helper is the other process.
func helper(part string, args []string) int {
	var err error
	switch part {
	case "churn":
		seed, _ := strconv.ParseUint(args[1], 10, 64)
		err = churn(args[0], seed)
	case "hold":
		err = hold(args[0])
	case "crash":
		n, _ := strconv.Atoi(args[1])
		err = crash(args[0], n)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "helper:", err)
		return 1
	}
	return 0
}

// hold opens the store for writing, then commits a chunk for each line it reads. Before "stop ID" is committed, it
// waits for another line within the transaction.
func hold(dir string) error {
	x, stops := testSeams(), false
	lines := bufio.NewScanner(os.Stdin)
	x.step = func(name string) error {
		if stops && name == "rows" {
			stops = false
			fmt.Println("stopped")
			lines.Scan()
		}
		return nil
	}
	s, err := open(context.Background(), dir, Options{Create: true, Encoder: &testEncoder}, x)
	if err != nil {
		return err
	}
	fmt.Println("ready")
	for lines.Scan() {
		id, found := strings.CutPrefix(lines.Text(), "stop ")
		stops = found
		if _, err := s.Commit(context.Background(), batchOf(1, testDim, id)); err != nil {
			return err
		}
		fmt.Println("ok")
	}
	return s.Close()
}

// crash commits one batch that crosses a segment border and kills itself at the n-th step of it.
func crash(dir string, n int) error {
	f := &faults{}
	s, err := open(context.Background(), dir, Options{}, f.seams())
	if err != nil {
		return err
	}
	f.arm(n, func() error { return unix.Kill(os.Getpid(), unix.SIGKILL) })
	if _, err := s.Commit(context.Background(), crashBatch(n)); err != nil {
		return err
	}
	fmt.Println("survived")
	return s.Close()
}

func crashBatch(n int) Batch {
	b := batchOf(n+1, testDim, append(ids(fmt.Sprint("c", n), 400), "a/0", "a/1")...)
	b.Replace = true
	return b
}
