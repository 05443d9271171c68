package store

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// op is one change that the helper process announces before and confirms after; version 0 deletes the
// document.
type op struct {
	Doc     string
	IDs     []string
	Version int
	Replace bool
}

// apply is what the operation makes of the live chunks.
func (o op) apply(state map[string]int) map[string]int {
	next := map[string]int{}
	for id, v := range state {
		if doc := id[:len(o.Doc)+1]; doc != o.Doc+"/" || (o.Version > 0 && !o.Replace) {
			next[id] = v
		}
	}
	for _, id := range o.IDs {
		next[id] = o.Version
	}
	return next
}

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

// churn changes the store until it is killed, and says so on standard output, unbuffered.
func churn(dir string, seed uint64) error {
	ctx := context.Background()
	s, err := open(ctx, dir, Options{Create: true, Encoder: &testEncoder}, testSeams())
	if err != nil {
		return err
	}
	r := rand.New(rand.NewPCG(seed, 0))
	for {
		o := op{Doc: fmt.Sprintf("d%d", r.IntN(4)), Version: 1 + r.IntN(3), Replace: r.IntN(2) == 0}
		for range 1 + r.IntN(60) {
			o.IDs = append(o.IDs, fmt.Sprintf("%s/%d", o.Doc, r.IntN(90)))
		}
		exists, err := s.read.Query(`SELECT 1 FROM documents WHERE id = ?`, o.Doc)
		if err != nil {
			return err
		}
		if exists.Next() && r.IntN(6) == 0 {
			o = op{Doc: o.Doc}
		}
		exists.Close()
		line, _ := json.Marshal(o)
		os.Stdout.Write(append(line, '\n'))
		if o.Version == 0 {
			_, err = s.DeleteDocuments(ctx, []string{o.Doc})
		} else {
			b := batchOf(o.Version, testDim, o.IDs...)
			b.Replace = o.Replace
			_, err = s.Commit(ctx, b)
		}
		if err != nil {
			return err
		}
		os.Stdout.WriteString("ok\n")
	}
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
