// Command gopeers is one Go peer library of `sluice bench compute` in a process of its own. It speaks the
// protocol of sidecar.py, beside this folder. usage: gopeers gonum|gorgonia|vek|chromem
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"sync"
	"time"
)

// params name the files (float32 .npy, two-dimensional) and the shape of the work.
type params struct {
	Contexts, Queries, Base string
	Rows, Columns           []int
	Batch, K                int
}

// competitor is one implementation. work searches for the queries of a batch and is timed; keep is not.
type competitor struct {
	Name  string `json:"name"`
	Impl  string `json:"impl"`
	DType string `json:"dtype"`
	Mode  string `json:"mode"`
	Batch int    `json:"batch"`

	work   func(batch []int) error
	keep   func(batch []int)
	result func() any
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

// workloads of each library.
var libraries = map[string]struct {
	module    string
	workloads map[string]func(params) ([]*competitor, error)
}{
	"gonum": {"gonum.org/v1/gonum", map[string]func(params) ([]*competitor, error){"matrix": gonumMatrix,
		"w3": gonumScan}},
	"gorgonia": {"gorgonia.org/tensor", map[string]func(params) ([]*competitor, error){"matrix": gorgoniaMatrix}},
	"vek": {"github.com/viterin/vek", map[string]func(params) ([]*competitor, error){"matrix": vekMatrix,
		"w3": vekScan}},
	"chromem": {"github.com/philippgille/chromem-go", map[string]func(params) ([]*competitor, error){"w3": chromemScan,
		"w4": chromemTop}},
}

func main() {
	if len(os.Args) != 2 || libraries[os.Args[1]].module == "" {
		fmt.Fprintln(os.Stderr, "usage: gopeers gonum|gorgonia|vek|chromem")
		os.Exit(2)
	}
	if err := serve(os.Args[1], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "gopeers:", err)
		os.Exit(1)
	}
}

func serve(library string, in io.Reader, out io.Writer) error {
	var competitors []*competitor
	requests := bufio.NewReaderSize(in, 1<<20)
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
		switch err := json.Unmarshal(line, &q); {
		case err != nil:
			r.Error = err.Error()
		case q.Op == "end":
			return nil
		default:
			if err := answer(library, q, &r, &competitors); err != nil {
				r = reply{Error: err.Error()}
			}
		}
		text, err := json.Marshal(r)
		if err != nil {
			return err
		}
		if _, err := out.Write(append(text, '\n')); err != nil {
			return err
		}
	}
}

func answer(library string, q request, r *reply, competitors *[]*competitor) (err error) {
	switch q.Op {
	case "hello":
		r.Versions = versions(library)
		return nil
	case "prepare":
		offer := libraries[library].workloads[q.Workload]
		if offer == nil {
			return fmt.Errorf("%s has no %s", library, q.Workload)
		}
		*competitors, err = offer(q.Params)
		r.Competitors = *competitors
		return err
	}
	for _, e := range *competitors {
		if e.Name != q.Competitor {
			continue
		}
		if q.Op == "result" {
			r.Result = e.result()
			return nil
		}
		runtime.GC() // not in the measured time
		for _, batch := range q.Batches {
			begin := time.Now()
			err := e.work(batch)
			r.Seconds = append(r.Seconds, time.Since(begin).Seconds())
			if err != nil {
				return err
			}
			e.keep(batch)
		}
		return nil
	}
	return fmt.Errorf("unknown op %q or competitor %q", q.Op, q.Competitor)
}

func versions(library string) map[string]string {
	out := map[string]string{}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return out
	}
	for _, d := range info.Deps {
		if d.Path == libraries[library].module {
			out[d.Path] = d.Version
		}
	}
	return out
}

// share runs f on as many goroutines as there are threads, each with a part of n.
func share(n int, f func(part, from, to int)) {
	t := runtime.GOMAXPROCS(0)
	var wg sync.WaitGroup
	for p := range t {
		wg.Go(func() { f(p, p*n/t, (p+1)*n/t) })
	}
	wg.Wait()
}
