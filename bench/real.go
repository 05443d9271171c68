package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"

	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/ref"
)

// ErrNoRealVectors is why the benchmarks over real vectors are left out: no data, or no encoder.
var ErrNoRealVectors = errors.New("bench: no real vectors")

// seedVectors are embeddings of contexts and their sentences, of questions (in scope) and of utterances
// (out of scope).
type seedVectors struct {
	base, questions, foreign []float32
	dim                      int
	own                      []float64 // similarities of questions with their own contexts, ascending
}

const seedReal = uint64(5)

// realQuestions is how many questions the cut-off is computed from; the first of them are also queries.
const realQuestions = 1500

// realSearch embeds squad16's contexts and sentences and replicates them to n vectors: a base vector
// plus 0.35 times the difference of two others, of length 1, which keeps the spectrum of real text.
// Queries in scope are squad16's questions, out of scope clinc150's utterances.
func (s *session) realSearch(ctx context.Context, n, queries int) (*searchData, error) {
	const seed = seedReal
	d := &searchData{name: fmt.Sprintf("real-v%d-s%d-%d", dataVersion, seed, n)}
	meta := filepath.Join(s.cache, fmt.Sprintf("%s-%dqueries.json", d.name, queries))
	type note struct {
		Dim    int     `json:"dim"`
		Cutoff float64 `json:"cutoff"`
	}
	var embedded *seedVectors
	k, err := cached(meta, func() (n note, err error) {
		if embedded, err = s.embedSeeds(ctx, seed, queries/2); err != nil {
			return n, err
		}
		return note{embedded.dim, ref.Quantile7(embedded.own, 0.05)}, nil
	})
	if err != nil {
		return nil, err
	}
	need := func() error { // the note is in the cache, but a file is not
		if embedded == nil {
			embedded, err = s.embedSeeds(ctx, seed, queries/2)
		}
		return err
	}
	d.cutoff = k.Cutoff
	d.base, err = s.file(d.name+"-base.npy", n, k.Dim, func(path string) error {
		if err := need(); err != nil {
			return err
		}
		s.log("replicating %d real vectors to %d", len(embedded.base)/k.Dim, n)
		return writeRows(ctx, path, n, k.Dim, s.o.Threads,
			func(block, first int, out []float32) { replicate(seed, embedded, block, first, out) })
	})
	if err != nil {
		return nil, err
	}
	d.queries, err = s.file(fmt.Sprintf("%s-%dqueries.npy", d.name, queries), queries/2*2, k.Dim,
		func(path string) error {
			if err := need(); err != nil {
				return err
			}
			all := slices.Concat(embedded.questions[:queries/2*k.Dim], embedded.foreign)
			return writeRows(ctx, path, queries/2*2, k.Dim, 1,
				func(_, first int, out []float32) { copy(out, all[first*k.Dim:]) })
		})
	if err != nil {
		return nil, errors.Join(err, d.base.release())
	}
	return d, nil
}

func replicate(seed uint64, from *seedVectors, block, first int, out []float32) {
	rng, dim := stream(seed, "replicas", block), from.dim
	rows := len(from.base) / dim
	for i := first; len(out) > 0; i, out = i+1, out[dim:] {
		if i < rows {
			copy(out[:dim], from.base[i*dim:])
			continue
		}
		a, b, c := parents(rng, rows)
		for j := range dim {
			out[j] = from.base[a*dim+j] + 0.35*(from.base[b*dim+j]-from.base[c*dim+j])
		}
		normalise(out[:dim])
	}
}

// parents returns the rows that a replica is made from: near the first one.
func parents(rng *rand.Rand, rows int) (a, b, c int) {
	return rng.IntN(rows), rng.IntN(rows), rng.IntN(rows)
}

// origins returns the rows of the seed that the first n rows of the base are near to.
func origins(seed uint64, rows, n int) []int32 {
	out := make([]int32, n)
	for first := 0; first < n; first += blockRows {
		rng := stream(seed, "replicas", first/blockRows)
		for i := first; i < min(n, first+blockRows); i++ {
			a := i
			if i >= rows {
				a, _, _ = parents(rng, rows)
			}
			out[i] = int32(a)
		}
	}
	return out
}

type squadContext struct{ ID, Text string }
type squadQuestion struct {
	ContextID string `json:"context_id"`
	Text      string `json:"text"`
}

// seedTexts are the texts of seedVectors; question i belongs to row own[i] of the base.
type seedTexts struct {
	base, questions, foreign []string
	own                      []int
}

// readSeeds reads the data.
func (s *session) readSeeds(seed uint64, foreign int) (*seedTexts, error) {
	contexts, err := lines[squadContext](filepath.Join(s.o.Data, "squad16", "contexts.jsonl"))
	if err != nil {
		return nil, err
	}
	questions, err := lines[squadQuestion](filepath.Join(s.o.Data, "squad16", "queries.jsonl"))
	if err != nil {
		return nil, err
	}
	utterances, err := lines[squadContext](filepath.Join(s.o.Data, "clinc150", "test.jsonl"))
	if err != nil {
		return nil, err
	}
	rng := stream(seed, "choice", 0)
	rng.Shuffle(len(questions), func(i, j int) { questions[i], questions[j] = questions[j], questions[i] })
	rng.Shuffle(len(utterances), func(i, j int) { utterances[i], utterances[j] = utterances[j], utterances[i] })
	questions, utterances = questions[:min(realQuestions, len(questions))], utterances[:min(foreign, len(utterances))]
	if len(questions) < foreign || len(utterances) < foreign {
		return nil, fmt.Errorf("%w: %d questions and %d utterances, %d of each are needed", ErrNoRealVectors,
			len(questions), len(utterances), foreign)
	}
	t, row := &seedTexts{}, map[string]int{}
	for i, c := range contexts {
		row[c.ID], t.base = i, append(t.base, c.Text)
	}
	for _, c := range contexts {
		t.base = append(t.base, sentences(c.Text)...)
	}
	for i, q := range questions {
		own, ok := row[q.ContextID]
		if !ok {
			return nil, fmt.Errorf("%w: question %d names the unknown context %q", ErrNoRealVectors, i, q.ContextID)
		}
		t.questions, t.own = append(t.questions, q.Text), append(t.own, own)
	}
	for _, u := range utterances {
		t.foreign = append(t.foreign, u.Text)
	}
	return t, nil
}

// embedSeeds runs the encoder over the data.
func (s *session) embedSeeds(ctx context.Context, seed uint64, foreign int) (*seedVectors, error) {
	if s.o.Embed == nil {
		return nil, fmt.Errorf("%w: no encoder", ErrNoRealVectors)
	}
	t, err := s.readSeeds(seed, foreign)
	if err != nil {
		return nil, err
	}
	s.log("embedding %d contexts and sentences, %d questions, %d utterances", len(t.base), len(t.questions),
		len(t.foreign))
	out := &seedVectors{}
	for _, part := range []struct {
		texts []string
		role  embed.Role
		to    *[]float32
	}{{t.base, embed.Document, &out.base}, {t.questions, embed.Query, &out.questions},
		{t.foreign, embed.Query, &out.foreign}} {
		e, err := s.o.Embed(ctx, part.texts, part.role)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrNoRealVectors, err)
		}
		*part.to, out.dim = e.Data, e.Dim
		for v := e.Data; len(v) > 0; v = v[e.Dim:] {
			normalise(v[:e.Dim])
		}
	}
	at := func(v []float32, i int) []float32 { return v[i*out.dim : (i+1)*out.dim] }
	for i, c := range t.own {
		out.own = append(out.own, ref.Score(kernels.Cosine, at(out.questions, i), at(out.base, c)))
	}
	slices.Sort(out.own)
	return out, nil
}

// lines reads a file of JSON lines; one that is absent is ErrNoRealVectors.
func lines[T any](path string) (out []T, err error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %w", ErrNoRealVectors, err)
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	for d := json.NewDecoder(f); d.More(); {
		var v T
		if err := d.Decode(&v); err != nil {
			return nil, fmt.Errorf("bench: %s: %w", path, err)
		}
		out = append(out, v)
	}
	return out, nil
}
