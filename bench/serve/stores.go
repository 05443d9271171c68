package serve

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/internal/npy"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/rag/corpus"
	"github.com/sluice-rag/sluice/rag/knowledge"
	"github.com/sluice-rag/sluice/rag/store"
)

// line is one of squad16's files.
type line struct {
	ID         string `json:"id"`
	Topic      string `json:"topic"`
	Text       string `json:"text"`
	Answerable bool   `json:"answerable"`
}

func readLines(path string) (lines []line, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrData, err)
	}
	defer f.Close()
	scan := bufio.NewScanner(f)
	scan.Buffer(nil, 1<<20)
	for scan.Scan() {
		var l line
		if err := json.Unmarshal(scan.Bytes(), &l); err != nil {
			return nil, fmt.Errorf("%w: %s: %w", ErrData, path, err)
		}
		lines = append(lines, l)
	}
	if scan.Err() != nil || len(lines) == 0 {
		return nil, fmt.Errorf("%w: %s: %d lines: %w", ErrData, path, len(lines), scan.Err())
	}
	return lines, nil
}

func contextsFile(data string) string { return filepath.Join(data, "squad16", "contexts.jsonl") }
func queriesFile(data string) string  { return filepath.Join(data, "squad16", "queries.jsonl") }

// readQuestions are squad16's, in an order in which neighbours are about different things.
func readQuestions(data string) ([]string, error) {
	lines, err := readLines(queriesFile(data))
	if err != nil {
		return nil, err
	}
	out := make([]string, len(lines))
	for i := range lines {
		out[i] = lines[i*1009%len(lines)].Text
	}
	return out, nil
}

// verb runs one of the program's.
func (s *session) verb(ctx context.Context, arguments ...string) error {
	said, err := exec.CommandContext(ctx, s.o.Program, append([]string{"-q"}, arguments...)...).CombinedOutput()
	if err != nil {
		lines := strings.Split(strings.TrimSpace(string(said)), "\n")
		return fmt.Errorf("bench: sluice %s: %w: %s", arguments[0], err, lines[len(lines)-1])
	}
	return nil
}

// once makes a folder in the cache unless it exists.
func (s *session) once(name string, do func(dir string) error) (string, error) {
	dir := filepath.Join(s.o.Cache, name)
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	temp, err := os.MkdirTemp(s.o.Cache, ".making-*")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(temp) // gone after the rename
	made := filepath.Join(temp, "made")
	if err := do(made); err != nil {
		return "", err
	}
	return dir, os.Rename(made, dir)
}

// digest is part of the names of what was made with the encoder.
func (s *session) digest() string {
	return strings.TrimPrefix(s.encoder.Info().Digest, "sha256:")[:12]
}

// calibrate makes a gate that uses the similarity alone, as the peer's does.
func (s *session) calibrate(ctx context.Context, dir string) error {
	return s.verb(ctx, "calibrate", "--store", dir, "--queries", queriesFile(s.o.Data), "--score", "cosine", "--policy",
		"maximum:p5", "--resamples", "-1", "--holdout", "0", "--keep-mb", "0")
}

// squad returns a calibrated store of squad16's contexts.
func (s *session) squad(ctx context.Context) (string, error) {
	return s.once("squad16-"+s.digest(), func(dir string) error {
		s.log("making a store of squad16")
		if err := s.verb(ctx, "ingest", "--store", dir, "--no-chunk", contextsFile(s.o.Data)); err != nil {
			return err
		}
		return s.calibrate(ctx, dir)
	})
}

// many returns a calibrated and indexed store of rows contexts, with vectors.npy beside its own files: squad16's
// contexts, and then copies of them plus a third of the difference of two others, which keeps the spectrum of real
// text.
func (s *session) many(ctx context.Context, rows int) (string, error) {
	return s.once(fmt.Sprintf("rows-%d-%s", rows, s.digest()), func(dir string) error {
		s.log("making a store of %d contexts", rows)
		texts := make([]string, len(s.contexts))
		for i, c := range s.contexts {
			texts[i] = c.Text
		}
		base, err := s.encoder.Embed(ctx, texts, embed.Document)
		if err != nil {
			return err
		}
		if err := s.fill(ctx, dir, base, rows); err != nil {
			return err
		}
		if err := s.calibrate(ctx, dir); err != nil {
			return err
		}
		return s.index(ctx, dir)
	})
}

// fill commits the contexts.
func (s *session) fill(ctx context.Context, dir string, base *embed.Embeddings, rows int) (err error) {
	contexts := s.contexts
	enc := s.encoder.Info().Encoder
	st, err := store.Open(ctx, dir, store.Options{Create: true, Encoder: &enc, Metric: kernels.Cosine})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	f, err := os.Create(filepath.Join(dir, "vectors.npy"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	out, err := npy.NewRows(f, base.Dim)
	if err != nil {
		return err
	}
	random := rand.New(rand.NewPCG(1, 18))
	const each = 10_000
	for first := 0; first < rows; first += each {
		var b store.Batch
		for i := first; i < min(first+each, rows); i++ {
			c, v := rowID(contexts, i), append([]float32{}, base.Row(i%len(contexts))...)
			if i >= len(contexts) {
				vary(v, base.Row(random.IntN(len(contexts))), base.Row(random.IntN(len(contexts))))
			}
			b.Documents = append(b.Documents, &corpus.Document{ID: c.ID, Source: c.ID, Digest: c.ID})
			b.Chunks = append(b.Chunks,
				corpus.Chunk{ID: c.ID, Document: c.ID, Source: c.ID, Topic: c.Topic, Text: c.Text})
			b.Vectors = append(b.Vectors, v...)
			if err := out.Append(v); err != nil {
				return err
			}
		}
		if _, err := st.Commit(ctx, b); err != nil {
			return err
		}
	}
	return out.Close()
}

// rowID returns the i-th context: one of squad16's, or a copy of one.
func rowID(contexts []line, i int) line {
	c := contexts[i%len(contexts)]
	if i >= len(contexts) {
		c.ID, c.Text = fmt.Sprintf("copy-%07d", i), fmt.Sprintf("Copy %d of a passage about %s.", i, c.Topic)
	}
	return c
}

// vary moves a unit vector by a third of the difference of two others, and gives it length 1 again.
func vary(v, x, y []float32) {
	var sum float64
	for i := range v {
		v[i] += .35 * (x[i] - y[i])
		sum += float64(v[i]) * float64(v[i])
	}
	for i := range v {
		v[i] = float32(float64(v[i]) / math.Sqrt(sum))
	}
}

// index has the store's index of vectors made now, not after the first searches.
func (s *session) index(ctx context.Context, dir string) error {
	e, err := engine.New(engine.Options{Threads: s.o.Threads})
	if err != nil {
		return err
	}
	b := knowledge.New(knowledge.Config{Dir: dir, Engine: e,
		Encoder: func(context.Context) (embed.Embedder, error) { return s.encoder, nil }})
	return errors.Join(b.KeepIndex(ctx), b.Close())
}
