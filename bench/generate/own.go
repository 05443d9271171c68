package generate

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/sluice-rag/sluice/bench/harness"
)

// own is the near end of a worker, which is a process or a goroutine of this one.
type own struct {
	in    io.WriteCloser
	out   *bufio.Reader
	words harness.Tail // of its standard error
	pid   int
	stop  context.CancelFunc
	wait  func() error
	model modelInfo
}

// patience is how long a process may take to end when it is asked to.
const patience = 5 * time.Second

// startOwn starts a worker and opens the model in it. The worker ends with ctx or with close.
func (s *session) startOwn(ctx context.Context, c capacity) (*own, error) {
	ctx, stop := context.WithCancel(ctx)
	o := &own{stop: stop, pid: os.Getpid()}
	if len(s.o.Worker) == 0 {
		o.goroutine(ctx)
	} else if err := o.command(ctx, s.o.Worker); err != nil {
		stop()
		return nil, err
	}
	a, err := o.call(ctx, question{Op: "open", Capacity: &c})
	if err == nil && a.Model == nil {
		err = fmt.Errorf("bench: the worker does not say which model it has")
	}
	if err != nil {
		return nil, errors.Join(err, o.close())
	}
	o.model = *a.Model
	return o, nil
}

func (o *own) goroutine(ctx context.Context) {
	questions, in := io.Pipe()
	out, answers := io.Pipe()
	o.in, o.out = in, bufio.NewReader(out)
	done := make(chan error, 1)
	go func() {
		err := Serve(ctx, questions, answers)
		_ = questions.CloseWithError(io.ErrClosedPipe) // closing a pipe never fails
		_ = answers.CloseWithError(io.EOF)
		done <- err
	}()
	o.wait = sync.OnceValue(func() error { return <-done })
}

func (o *own) command(ctx context.Context, command []string) error {
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Stderr, cmd.WaitDelay = &o.words, patience
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("bench: starting the worker: %w", err)
	}
	o.in, o.out, o.pid, o.wait = in, bufio.NewReaderSize(out, 1<<16), cmd.Process.Pid, sync.OnceValue(cmd.Wait)
	return nil
}

// call asks one question. Only the worker's end, or ctx's, ends the waiting.
func (o *own) call(ctx context.Context, q question) (answer, error) {
	var a answer
	line, err := json.Marshal(q)
	if err != nil {
		return a, err
	}
	if _, err = o.in.Write(append(line, '\n')); err == nil {
		line, err = o.out.ReadBytes('\n')
	}
	if ctx.Err() != nil {
		return a, ctx.Err()
	}
	if err != nil {
		o.stop()
		_ = o.wait() // for its last words; how it ended says no more
		return a, fmt.Errorf("bench: the worker has ended: %w%s", err, o.words.Last())
	}
	if err := json.Unmarshal(line, &a); err != nil {
		return a, fmt.Errorf("bench: the worker said %.100q: %w", line, err)
	}
	if a.Error != "" {
		return a, errors.New(a.Error)
	}
	return a, nil
}

func (o *own) name() string { return Own }
func (o *own) process() int { return o.pid }

func (o *own) run(ctx context.Context, b batch) (turn, error) {
	a, err := o.call(ctx, question{Op: "run", Batch: &b})
	if err == nil && (a.Turn == nil || len(a.Turn.Done) != len(b.Prompts) || a.Turn.Wall <= 0) {
		err = fmt.Errorf("bench: the worker did not answer all of %d prompts", len(b.Prompts))
	}
	if err != nil {
		return turn{}, err
	}
	return *a.Turn, nil
}

// fit cuts texts to so many tokens of the model.
func (o *own) fit(ctx context.Context, tokens int, texts ...string) ([]string, error) {
	a, err := o.call(ctx, question{Op: "fit", Tokens: tokens, Texts: texts})
	if err == nil && len(a.Texts) != len(texts) {
		err = fmt.Errorf("bench: the worker fitted %d of %d texts", len(a.Texts), len(texts))
	}
	return a.Texts, err
}

// close lets the worker end, by force if it does not.
func (o *own) close() error {
	_ = o.in.Close() // it ends when there is no more to read
	force := time.AfterFunc(patience, o.stop)
	err := o.wait()
	force.Stop()
	o.stop()
	var exit *exec.ExitError
	if errors.As(err, &exit) || errors.Is(err, context.Canceled) {
		return nil // how it ended was said when it mattered
	}
	return err
}
