package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
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

// realQuestions is how many questions the cut-off is computed from; the first of them are also queries.
const realQuestions = 1500

// realSearch embeds squad16's contexts and sentences and replicates them to n vectors: a base vector
// plus 0.35 times the difference of two others, of length 1, which keeps the spectrum of real text.
// Queries in scope are squad16's questions, out of scope clinc150's utterances.
func (s *session) realSearch(ctx context.Context, n, queries int) (*searchData, error) {
	const seed = 5
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
		a, b, c := rng.IntN(rows), rng.IntN(rows), rng.IntN(rows)
		for j := range dim {
			out[j] = from.base[a*dim+j] + 0.35*(from.base[b*dim+j]-from.base[c*dim+j])
		}
		normalise(out[:dim])
	}
}

type squadContext struct{ ID, Text string }
type squadQuestion struct {
	ContextID string `json:"context_id"`
	Text      string `json:"text"`
}

// embedSeeds reads the data and runs the encoder over it.
func (s *session) embedSeeds(ctx context.Context, seed uint64, foreign int) (*seedVectors, error) {
	if s.o.Embed == nil {
		return nil, fmt.Errorf("%w: no encoder", ErrNoRealVectors)
	}
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
	return s.embedAll(ctx, contexts, questions, utterances)
}

func (s *session) embedAll(ctx context.Context, contexts []squadContext, questions []squadQuestion,
	utterances []squadContext) (*seedVectors, error) {
	var base, asked, foreign []string
	row := map[string]int{}
	for i, c := range contexts {
		row[c.ID], base = i, append(base, c.Text)
	}
	for _, c := range contexts {
		base = append(base, sentences(c.Text)...)
	}
	for _, q := range questions {
		asked = append(asked, q.Text)
	}
	for _, u := range utterances {
		foreign = append(foreign, u.Text)
	}
	s.log("embedding %d contexts and sentences, %d questions, %d utterances", len(base), len(asked), len(foreign))
	out := &seedVectors{}
	for _, part := range []struct {
		texts []string
		role  embed.Role
		to    *[]float32
	}{{base, embed.Document, &out.base}, {asked, embed.Query, &out.questions}, {foreign, embed.Query, &out.foreign}} {
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
	for i, q := range questions {
		c, ok := row[q.ContextID]
		if !ok {
			return nil, fmt.Errorf("%w: question %d names the unknown context %q", ErrNoRealVectors, i, q.ContextID)
		}
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
