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

// client talks to a worker, which is a process or a goroutine of this one.
type client struct {
	in     io.WriteCloser
	out    *bufio.Reader
	stderr harness.Tail
	pid    int
	stop   context.CancelFunc
	wait   func() error
	model  modelInfo
	label  string
}

// endTimeout is how long a process may take to end when it is asked to.
const endTimeout = 5 * time.Second

// startWorker starts a worker and opens the model in it. The worker ends with ctx or with close.
func (s *session) startWorker(ctx context.Context, c capacity) (*client, error) {
	ctx, stop := context.WithCancel(ctx)
	o := &client{stop: stop, pid: os.Getpid(), label: Own}
	if c.GPULayers > 0 {
		o.label = OnGPU
	}
	if len(s.o.Worker) == 0 {
		o.goroutine(ctx)
	} else if err := o.command(ctx, s.o.Worker); err != nil {
		stop()
		return nil, err
	}
	a, err := o.call(ctx, request{Op: "open", Capacity: &c})
	if err == nil && a.Model == nil {
		err = fmt.Errorf("bench: the worker did not name its model")
	}
	if err != nil {
		return nil, errors.Join(err, o.close())
	}
	o.model = *a.Model
	return o, nil
}

// startGPU is startWorker with layers on a GPU; nil where that was not chosen, or cannot be done, which is noted.
func (s *session) startGPU(ctx context.Context, c capacity) (*client, error) {
	if !s.takesPart(OnGPU) || s.o.GPULayers == 0 {
		return nil, nil
	}
	c.GPULayers, c.GPULibrary = s.o.GPULayers, s.o.GPULibrary
	o, err := s.startWorker(ctx, c)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		s.skip(OnGPU, err)
		return nil, nil
	}
	return o, nil
}

func (o *client) goroutine(ctx context.Context) {
	requests, in := io.Pipe()
	out, replies := io.Pipe()
	o.in, o.out = in, bufio.NewReader(out)
	done := make(chan error, 1)
	go func() {
		err := Serve(ctx, requests, replies)
		_ = requests.CloseWithError(io.ErrClosedPipe) // closing a pipe never fails
		_ = replies.CloseWithError(io.EOF)
		done <- err
	}()
	o.wait = sync.OnceValue(func() error { return <-done })
}

func (o *client) command(ctx context.Context, command []string) error {
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Stderr, cmd.WaitDelay = &o.stderr, endTimeout
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

// call sends one request and waits for its reply, until the worker or ctx ends.
func (o *client) call(ctx context.Context, q request) (reply, error) {
	var a reply
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
		_ = o.wait() // its last line may not have arrived yet
		return a, fmt.Errorf("bench: the worker has ended: %w%s", err, o.stderr.Last())
	}
	if err := json.Unmarshal(line, &a); err != nil {
		return a, fmt.Errorf("bench: the worker said %.100q: %w", line, err)
	}
	if a.Error != "" {
		return a, errors.New(a.Error)
	}
	return a, nil
}

func (o *client) name() string { return o.label }
func (o *client) process() int { return o.pid }

func (o *client) run(ctx context.Context, b batch) (batchResult, error) {
	a, err := o.call(ctx, request{Op: "run", Batch: &b})
	if err == nil && (a.Result == nil || len(a.Result.Completions) != len(b.Prompts) || a.Result.Wall <= 0) {
		err = fmt.Errorf("bench: the worker did not answer all of %d prompts", len(b.Prompts))
	}
	if err != nil {
		return batchResult{}, err
	}
	return *a.Result, nil
}

// fit cuts texts to a number of the model's tokens.
func (o *client) fit(ctx context.Context, tokens int, texts ...string) ([]string, error) {
	a, err := o.call(ctx, request{Op: "fit", Tokens: tokens, Texts: texts})
	if err == nil && len(a.Texts) != len(texts) {
		err = fmt.Errorf("bench: the worker fitted %d of %d texts", len(a.Texts), len(texts))
	}
	return a.Texts, err
}

// close ends the worker, by force after endTimeout.
func (o *client) close() error {
	_ = o.in.Close() // a worker ends with its input
	force := time.AfterFunc(endTimeout, o.stop)
	err := o.wait()
	force.Stop()
	o.stop()
	var exit *exec.ExitError
	if errors.As(err, &exit) || errors.Is(err, context.Canceled) {
		return nil // an earlier error was reported if it mattered
	}
	return err
}
