package generate

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/sluice-rag/sluice/bench/harness"
)

// server is a llama-server that we started on a port of this machine.
type server struct {
	url    string
	client *http.Client
	stderr harness.Tail
	pid    int
	stop   context.CancelFunc
	wait   func() error
	ended  chan struct{}
}

// startupTime is the most that a server may take to load a model.
const startupTime = 5 * time.Minute

// startServer starts llama-server and waits until it has the model. It ends with ctx or with close.
func (s *session) startServer(ctx context.Context, c capacity) (*server, error) {
	path, err := exec.LookPath(s.tool(LlamaServer))
	if err != nil {
		return nil, fmt.Errorf("%w: %w; the set-up's part %s builds it", ErrPeer, err, LlamaServer)
	}
	address, err := freeAddress(ctx)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrPeer, LlamaServer, err)
	}
	ctx, stop := context.WithCancel(ctx)
	v := &server{url: "http://" + address, stop: stop, ended: make(chan struct{}),
		client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: c.Slots}}}
	cmd := exec.CommandContext(ctx, path, serverArguments(c, address)...)
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &v.stderr, &v.stderr, endTimeout
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	if err := cmd.Start(); err != nil {
		stop()
		return nil, fmt.Errorf("%w: %s: %w", ErrPeer, LlamaServer, err)
	}
	v.pid = cmd.Process.Pid
	v.wait = sync.OnceValue(func() error { defer close(v.ended); return cmd.Wait() })
	go v.wait() // close also waits for it
	if err := v.ready(ctx); err != nil {
		if cerr := v.close(); ctx.Err() == nil {
			err = errors.Join(err, cerr)
		}
		return nil, err
	}
	return v, nil
}

// serverArguments returns the arguments for the same cache, batches and threads as Sluice's. A separate cache for every
// slot is faster than a common one if slots share nothing, and the server shares nothing.
func serverArguments(c capacity, address string) []string {
	host, port, _ := net.SplitHostPort(address)
	n := strconv.Itoa
	args := []string{
		"-m", c.Model, "--host", host, "--port", port, "-np", n(c.Slots), "-c", n(c.Slots * c.Cells), "--no-kv-unified",
		"-b", n(c.Batch), "-ub", n(c.Batch), "-t", n(c.Threads), "-tb", n(c.Threads), "--cont-batching",
		"--cache-prompt",
		"--no-ui", "--no-slots", "--offline", "-lv", "1",
	}
	if !c.HostRAM {
		args = append(args, "--cache-ram", "0")
	}
	return args
}

// freeAddress returns a port of this machine that no process listens on.
func freeAddress(ctx context.Context) (string, error) {
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// ready waits until the server is healthy.
func (v *server) ready(ctx context.Context) error {
	late := time.After(startupTime)
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, v.url+"/health", nil)
		if err != nil {
			return err
		}
		if resp, err := v.client.Do(req); err == nil {
			_, _ = io.Copy(io.Discard, resp.Body) // so that the connection can be used again
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-v.ended:
			return fmt.Errorf("%w: %s ended while it started%s", ErrPeer, LlamaServer, v.stderr.Last())
		case <-late:
			return fmt.Errorf("%w: %s was not ready after %v%s", ErrPeer, LlamaServer, startupTime, v.stderr.Last())
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func (v *server) name() string { return LlamaServer }
func (v *server) process() int { return v.pid }

func (v *server) run(ctx context.Context, b batch) (batchResult, error) {
	t, err := atOnce(len(b.Prompts), func(i int, begin time.Time) (completion, error) {
		return v.complete(ctx, b.Prompts[i], b.MaxTokens, begin)
	})
	if ctx.Err() != nil {
		return batchResult{}, ctx.Err()
	}
	if err != nil {
		return batchResult{}, fmt.Errorf("%w%s", err, v.stderr.Last())
	}
	return *t, nil
}

// complete streams one completion. Greedy as the server does it with the least work: the best token alone
// goes through its samplers.
func (v *server) complete(ctx context.Context, prompt string, tokens int, begin time.Time) (c completion, err error) {
	body, err := json.Marshal(map[string]any{
		"prompt": prompt, "n_predict": tokens, "temperature": 0, "top_k": 1, "stream": true, "cache_prompt": true,
	})
	if err != nil {
		return c, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, v.url+"/completion", bytes.NewReader(body))
	if err != nil {
		return c, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := v.client.Do(req)
	if err != nil {
		return c, fmt.Errorf("%w: %s: %w", ErrPeer, LlamaServer, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<16)) // what there is of it
		return c, fmt.Errorf("%w: %s: %s: %s", ErrPeer, LlamaServer, resp.Status, reason(text))
	}
	var text strings.Builder
	err = readEvents(resp.Body, func(e event) {
		if e.Content != "" && c.First == 0 {
			c.First = time.Since(begin)
		}
		text.WriteString(e.Content)
		if e.Stop {
			c.finish(e)
		}
	})
	c.Latency, c.Text = time.Since(begin), text.String()
	if err == nil {
		_, _ = io.Copy(io.Discard, resp.Body) // so that the connection can be used again
	}
	return c, err
}

// finish takes the counts of the last event. The server counts the token that ends a turn, Sluice does not.
func (c *completion) finish(e event) {
	c.Prompt, c.Cached, c.Made, c.Stopped = e.Evaluated, e.Timings.Cached, e.Predicted, e.StopType == "eos"
	if c.Stopped && c.Made > 0 {
		c.Made--
	}
	c.PromptTime = time.Duration(e.Timings.PromptMS * float64(time.Millisecond))
	c.DecodeTime = time.Duration(e.Timings.PredictedMS * float64(time.Millisecond))
}

// serverVersion asks the program for its llama.cpp version.
func (s *session) serverVersion(ctx context.Context) string {
	text, err := exec.CommandContext(ctx, s.tool(LlamaServer), "--version").CombinedOutput()
	if err != nil {
		return ""
	}
	return parseVersion(string(text))
}

// parseVersion reads what follows "version:" in the first line that has it.
func parseVersion(text string) string {
	for line := range strings.Lines(text) {
		if _, v, ok := strings.Cut(line, "version:"); ok {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

// close ends the server, by force after endTimeout.
func (v *server) close() error {
	v.client.CloseIdleConnections()
	v.stop()
	err := v.wait()
	var exit *exec.ExitError
	if errors.As(err, &exit) || errors.Is(err, context.Canceled) {
		return nil // we ended it, or an earlier error was reported
	}
	return err
}
