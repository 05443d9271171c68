package encode

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sluice-rag/sluice/bench/peers"
	"github.com/sluice-rag/sluice/internal/npy"
)

// Peers returns the names that Options.Peers may hold.
func Peers() []string {
	return []string{"onnxruntime", "openvino", "fastembed", "hugot", "sentence-transformers"}
}

// noTorch is why one peer is mostly missing.
const noTorch = "sentence-transformers needs torch, whose wheels for Linux bring 3 GB of CUDA libraries: it is not " +
	"in " +
	"the pinned environment; --python names an interpreter that has both"

type processes []*peers.Process

func (p processes) close() error {
	var errs []error
	for _, c := range p {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

// openPeers starts the chosen peers, which try their settings, and adds what they offer. One that is missing is noted.
func (s *session) openPeers(ctx context.Context) (p processes, err error) {
	if len(s.o.Peers) == 0 {
		return nil, nil
	}
	params, scripts, err := s.params(ctx)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		s.note("the peers are left out: %v", err)
		return nil, nil
	}
	for _, name := range s.o.Peers {
		process, offers, err := s.start(ctx, name, scripts, params)
		if ctx.Err() != nil {
			return p, ctx.Err()
		}
		if err != nil {
			if name == "sentence-transformers" && strings.Contains(err.Error(), "ModuleNotFoundError") {
				err = errors.New(noTorch)
			}
			s.note("%s is left out: %v", name, err)
			continue
		}
		p = append(p, process)
		for _, o := range offers {
			s.competitors = append(s.competitors, s.ofOffer(name, process, o))
		}
	}
	return p, nil
}

// start runs a peer's process and asks what it offers.
func (s *session) start(ctx context.Context, name, scripts string, params map[string]any) (*peers.Process,
	[]peers.Offer, error) {
	command := []string{s.o.Python, filepath.Join(scripts, "sidecar.py"), strings.ReplaceAll(name, "-", "_")}
	if name == "hugot" {
		command = []string{s.o.Hugot}
	}
	if _, err := exec.LookPath(command[0]); err != nil {
		return nil, nil, fmt.Errorf("%w: %w; %s", peers.ErrPeer, err, setUpHint)
	}
	s.log("%s: trying its settings", name)
	c, versions, err := peers.Start(ctx, name, s.o.Threads, nil, command...)
	if err != nil {
		return nil, nil, err
	}
	for k, v := range versions {
		s.report.Versions[k] = v
	}
	r, err := c.Call(ctx, peers.Request{Op: "prepare", Workload: "embed", Params: params})
	if err != nil {
		return nil, nil, errors.Join(err, c.Close())
	}
	return c, r.Competitors, nil
}

func (s *session) ofOffer(name string, from *peers.Process, o peers.Offer) *competitor {
	return &competitor{
		Row: Row{Impl: o.Impl, DType: o.DType, Mode: o.Mode, Threads: s.o.Threads}, key: name + " " + o.DType,
		run: func(ctx context.Context, batches [][]int) ([]time.Duration, error) {
			return from.Run(ctx, o.Name, batches)
		},
		result: func(ctx context.Context) (map[int][]float32, error) {
			var r struct {
				Places []int
				Path   string
			}
			if err := from.Result(ctx, o.Name, &r); err != nil {
				return nil, err
			}
			f, err := os.Open(r.Path)
			if err != nil {
				return nil, err
			}
			defer f.Close()
			data, rows, dim, err := npy.ReadFloat32(f)
			if err != nil || rows != len(r.Places) {
				return nil,
					fmt.Errorf("%w: %s: %d vectors of %d texts: %w", peers.ErrPeer, name, rows, len(r.Places), err)
			}
			out := make(map[int][]float32, rows)
			for i, at := range r.Places {
				out[at] = data[i*dim : (i+1)*dim]
			}
			return out, nil
		},
	}
}

// params returns the peers' input: the texts, and the graphs, which are written once and kept.
func (s *session) params(ctx context.Context) (params map[string]any, scripts string, err error) {
	p, err := s.model.pooling()
	if err != nil {
		return nil, "", err
	}
	if _, err := exec.LookPath(s.o.Python); err != nil {
		return nil, "", fmt.Errorf("%w: %w; %s", peers.ErrPeer, err, setUpHint)
	}
	if scripts, err = peers.Unpack(s.temp); err != nil {
		return nil, "", err
	}
	export, err := s.export(ctx, scripts, p)
	if err != nil {
		return nil, "", err
	}
	raw, err := json.Marshal(s.texts.all)
	if err != nil {
		return nil, "", err
	}
	file := filepath.Join(s.temp, "texts.json")
	if err := os.WriteFile(file, raw, 0o644); err != nil {
		return nil, "", err
	}
	var sample []int
	for _, l := range s.texts.loads {
		sample = append(sample, spread(l.places, 64)...)
	}
	if sample == nil {
		sample = spread(s.texts.sets[squad].questions, 64)
	}
	if s.o.Short {
		sample = sample[:min(8, len(sample))]
	}
	slices.Sort(sample)
	return map[string]any{"model": s.model.dir, "export": export, "texts": file, "sample": slices.Compact(sample),
		"max_tokens": s.model.info.MaxTokens, "dim": s.model.info.Dim, "pooling": p.Pooling, "normalise": p.Normalise,
		"out": s.temp}, scripts, nil
}

// export returns the folder of the model's graphs in standard operators, written by export.py when it is not there.
func (s *session) export(ctx context.Context, scripts string, p pooling) (string, error) {
	program := filepath.Join(scripts, "export.py")
	text, err := os.ReadFile(program)
	if err != nil {
		return "", err
	}
	key := sha256.Sum256(append([]byte(s.model.info.Digest), text...))
	dir := filepath.Join(s.o.Cache, "export-"+hex.EncodeToString(key[:10]))
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	s.log("writing the graphs that the peers run")
	if err := os.MkdirAll(s.o.Cache, 0o755); err != nil {
		return "", err
	}
	temp, err := os.MkdirTemp(s.o.Cache, ".export-*")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(temp) // gone after the rename
	cmd := exec.CommandContext(ctx, s.o.Python, program, s.model.dir, temp, p.Pooling, fmt.Sprint(p.Normalise),
		fmt.Sprint(s.model.info.MaxTokens))
	cmd.Env = peers.Environment(s.o.Threads)
	if said, err := cmd.CombinedOutput(); err != nil {
		lines := strings.Split(strings.TrimSpace(string(said)), "\n")
		return "", fmt.Errorf("%w: export.py: %w: %s", peers.ErrPeer, err, lines[len(lines)-1])
	}
	return dir, errors.Join(os.Chmod(temp, 0o755), os.Rename(temp, dir))
}
