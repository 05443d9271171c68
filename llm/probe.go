package llm

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// CrashError says that the process in which Probe opened a model file crashed. It unwraps to ErrModel.
type CrashError struct {
	Path string
	How  string // "signal: aborted", "exit status 2"
	Says string // the first line that the process wrote, which names the failed assertion
}

func (e *CrashError) Error() string {
	says := e.Says
	if says != "" {
		says = ": " + says
	}
	return fmt.Sprintf("llm: %s: %v: llama.cpp ended the process that tried the file (%s)%s",
		e.Path, ErrModel, e.How, says)
}

func (e *CrashError) Unwrap() error { return ErrModel }

// probeRequest is what Probe writes to the helper, probeReply what it reads.
type probeRequest struct {
	Path    string
	Options Options
}

type probeReply struct {
	OK    bool   `json:"ok"`
	Kind  string `json:"kind,omitempty"` // a key of probeErrors
	Error string `json:"error,omitempty"`
}

// probeErrors are the errors that the reply names.
var probeErrors = map[string]error{"model": ErrModel, "options": ErrOptions, "template": ErrTemplate,
	"memory": ErrMemory, "generate": ErrGenerate, "unavailable": ErrUnavailable, "cpu": ErrCPU}

// probedError carries the text of the helper's error and the sentinel that it wrapped.
type probedError struct {
	text string
	is   error
}

func (e *probedError) Error() string { return e.text }
func (e *probedError) Unwrap() error { return e.is }

const probeOutput = 64 << 10 // bytes that are kept of a helper's output

// head keeps the first bytes that are written to it.
type head struct{ bytes.Buffer }

func (h *head) Write(p []byte) (int, error) {
	h.Buffer.Write(p[:min(len(p), probeOutput-h.Len())])
	return len(p), nil
}

// Probe opens a model file in a process of its own and makes two tokens with it, so that a file on which llama.cpp
// aborts does not end this process. Open checks a file's header against the assertions of llama.cpp that are known;
// Probe finds the others, too, and costs a second load. helper is a program and its arguments: it must call ServeProbe
// with its standard input and output, as "sluice probe-model" does. Errors are Open's, a *CrashError, and exec's when
// the helper cannot be started.
func Probe(ctx context.Context, helper []string, path string, o Options) error {
	if len(helper) == 0 {
		return optionError("a probe needs a helper program")
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return fmt.Errorf("llm: %w: %w", ErrModel, err)
	}
	request, err := json.Marshal(probeRequest{path, o})
	if err != nil {
		return err
	}
	var out, says head
	cmd := exec.CommandContext(ctx, helper[0], helper[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(request), &out, &says
	cmd.Env = append(os.Environ(), "GOTRACEBACK=none")
	cmd.WaitDelay = 2 * time.Second
	failed := cmd.Run()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	var exit *exec.ExitError
	if failed != nil && !errors.As(failed, &exit) && !errors.Is(failed, exec.ErrWaitDelay) {
		return fmt.Errorf("llm: the helper that tries models first: %w", failed)
	}
	var reply probeReply
	switch err := json.Unmarshal(out.Bytes(), &reply); {
	case err != nil && exit != nil:
		line, _, _ := strings.Cut(strings.TrimSpace(says.String()), "\n")
		line = strings.ToValidUTF8(strings.TrimPrefix(line, "sluice: "), "\uFFFD")
		return &CrashError{Path: path, How: exit.Error(), Says: line}
	case err != nil:
		return optionError("the helper %q does not answer as ServeProbe does: %.100q", helper[0], out.String())
	case reply.OK:
		return nil
	}
	return &probedError{reply.Error, probeErrors[reply.Kind]}
}

// ServeProbe is the helper's side of Probe: it reads a request, opens the file and writes the outcome. It returns
// errors of in and out only.
func ServeProbe(ctx context.Context, in io.Reader, out io.Writer) error {
	var r probeRequest
	if err := json.NewDecoder(in).Decode(&r); err != nil {
		return fmt.Errorf("llm: a request of Probe is expected: %w", err)
	}
	reply := probeReply{OK: true}
	if err := r.try(ctx); err != nil {
		reply = probeReply{Error: err.Error()}
		for kind, is := range probeErrors {
			if errors.Is(err, is) {
				reply.Kind = kind
			}
		}
	}
	return json.NewEncoder(out).Encode(reply)
}

func (r probeRequest) try(ctx context.Context) error {
	r.Options.Logger = slog.New(slog.DiscardHandler)
	m, err := Open(ctx, r.Path, r.Options)
	if err != nil {
		return err
	}
	defer m.Close()
	_, err = m.Generate(ctx, Request{Prompt: "hello", MaxTokens: 2}, nil)
	return err
}
