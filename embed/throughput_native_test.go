//go:build native

package embed

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sluice-rag/sluice/embed/onnx"
	"github.com/sluice-rag/sluice/engine/cores"
)

var (
	throughput  = flag.Int("throughput", 0, "rounds of the comparison with Python onnxruntime; 0 skips it")
	howMany     = flag.Int("sentences", 2000, "how many sentences the comparison embeds")
	batchTokens = flag.Int("batch-tokens", defaultBatchTokens, "token budget of the comparison, both sides")
)

// pass is one way over all texts.
type pass struct {
	Version string  `json:"version"`
	Wall    float64 `json:"wall"`
	CPU     float64 `json:"cpu"`
	Sum     float64 `json:"sum"`
}

// sentences are n texts of mixed length: squad16's questions and the sentences of its paragraphs, in turn.
func sentences(t testing.TB, n int) []string {
	questions := squad(t, "queries")
	var parts []string
	for _, c := range squad(t, "contexts") {
		parts = append(parts, strings.SplitAfter(c, ". ")...)
	}
	out := make([]string, n)
	for i := range out {
		out[i] = questions[(i*17)%len(questions)]
		if i%2 == 1 {
			out[i] = strings.TrimSpace(parts[(i*5)%len(parts)])
		}
	}
	return out
}

// TestThroughput runs our encoder and Python's onnxruntime over the same 2,000 sentences in turn
// (go test -tags native -run Throughput -throughput 5 -v) and prints the medians. Both sides have the
// same graph, weights, token limit and two threads; it judges nothing but that they compute the same.
func TestThroughput(t *testing.T) {
	if *throughput == 0 {
		t.Skip("SKIP: a benchmark; run with -throughput ROUNDS")
	}
	const threads = 2
	dir, texts := minilm(t), sentences(t, *howMany)
	budget := cores.New(threads)
	sorted := openEncoder(t, dir, Options{Workers: threads, Cores: budget, MaxBatchTokens: *batchTokens})
	asCome := openEncoder(t, dir, Options{Workers: 1, Cores: budget, MaxBatchTokens: 1 << 20})
	ask := startPython(t, dir, texts, threads)
	sides := []struct {
		name string
		run  func() pass
	}{
		{"sluice unsorted", timed(t, func() ([]float32, error) { return unsorted(asCome, texts, threads) })},
		{"python unsorted", func() pass { return ask("unsorted") }},
		{"sluice sorted", timed(t, func() ([]float32, error) {
			v, err := sorted.Embed(context.Background(), texts, Document)
			if err != nil {
				return nil, err
			}
			return v.Data, nil
		})},
		{"python sorted", func() pass { return ask("sorted") }},
	}
	n := float64(len(texts))
	results := make([][]pass, len(sides))
	for round := range *throughput {
		for i, s := range sides {
			p := s.run()
			results[i] = append(results[i], p)
			t.Logf("round %d, %-16s %6.1f sentences/s, %6.1f per CPU second", round+1, s.name, n/p.Wall, n/p.CPU)
			if d := math.Abs(p.Sum - results[0][0].Sum); d > 1e-2 {
				t.Errorf("%s computes something else: the components' sum is off by %g", s.name, d)
			}
		}
	}
	t.Logf("machine: %s/%s, %d CPUs, batches of %d tokens", runtime.GOOS, runtime.GOARCH, runtime.NumCPU(),
		*batchTokens)
	for i, s := range sides {
		t.Logf("median of %d: %-16s %6.1f sentences/s, %6.1f per CPU second", *throughput, s.name,
			n/median(results[i], func(p pass) float64 { return p.Wall }),
			n/median(results[i], func(p pass) float64 { return p.CPU }))
	}
}

func median(p []pass, of func(pass) float64) float64 {
	v := make([]float64, len(p))
	for i := range p {
		v[i] = of(p[i])
	}
	slices.Sort(v)
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}

// unsorted embeds batches of 32 in input order from a goroutine per thread.
func unsorted(e *Encoder, texts []string, threads int) ([]float32, error) {
	out := make([]float32, len(texts)*e.Info().Dim)
	var g errgroup.Group
	g.SetLimit(threads)
	for i := 0; i < len(texts); i += 32 {
		g.Go(func() error {
			v, err := e.Embed(context.Background(), texts[i:min(i+32, len(texts))], Document)
			if err == nil {
				copy(out[i*v.Dim:], v.Data)
			}
			return err
		})
	}
	return out, g.Wait()
}

func timed(t *testing.T, run func() ([]float32, error)) func() pass {
	return func() pass {
		before, start := processTime(t), time.Now()
		data, err := run()
		p := pass{Wall: time.Since(start).Seconds(), CPU: processTime(t) - before}
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range data {
			p.Sum += float64(v)
		}
		return p
	}
}

// startPython starts throughput.py and returns a function that asks it for one pass.
func startPython(t *testing.T, dir string, texts []string, threads int) func(mode string) pass {
	t.Helper()
	g, err := onnx.Write(dir, onnx.Options{Pooling: onnx.Mean, Normalise: true, Standard: true})
	if err != nil {
		t.Fatal(err)
	}
	temp := t.TempDir()
	graph, taskFile := filepath.Join(temp, "graph.onnx"), filepath.Join(temp, "task.json")
	raw, err := json.Marshal(map[string]any{"graph": graph, "folder": g.Folder,
		"tokenizer":  filepath.Join(dir, "tokenizer.json"),
		"max_tokens": 256, "threads": threads, "batch_tokens": *batchTokens, "texts": texts})
	if err != nil {
		t.Fatal(err)
	}
	for path, raw := range map[string][]byte{graph: g.ONNX, taskFile: raw} {
		if err := os.WriteFile(path, raw, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	c := exec.Command(python(t), filepath.Join("testdata", "throughput.py"), taskFile)
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
	t.Cleanup(func() { in.Close(); _ = c.Wait() })
	lines := bufio.NewReader(out)
	answer := func() (p pass) {
		line, err := lines.ReadBytes('\n')
		if err == nil {
			err = json.Unmarshal(line, &p)
		}
		if err != nil {
			t.Fatalf("throughput.py: %v (%s)", err, line)
		}
		return p
	}
	ours, _, err := LibraryVersion(Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("ONNX Runtime: ours %s, Python's %s", ours, answer().Version)
	return func(mode string) pass {
		if _, err := io.WriteString(in, fmt.Sprintln(mode)); err != nil {
			t.Fatal(err)
		}
		return answer()
	}
}
