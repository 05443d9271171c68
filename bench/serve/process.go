package serve

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/sluice-rag/sluice/bench/harness"
)

// process is a server that this benchmark has started.
type process struct {
	name   string
	url    string
	cmd    *exec.Cmd
	stderr harness.Tail
	stop   context.CancelFunc
	wait   func() error
	ended  chan struct{}
}

const (
	startup    = 5 * time.Minute // that a server may take to load its models, or an index
	endTimeout = 10 * time.Second
)

// launch starts a command. It ends with ctx or with close.
func launch(ctx context.Context, name string, env []string, command ...string) (*process, io.Reader, error) {
	ctx, stop := context.WithCancel(ctx)
	p := &process{name: name, stop: stop, ended: make(chan struct{})}
	p.cmd = exec.CommandContext(ctx, command[0], command[1:]...)
	p.cmd.Env, p.cmd.Stderr, p.cmd.WaitDelay = env, &p.stderr, endTimeout
	p.cmd.Cancel = func() error { return p.cmd.Process.Signal(syscall.SIGTERM) }
	out, err := p.cmd.StdoutPipe()
	if err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		stop()
		return nil, nil, fmt.Errorf("%w: %s: %w", ErrPeer, name, err)
	}
	p.wait = sync.OnceValue(func() error { defer close(p.ended); return p.cmd.Wait() })
	return p, out, nil
}

// launchSluice starts `sluice serve` and waits for the line with its address.
func launchSluice(ctx context.Context, program string, arguments ...string) (*process, error) {
	command := append([]string{program, "serve", "--listen", "127.0.0.1:0", "--log-level", "error"}, arguments...)
	p, out, err := launch(ctx, Own, os.Environ(), command...)
	if err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(out).ReadBytes('\n')
	var said struct {
		Listening string `json:"listening"`
	}
	if err == nil {
		err = json.Unmarshal(line, &said)
	}
	go p.wait() // close also waits for it
	if err != nil || said.Listening == "" {
		_ = p.close()
		return nil, fmt.Errorf("bench: `sluice serve` does not listen: %w%s", err, p.stderr.Last())
	}
	p.url = said.Listening
	return p, nil
}

// launchOther starts another server on a free port, and waits until a path answers.
func launchOther(ctx context.Context, name, health string, env []string, command func(port int) []string) (*process,
	error) {
	port, err := freePort(ctx)
	if err != nil {
		return nil, err
	}
	p, _, err := launch(ctx, name, env, command(port)...)
	if err != nil {
		return nil, err
	}
	go p.wait() // close also waits for it
	p.url = "http://127.0.0.1:" + strconv.Itoa(port)
	late := time.After(startup)
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url+health, nil)
		if err != nil {
			return nil, err
		}
		if resp, err := http.DefaultClient.Do(req); err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return p, nil
			}
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(ctx.Err(), p.close())
		case <-p.ended:
			return nil, fmt.Errorf("%w: %s ended while it started%s", ErrPeer, name, p.stderr.Last())
		case <-late:
			return nil,
				errors.Join(fmt.Errorf("%w: %s was not ready after %v%s", ErrPeer, name, startup, p.stderr.Last()),
					p.close())
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func freePort(ctx context.Context) (int, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	return l.Addr().(*net.TCPAddr).Port, l.Close()
}

// close ends the server, by force after endTimeout.
func (p *process) close() error {
	p.stop()
	err := p.wait()
	var exit *exec.ExitError
	if errors.As(err, &exit) || errors.Is(err, context.Canceled) {
		return nil // we ended it, or an earlier error was reported
	}
	return err
}

// used returns the CPU time, and the memory in bytes, of the process and its children. Both are 0 if the system does
// not report them.
func (p *process) used() (cpu time.Duration, rss int64) { return usedBy(p.cmd.Process.Pid) }

func usedBy(pid int) (cpu time.Duration, rss int64) {
	dir := filepath.Join("/proc", strconv.Itoa(pid))
	text, err := os.ReadFile(filepath.Join(dir, "stat"))
	if err != nil {
		return 0, 0
	}
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:])) // the name may contain anything
	if len(fields) > 21 {
		user, _ := strconv.ParseInt(fields[11], 10, 64)
		system, _ := strconv.ParseInt(fields[12], 10, 64)
		pages, _ := strconv.ParseInt(fields[21], 10, 64)
		const tick = time.Second / 100 // of Linux's interface, independent of the kernel's
		cpu, rss = time.Duration(user+system)*tick, pages*int64(os.Getpagesize())
	}
	tasks, _ := filepath.Glob(filepath.Join(dir, "task", "*", "children"))
	for _, file := range tasks {
		children, _ := os.ReadFile(file)
		for _, child := range strings.Fields(string(children)) {
			n, _ := strconv.Atoi(child)
			c, r := usedBy(n)
			cpu, rss = cpu+c, rss+r
		}
	}
	return cpu, rss
}
