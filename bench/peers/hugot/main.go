// Command hugot is a Go peer of `sluice bench embed` in a process of its own: github.com/knights-analytics/hugot on
// ONNX Runtime. It speaks the protocol of sidecar.py, in the folder above. usage: hugot FOLDER (of libonnxruntime.so)
package main

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime/debug"
	"sort"
	"strconv"
	"sync"
	"time"

	"github.com/knights-analytics/hugot"
	"github.com/knights-analytics/hugot/options"
	"github.com/knights-analytics/hugot/pipelines"
)

const batchSize = 32

type params struct {
	Export, Texts, Out, Pooling string
	Sample                      []int
	Normalise                   bool
}

type competitor struct {
	Name  string `json:"name"`
	Impl  string `json:"impl"`
	DType string `json:"dtype"`
	Mode  string `json:"mode"`
	Batch int    `json:"batch"`

	intra, workers int
	rows           map[int][]float32
}

type request struct {
	Op, Workload, Competitor string
	Params                   params
	Batches                  [][]int
}

type reply struct {
	Error       string            `json:"error,omitempty"`
	Versions    map[string]string `json:"versions,omitempty"`
	Competitors []*competitor     `json:"competitors,omitempty"`
	Seconds     []float64         `json:"seconds,omitempty"`
	Result      any               `json:"result,omitempty"`
}

// peer is the library with at most one session, which it allows a process, of so many threads.
type peer struct {
	library     string
	threads     int
	params      params
	texts       []string
	competitors []*competitor

	session  *hugot.Session
	pipeline *pipelines.FeatureExtractionPipeline
	intra    int
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: hugot FOLDER")
		os.Exit(2)
	}
	threads, err := strconv.Atoi(os.Getenv("SLUICE_BENCH_THREADS"))
	if err != nil || threads < 1 {
		threads = 1
	}
	p := &peer{library: os.Args[1], threads: threads}
	if err := errors.Join(p.serve(os.Stdin, os.Stdout), p.close()); err != nil {
		fmt.Fprintln(os.Stderr, "hugot:", err)
		os.Exit(1)
	}
}

func (p *peer) serve(in io.Reader, out io.Writer) error {
	requests, replies := bufio.NewReaderSize(in, 1<<20), json.NewEncoder(out)
	for {
		line, err := requests.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		var q request
		var r reply
		if err = json.Unmarshal(line, &q); err == nil {
			if q.Op == "end" {
				return nil
			}
			r, err = p.answer(q)
		}
		if err != nil {
			r = reply{Error: err.Error()}
		}
		if err := replies.Encode(r); err != nil {
			return err
		}
	}
}

func (p *peer) answer(q request) (r reply, err error) {
	switch q.Op {
	case "hello":
		r.Versions = map[string]string{}
		if info, ok := debug.ReadBuildInfo(); ok {
			for _, d := range info.Deps {
				if d.Path == "github.com/knights-analytics/hugot" {
					r.Versions[d.Path] = d.Version
				}
			}
		}
	case "prepare":
		r.Competitors, err = p.prepare(q.Params)
	case "run":
		var c *competitor
		if c, err = p.find(q.Competitor); err == nil {
			r.Seconds, err = p.run(c, q.Batches)
		}
	case "result":
		var c *competitor
		if c, err = p.find(q.Competitor); err == nil {
			r.Result, err = p.result(c)
		}
	default:
		err = fmt.Errorf("unknown op %q", q.Op)
	}
	return r, err
}

func (p *peer) find(name string) (*competitor, error) {
	for _, c := range p.competitors {
		if c.Name == name {
			return c, nil
		}
	}
	return nil, fmt.Errorf("no competitor %q", name)
}

// prepare chooses between one run with all threads and a run for each thread, for many texts and for one.
func (p *peer) prepare(q params) ([]*competitor, error) {
	if q.Pooling != "mean" {
		return nil, fmt.Errorf("it pools by the mean only, not by %s", q.Pooling)
	}
	text, err := os.ReadFile(q.Texts)
	if err != nil {
		return nil, err
	}
	p.params, p.texts, p.competitors = q, nil, nil
	if err := json.Unmarshal(text, &p.texts); err != nil {
		return nil, err
	}
	for batch, sample := range [][]int{q.Sample, q.Sample[:1]} {
		ways := []competitor{{intra: p.threads, workers: 1}}
		if p.threads > 1 {
			ways = append(ways, competitor{intra: 1, workers: max(1, p.threads*(1-batch))})
		}
		var best *competitor
		fastest := math.Inf(1)
		for i := range ways {
			c := &ways[i]
			c.Impl = fmt.Sprintf("hugot, %d x %d threads", c.workers, c.intra)
			c.Name, c.DType, c.Batch, c.rows = fmt.Sprint(c.Impl, " ", batch), "f32", batch, map[int][]float32{}
			c.Mode = map[int]string{0: "batch", 1: "one"}[batch]
			seconds, err := p.run(c, [][]int{sample, sample, sample})
			if err != nil {
				return nil, err
			}
			if t := min(seconds[1], seconds[2]); t < fastest { // the first one warms up
				best, fastest = c, t
			}
		}
		p.competitors = append(p.competitors, best)
	}
	return p.competitors, nil
}

// use opens a session whose runs have so many threads.
func (p *peer) use(intra int) (err error) {
	if p.session != nil && p.intra == intra {
		return nil
	}
	if err := p.close(); err != nil {
		return err
	}
	p.session, err = hugot.NewORTSession(options.WithOnnxLibraryPath(p.library), options.WithIntraOpNumThreads(intra),
		options.WithInterOpNumThreads(1))
	if err != nil {
		return err
	}
	config := hugot.FeatureExtractionConfig{ModelPath: p.params.Export, Name: "encoder", OnnxFilename: "model.onnx"}
	if p.params.Normalise {
		config.Options = append(config.Options, pipelines.WithNormalization())
	}
	p.intra = intra
	p.pipeline, err = hugot.NewPipeline(p.session, config)
	return err
}

func (p *peer) close() error {
	if p.session == nil {
		return nil
	}
	err := p.session.Destroy()
	p.session = nil
	return err
}

func (p *peer) run(c *competitor, batches [][]int) (seconds []float64, err error) {
	if err := p.use(c.intra); err != nil {
		return nil, err
	}
	for _, places := range batches {
		begin := time.Now()
		rows, err := p.embed(places, c.workers)
		if err != nil {
			return nil, err
		}
		seconds = append(seconds, time.Since(begin).Seconds())
		for i, row := range rows {
			c.rows[places[i]] = row
		}
	}
	return seconds, nil
}

// embed embeds the texts longest first, batchSize at a time, each worker its own batch.
func (p *peer) embed(places []int, workers int) ([][]float32, error) {
	order := make([]int, len(places))
	for i := range order {
		order[i] = i
	}
	sort.SliceStable(order, func(a, b int) bool {
		return len(p.texts[places[order[a]]]) > len(p.texts[places[order[b]]])
	})
	rows, errs := make([][]float32, len(places)), make([]error, workers)
	var mu sync.Mutex
	var wait sync.WaitGroup
	for w := range workers {
		wait.Go(func() {
			for {
				mu.Lock()
				n := min(batchSize, len(order))
				part := order[:n]
				order = order[n:]
				mu.Unlock()
				if n == 0 {
					return
				}
				texts := make([]string, n)
				for i, at := range part {
					texts[i] = p.texts[places[at]]
				}
				out, err := p.pipeline.RunPipeline(texts)
				if err != nil {
					errs[w] = err
					return
				}
				for i, at := range part {
					rows[at] = out.Embeddings[i]
				}
			}
		})
	}
	wait.Wait()
	return rows, errors.Join(errs...)
}

// result writes the vectors as a .npy file.
func (p *peer) result(c *competitor) (any, error) {
	places := make([]int, 0, len(c.rows))
	for i := range c.rows {
		places = append(places, i)
	}
	sort.Ints(places)
	if len(places) == 0 {
		return nil, errors.New("nothing was run")
	}
	dim := len(c.rows[places[0]])
	header := fmt.Sprintf("{'descr': '<f4', 'fortran_order': False, 'shape': (%d, %d), }", len(places), dim)
	for (10+len(header)+1)%64 != 0 {
		header += " "
	}
	out := append([]byte("\x93NUMPY\x01\x00"), byte(len(header)+1), byte((len(header)+1)>>8))
	out = append(append(out, header...), '\n')
	for _, i := range places {
		for _, x := range c.rows[i] {
			out = binary.LittleEndian.AppendUint32(out, math.Float32bits(x))
		}
	}
	path := filepath.Join(p.params.Out, fmt.Sprintf("hugot-%d.npy", c.Batch))
	return map[string]any{"places": places, "path": path}, os.WriteFile(path, out, 0o644)
}
