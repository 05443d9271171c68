package gpu

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/sluice-rag/sluice/bench/harness"
	"github.com/sluice-rag/sluice/bench/peers"
	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/internal/npy"
)

// Peers returns the libraries that Options.Peers may hold: Python modules of bench/peers, for an interpreter that has
// the packages. All of them search exactly, on the first GPU.
func Peers() []string { return []string{"torch", "flashlib", "faissgpu", "cuvs"} }

// peer is a library in its own process.
type peer struct {
	name string
	*peers.Process
}

func (r *Report) note(format string, args ...any) {
	harness.Note(&r.Notes, r.options.Note, format, args...)
}

// openPeers opens cuBLASLt and the peers; what is missing is noted and left out.
func (r *Report) openPeers(ctx context.Context) (err error) {
	r.Versions = map[string]string{}
	if r.gemm, err = openGEMM(r.options.CuBLASLt); err != nil {
		r.note("%s is not installed: %v", cublasLt, err)
	} else {
		r.Versions[cublasLt] = r.gemm.version
	}
	if len(r.options.Peers) == 0 {
		return nil
	}
	if r.folder, err = peers.Unpack(""); err != nil {
		return err
	}
	for _, name := range r.options.Peers {
		p, versions, err := peers.Start(ctx, name, r.Threads, nil, cmp.Or(r.options.Python, "python3"),
			filepath.Join(r.folder, "sidecar.py"), name)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			r.note("%s is not installed: %v", name, err)
			continue
		}
		for k, v := range versions {
			r.Versions[k] = v
		}
		r.peers = append(r.peers, &peer{name, p})
	}
	return nil
}

func (r *Report) closePeers() {
	for _, p := range r.peers {
		_ = p.Close() // an error that mattered was told before
	}
	if r.folder != "" {
		_ = os.RemoveAll(r.folder)
	}
}

// found are the rows that a peer found for each query, and what it took.
type found struct {
	took float64
	ids  [][]int
}

func (f found) seconds() float64 { return f.took }

// preparePeers gives the peers the vectors, normalised as a cosine's are. A peer that fails is noted and left out from
// then on.
func (r *Report) preparePeers(ctx context.Context, contexts, queries engine.Vectors) error {
	if len(r.peers) == 0 {
		return nil
	}
	params := map[string]any{"k": neighbours}
	for name, v := range map[string]engine.Vectors{"base": contexts, "queries": queries} {
		path := filepath.Join(r.folder, name+".npy")
		if err := write(path, v); err != nil {
			return err
		}
		params[name] = path
	}
	var left []*peer
	for _, p := range r.peers {
		_, err := p.Call(ctx, peers.Request{Op: "prepare", Workload: "search", Params: params})
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			r.note("%s is left out: %v", p.name, errors.Join(err, p.Close()))
			continue
		}
		left = append(left, p)
	}
	r.peers = left
	return nil
}

// write puts the rows, each divided by its norm, into a NumPy file.
func write(path string, v engine.Vectors) error {
	data := make([]float32, len(v.Data))
	for i := range v.Rows {
		row := v.Data[i*v.Dim : (i+1)*v.Dim]
		var sum float64
		for _, x := range row {
			sum += float64(x) * float64(x)
		}
		for j, x := range row {
			data[i*v.Dim+j] = float32(float64(x) / math.Sqrt(sum))
		}
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(npy.WriteFloat32(f, data, v.Rows, v.Dim), f.Close())
}

// peerSides are searches for n queries by the peers, which keep the contexts in the GPU's memory.
func (r *Report) peerSides(ctx context.Context, contexts engine.Vectors, n int) (sides []side) {
	for _, p := range r.peers {
		row := Row{Workload: Search, Impl: p.name, Device: onGPU, State: warm, Contexts: contexts.Rows, Queries: n,
			Dim: contexts.Dim}
		sides = append(sides, side{row, func() (any, error) { return p.search(ctx, n) }})
	}
	return sides
}

func (p *peer) search(ctx context.Context, n int) (f found, err error) {
	batch := make([]int, n)
	for i := range batch {
		batch[i] = i
	}
	reply, err := p.Call(ctx, peers.Request{Op: "run", Competitor: "search", Batches: [][]int{batch}})
	if err != nil {
		return f, err
	}
	if len(reply.Seconds) != 1 {
		return f, fmt.Errorf("%w: %s gave %d times for one batch", peers.ErrPeer, p.name, len(reply.Seconds))
	}
	f.took = reply.Seconds[0]
	if reply, err = p.Call(ctx, peers.Request{Op: "result", Competitor: "search"}); err != nil {
		return f, err
	}
	return f, json.Unmarshal(reply.Result, &f.ids)
}

// sameHits reports whether two searches have the same result: in every bit, or for a peer, which rounds scores
// differently, in 999 of 1,000 rows.
func sameHits(cpu, other any) bool {
	hits := cpu.([][]engine.Hit)
	f, ok := other.(found)
	if !ok {
		return gocmp.Equal(cpu, other)
	}
	same, all := 0, 0
	for i, list := range hits {
		if i >= len(f.ids) {
			return false
		}
		known := map[int]bool{}
		for _, id := range f.ids[i] {
			known[id] = true
		}
		for _, h := range list {
			all++
			if known[int(h.Row)] {
				same++
			}
		}
	}
	return 1000*same >= 999*all
}
