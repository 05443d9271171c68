package encode

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sluice-rag/sluice/bench/harness"
	"github.com/sluice-rag/sluice/bench/peers"
)

// pooling is how the model's tokens become a vector, of its model.yaml.
type pooling struct {
	Pooling        string `yaml:"pooling"`
	Normalise      bool   `yaml:"normalise"`
	QueryPrefix    string `yaml:"query_prefix"`
	DocumentPrefix string `yaml:"document_prefix"`
}

var errSettings = errors.New("the peers need a model.yaml with pooling and without prefixes")

func (m *model) pooling() (p pooling, err error) {
	raw, err := os.ReadFile(filepath.Join(m.dir, "model.yaml"))
	if err == nil {
		err = yaml.Unmarshal(raw, &p)
	}
	if err != nil || p.Pooling == "" || p.QueryPrefix+p.DocumentPrefix != "" {
		return p, fmt.Errorf("%s: %w: %w", m.dir, errSettings, err)
	}
	return p, nil
}

// reference returns float64 vectors of texts by their places, from the cache or computed by reference.py. If they
// cannot be computed, it returns nil and adds a note.
func (s *session) reference(ctx context.Context, places []int) (map[int][]float64, error) {
	p, err := s.model.pooling()
	if err == nil {
		_, err = exec.LookPath(s.o.Python)
	}
	if err != nil {
		s.noteOnce("no errors to float64: %v; %s", err, setUpHint)
		return nil, nil
	}
	texts := make([]string, len(places))
	for i, at := range places {
		texts[i] = s.texts.all[at]
	}
	task, err := json.Marshal(map[string]any{"model": s.model.dir, "task": "embed", "pooling": p.Pooling,
		"normalise": p.Normalise, "max_tokens": s.model.info.MaxTokens, "texts": texts})
	if err != nil {
		return nil, err
	}
	key := sha256.Sum256(append([]byte(s.model.info.Digest), task...))
	path := filepath.Join(s.o.Cache, "reference-"+hex.EncodeToString(key[:10])+".f64")
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		s.log("float64 vectors of %d texts, to compute errors", len(texts))
		if raw, err = s.computeReference(ctx, task); err == nil {
			err = harness.Atomically(path, func(f *os.File) error { _, err := f.Write(raw); return err })
		}
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if dim := s.model.info.Dim; err == nil && len(raw) != len(places)*dim*8 {
		err = fmt.Errorf("%s has %d bytes, %d expected", path, len(raw), len(places)*dim*8)
	}
	if err != nil {
		s.noteOnce("no errors to float64: %v", err)
		return nil, nil
	}
	out := map[int][]float64{}
	for i, at := range places {
		row := make([]float64, s.model.info.Dim)
		for j := range row {
			row[j] = math.Float64frombits(binary.LittleEndian.Uint64(raw[(i*len(row)+j)*8:]))
		}
		out[at] = row
	}
	return out, nil
}

func (s *session) computeReference(ctx context.Context, task []byte) ([]byte, error) {
	in, out := filepath.Join(s.temp, "reference.json"), filepath.Join(s.temp, "reference")
	if err := os.WriteFile(in, task, 0o644); err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, s.o.Python, s.o.Reference, in, out)
	cmd.Env = peers.Environment(s.o.Threads)
	if text, err := cmd.CombinedOutput(); err != nil {
		lines := strings.Split(strings.TrimSpace(string(text)), "\n")
		return nil, fmt.Errorf("%w: %s: %w: %s", peers.ErrPeer, filepath.Base(s.o.Reference), err, lines[len(lines)-1])
	}
	return os.ReadFile(out + ".f64")
}

// noteOnce adds a line to the report that is not there yet.
func (s *session) noteOnce(format string, args ...any) {
	text := strings.TrimPrefix(fmt.Sprintf(format, args...), "bench: ")
	for _, n := range s.report.Notes {
		if n == text {
			return
		}
	}
	s.note("%s", text)
}
