package generate

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"strconv"
	"time"

	"github.com/sluice-rag/sluice/bench/harness"
)

// measured has the fields of llama-bench's JSON for one test that are used here.
type measured struct {
	Commit     string    `json:"build_commit"`
	Batch      int       `json:"n_batch"`
	MicroBatch int       `json:"n_ubatch"`
	Threads    int       `json:"n_threads"`
	Prompt     int       `json:"n_prompt"`
	Generated  int       `json:"n_gen"`
	Rates      []float64 `json:"samples_ts"` // tokens a second of each repetition
}

// parseLlamaBench reads the output of llama-bench -o json. Every test has at least one rate above 0.
func parseLlamaBench(text []byte) ([]measured, error) {
	var tests []measured
	if err := json.Unmarshal(text, &tests); err != nil {
		return nil, fmt.Errorf("%w: %s: its output is no list of tests: %w", ErrPeer, LlamaBench, err)
	}
	for i, t := range tests {
		if len(t.Rates) == 0 {
			return nil, fmt.Errorf("%w: %s: test %d has no samples", ErrPeer, LlamaBench, i)
		}
		for _, r := range t.Rates {
			if !(r > 0) {
				return nil, fmt.Errorf("%w: %s: test %d has the rate %v", ErrPeer, LlamaBench, i, r)
			}
		}
	}
	return tests, nil
}

// test is a prompt to read, or a text to generate, of a number of tokens; the other is 0.
type test struct{ prompt, generate int }

func (t test) String() string {
	if t.prompt > 0 {
		return "pp" + strconv.Itoa(t.prompt)
	}
	return "tg" + strconv.Itoa(t.generate)
}

// llamaBench runs one test once, after the program's own warm-up.
func (s *session) llamaBench(ctx context.Context, t test) (measured, error) {
	path, err := exec.LookPath(s.tool(LlamaBench))
	if err != nil {
		return measured{}, fmt.Errorf("%w: %w; the set-up's part %s builds it", ErrPeer, err, LlamaBench)
	}
	batch, threads := strconv.Itoa(s.o.Batch), strconv.Itoa(s.o.Threads)
	cmd := exec.CommandContext(ctx, path, "-m", s.o.Model, "-p", strconv.Itoa(t.prompt), "-n", strconv.Itoa(t.generate),
		"-b", batch, "-ub", batch, "-t", threads, "-r", "1", "-o", "json")
	var stderr harness.Tail
	cmd.Stderr, cmd.WaitDelay = &stderr, 5*time.Second
	text, err := cmd.Output()
	if ctx.Err() != nil {
		return measured{}, ctx.Err()
	}
	if err != nil {
		return measured{}, fmt.Errorf("%w: %s: %w%s", ErrPeer, LlamaBench, err, stderr.Last())
	}
	tests, err := parseLlamaBench(text)
	if err != nil {
		return measured{}, err
	}
	if len(tests) != 1 || tests[0].Prompt != t.prompt || tests[0].Generated != t.generate {
		return measured{}, fmt.Errorf("%w: %s: asked for %s, it measured %+v", ErrPeer, LlamaBench, t, tests)
	}
	return tests[0], nil
}
