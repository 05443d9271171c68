package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/sluice-rag/sluice/bench/harness"
	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/internal/matrixfile"
	"github.com/sluice-rag/sluice/internal/npy"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/ref"
)

// dataVersion is part of every file name in the cache: raise it when the vectors change.
const dataVersion = 1

// set holds the vectors of a .npy file, which all competitors map.
type set struct {
	path string
	engine.Vectors
	release func() error
}

func (s set) row(i int) []float32 { return s.Data[i*s.Dim : (i+1)*s.Dim] }

// pairs are contexts with k pseudo-queries each: query i belongs to context i/k.
type pairs struct {
	name              string
	contexts, queries set
	k                 int
}

func (p *pairs) owner() []int32 {
	owner := make([]int32, p.queries.Rows)
	for i := range owner {
		owner[i] = int32(i / p.k)
	}
	return owner
}

// searchData is a base and queries, the first half of them in scope. cutoff is the 5th percentile of the
// similarities of questions with their own contexts: the threshold of a gate over this base.
type searchData struct {
	name          string
	base, queries set
	cutoff        float64
}

func (p *pairs) close() error { return errors.Join(p.contexts.release(), p.queries.release()) }

func (d *searchData) close() error { return errors.Join(d.base.release(), d.queries.release()) }

// blockRows is how many rows one stream of random numbers makes, so that they are made in parallel
// and stay the same.
const blockRows = 2048

// stream returns the random source of one block of one part of a data set.
func stream(seed uint64, part string, block int) *rand.Rand {
	h := seed ^ 0x9e3779b97f4a7c15
	for _, c := range []byte(part) {
		h = (h ^ uint64(c)) * 0x100000001b3
	}
	return rand.New(rand.NewPCG(h, (uint64(block)+1)*0xd1342543de82ef95))
}

func gaussian(rng *rand.Rand, v []float32) {
	for i := range v {
		v[i] = float32(rng.NormFloat64())
	}
}

func normalise(v []float32) {
	s := 0.0
	for _, x := range v {
		s += float64(x) * float64(x)
	}
	if s == 0 {
		return
	}
	s = 1 / math.Sqrt(s)
	for i, x := range v {
		v[i] = float32(float64(x) * s)
	}
}

// unitNoise fills v with a direction drawn uniformly.
func unitNoise(rng *rand.Rand, v []float32) {
	gaussian(rng, v)
	normalise(v)
}

// centres returns 64 topics of a mixture.
func centres(seed uint64, part string, dim int) []float32 {
	c := make([]float32, 64*dim)
	rng := stream(seed, part, 0)
	for i := range 64 {
		unitNoise(rng, c[i*dim:(i+1)*dim])
	}
	return c
}

// mixture draws one context: a topic centre and noise, 0.6 to 0.8, of length 1.
func mixture(rng *rand.Rand, out, noise, topics []float32) {
	dim := len(out)
	z := rng.IntN(len(topics) / dim)
	unitNoise(rng, noise)
	for i := range out {
		out[i] = 0.6*topics[z*dim+i] + 0.8*noise[i]
	}
	normalise(out)
}

// near draws a query whose cosine with context c is about uniform between 0.5 and 0.9.
func near(rng *rand.Rand, out, noise, c []float32) {
	a := 0.5 + 0.4*rng.Float64()
	unitNoise(rng, noise)
	x, y := float32(a), float32(math.Sqrt(1-a*a))
	for i := range out {
		out[i] = x*c[i] + y*noise[i]
	}
	normalise(out)
}

// writeRows writes rows × dim vectors that fill makes, block by block, several at a time.
func writeRows(ctx context.Context, path string, rows, dim, threads int,
	fill func(block int, first int, out []float32)) error {
	return harness.Atomically(path, func(f *os.File) error {
		w, err := npy.NewRows(f, dim)
		if err != nil {
			return err
		}
		buffers := make([][]float32, max(1, threads))
		for at := 0; at < rows; at += len(buffers) * blockRows {
			g, ctx := errgroup.WithContext(ctx)
			for b := range buffers {
				first := at + b*blockRows
				n := max(0, min(blockRows, rows-first))
				g.Go(func() error {
					buffers[b] = append(buffers[b][:0], make([]float32, n*dim)...)
					if n > 0 {
						fill(first/blockRows, first, buffers[b])
					}
					return ctx.Err()
				})
			}
			if err := g.Wait(); err != nil {
				return err
			}
			for _, b := range buffers {
				for ; len(b) > 0; b = b[dim:] {
					if err := w.Append(b[:dim]); err != nil {
						return err
					}
				}
			}
		}
		return w.Close()
	})
}

// cached reads a JSON file, or makes and writes it. The file's name has everything that its contents depend on.
func cached[T any](path string, make func() (T, error)) (v T, err error) {
	text, err := os.ReadFile(path)
	if err == nil && json.Unmarshal(text, &v) == nil {
		return v, nil
	}
	if v, err = make(); err != nil {
		return v, err
	}
	if text, err = json.Marshal(v); err != nil {
		return v, err
	}
	return v, harness.Atomically(path, func(f *os.File) error { _, err := f.Write(text); return err })
}

// mixturePairs returns n contexts of a mixture with k pseudo-queries each.
func (s *session) mixturePairs(ctx context.Context, seed uint64, n, k, dim int) (*pairs, error) {
	p := &pairs{name: fmt.Sprintf("mixture-v%d-s%d-%dx%dx%d", dataVersion, seed, n, k, dim), k: k}
	topics := centres(seed, "topics", dim)
	var err error
	p.contexts, err = s.file(p.name+"-contexts.npy", n, dim, func(path string) error {
		s.log("making %d × %d contexts of a seeded mixture", n, dim)
		return writeRows(ctx, path, n, dim, s.o.Threads, func(block, _ int, out []float32) {
			rng, noise := stream(seed, "contexts", block), make([]float32, dim)
			for ; len(out) > 0; out = out[dim:] {
				mixture(rng, out[:dim], noise, topics)
			}
		})
	})
	if err != nil {
		return nil, err
	}
	p.queries, err = s.file(p.name+"-queries.npy", n*k, dim, func(path string) error {
		return writeRows(ctx, path, n*k, dim, s.o.Threads, func(block, first int, out []float32) {
			rng, noise := stream(seed, "queries", block), make([]float32, dim)
			for i := first; len(out) > 0; i, out = i+1, out[dim:] {
				near(rng, out[:dim], noise, p.contexts.row(i/k))
			}
		})
	})
	if err != nil {
		return nil, errors.Join(err, p.contexts.release())
	}
	return p, nil
}

// mixtureSearch returns a base of n vectors of a mixture; queries out of scope come from other topics.
func (s *session) mixtureSearch(ctx context.Context, seed uint64, n, queries, dim int) (*searchData, error) {
	d := &searchData{name: fmt.Sprintf("mixture-v%d-s%d-%dx%d", dataVersion, seed, n, dim)}
	topics, foreign := centres(seed, "topics", dim), centres(seed, "foreign topics", dim)
	var err error
	d.base, err = s.file(d.name+"-base.npy", n, dim, func(path string) error {
		s.log("making %d × %d vectors of a seeded mixture", n, dim)
		return writeRows(ctx, path, n, dim, s.o.Threads, func(block, _ int, out []float32) {
			rng, noise := stream(seed, "base", block), make([]float32, dim)
			for ; len(out) > 0; out = out[dim:] {
				mixture(rng, out[:dim], noise, topics)
			}
		})
	})
	if err != nil {
		return nil, err
	}
	source := stream(seed, "sources", 0)
	sources := make([]int, queries/2)
	for i := range sources {
		sources[i] = source.IntN(n)
	}
	d.queries, err = s.file(fmt.Sprintf("%s-%dqueries.npy", d.name, queries), queries, dim, func(path string) error {
		return writeRows(ctx, path, queries, dim, 1, func(block, first int, out []float32) {
			rng, noise := stream(seed, "scan queries", block), make([]float32, dim)
			for i := first; len(out) > 0; i, out = i+1, out[dim:] {
				if i < len(sources) {
					near(rng, out[:dim], noise, d.base.row(sources[i]))
				} else {
					mixture(rng, out[:dim], noise, foreign)
				}
			}
		})
	})
	if err != nil {
		return nil, errors.Join(err, d.base.release())
	}
	own := make([]float64, len(sources))
	for i, r := range sources {
		own[i] = ref.Score(kernels.Cosine, d.queries.row(i), d.base.row(r))
	}
	slices.Sort(own)
	d.cutoff = ref.Quantile7(own, 0.05)
	return d, nil
}

// file maps a file of the cache, making it first when it is not there or not whole.
func (s *session) file(name string, rows, dim int, create func(path string) error) (set, error) {
	path := filepath.Join(s.cache, name)
	v, err := mapped(path, rows, dim)
	if err == nil {
		return v, nil
	}
	if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, npy.ErrFormat) && !errors.Is(err, npy.ErrKind) {
		return set{}, err
	}
	if err := create(path); err != nil {
		return set{}, fmt.Errorf("bench: %s: %w", name, err)
	}
	return mapped(path, rows, dim)
}

// mapped opens a file of writeRows. Anything but exactly rows × dim is npy.ErrFormat.
func mapped(path string, rows, dim int) (set, error) {
	source, err := matrixfile.Open(path, "")
	if err != nil {
		return set{}, err
	}
	if source.Rows != rows || source.Dim != dim || !source.Direct() {
		return set{}, errors.Join(fmt.Errorf("%w: %s holds %d × %d %s, not %d × %d F32", npy.ErrFormat, path,
			source.Rows, source.Dim, source.DType, rows, dim), source.Close())
	}
	data, err := source.Block(0, rows, nil)
	if err != nil {
		return set{}, errors.Join(err, source.Close())
	}
	return set{path, engine.Vectors{Data: data, Rows: rows, Dim: dim}, source.Close}, nil
}

// sentences splits a text after . ! or ? and white space, and returns the parts longer than 30 bytes.
func sentences(text string) (out []string) {
	add := func(s string) {
		if s = strings.TrimSpace(s); len(s) > 30 {
			out = append(out, s)
		}
	}
	from := 0
	for i := 1; i < len(text); i++ {
		if strings.IndexByte(" \t\n", text[i]) >= 0 && strings.IndexByte(".!?", text[i-1]) >= 0 {
			add(text[from:i])
			from = i
		}
	}
	add(text[from:])
	return out
}
