//go:build native

package embed

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"github.com/sluice-rag/sluice/internal/models"
	"github.com/sluice-rag/sluice/internal/testmodels/datasets"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// minilm returns the folder of the default encoder.
func minilm(t testing.TB) string {
	t.Helper()
	dir, err := models.Locate("all-MiniLM-L6-v2")
	if err != nil {
		t.Skipf("SKIP: the default encoder is not there: %v", err)
	}
	return dir
}

func needLibrary(t testing.TB) {
	t.Helper()
	if _, err := findLibrary("", libraryDigest()); err != nil {
		t.Skipf("SKIP: %v", err)
	}
}

func openEncoder(t testing.TB, dir string, o Options) *Encoder {
	t.Helper()
	needLibrary(t)
	e, err := Open(context.Background(), dir, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	return e
}

func embedAll(t testing.TB, e *Encoder, texts []string, r Role) *Embeddings {
	t.Helper()
	v, err := e.Embed(context.Background(), texts, r)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// python returns the interpreter with NumPy and tokenizers that the reference runs in.
func python(t testing.TB) string {
	t.Helper()
	p := os.Getenv("SLUICE_TEST_PYTHON")
	p = cmp.Or(p, filepath.Join("..", "third_party", "python", "bin", "python3"))
	if _, err := os.Stat(p); err != nil {
		t.Skipf("SKIP: no Python with NumPy and tokenizers (SLUICE_TEST_PYTHON, or make python): %v", err)
	}
	return p
}

// task is the input of testdata/reference.py.
type task struct {
	Model     string   `json:"model"`
	Task      string   `json:"task"` // embed, classify, label, score, tokens or pairs
	Pooling   string   `json:"pooling,omitempty"`
	Normalise bool     `json:"normalise"`
	MaxTokens int      `json:"max_tokens"`
	Texts     []string `json:"texts"`

	Pairs []textPair `json:"pairs,omitempty"`
}

// runReference runs the independent implementation and returns the beginning of its files' names.
func runReference(t testing.TB, in task) string {
	t.Helper()
	dir := t.TempDir()
	raw, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	input, output := filepath.Join(dir, "in.json"), filepath.Join(dir, "out")
	if err := os.WriteFile(input, raw, 0o644); err != nil {
		t.Fatal(err)
	}
	c := exec.Command(python(t), filepath.Join("testdata", "reference.py"), input, output)
	// its threads spin against the other tests
	c.Env = append(os.Environ(), "OPENBLAS_NUM_THREADS=1", "OMP_NUM_THREADS=1")
	if msg, err := c.CombinedOutput(); err != nil {
		t.Fatalf("reference.py: %v\n%s", err, msg)
	}
	return output
}

// referenceRows computes float64 values and token ids with the independent implementation.
func referenceRows(t testing.TB, in task) (flat []float64, ids [][]uint32) {
	t.Helper()
	output := runReference(t, in)
	readGolden(t, output+".json", &ids)
	if in.Task == "tokens" {
		return nil, ids
	}
	raw, err := os.ReadFile(output + ".f64")
	if err != nil {
		t.Fatal(err)
	}
	flat = make([]float64, len(raw)/8)
	if err := binary.Read(bytes.NewReader(raw), binary.LittleEndian, flat); err != nil {
		t.Fatal(err)
	}
	return flat, ids
}

// reference is referenceRows with a row per text or pair.
func reference(t testing.TB, in task) (rows [][]float64, ids [][]uint32) {
	t.Helper()
	flat, ids := referenceRows(t, in)
	if flat == nil {
		return nil, ids
	}
	dim := len(flat) / max(len(ids), 1)
	for i := range ids {
		rows = append(rows, flat[i*dim:(i+1)*dim])
	}
	return rows, ids
}

// worst returns the largest |a − b|; NaN is infinitely bad.
func worst(a []float32, b []float64) float64 {
	if len(a) != len(b) {
		return math.Inf(1)
	}
	var w float64
	for i := range a {
		d := math.Abs(float64(a[i]) - b[i])
		if math.IsNaN(d) {
			return math.Inf(1)
		}
		w = max(w, d)
	}
	return w
}

func worst32(a, b []float32) float64 {
	wide := make([]float64, len(b))
	for i, v := range b {
		wide[i] = float64(v)
	}
	return worst(a, wide)
}

// squad returns the texts of the squad16 file (contexts or queries), or skips.
func squad(t testing.TB, file string) []string {
	t.Helper()
	return datasets.Texts(t, "squad16/"+file+".jsonl")
}

// mixed are n texts of very different lengths: questions, paragraphs, and beginnings of paragraphs.
func mixed(t testing.TB, n int) []string {
	t.Helper()
	questions, contexts := squad(t, "queries"), squad(t, "contexts")
	out := make([]string, n)
	for i := range out {
		c := contexts[(i*7)%len(contexts)]
		switch {
		case i%48 == 0: // longer than the encoder reads
			out[i] = c + "\n\n" + contexts[(i*7+1)%len(contexts)] + contexts[(i*7+2)%len(contexts)]
		case i%16 == 0:
			out[i] = c
		case i%16 < 4:
			out[i] = c[:len(c)/(2+i%4)]
		default:
			out[i] = questions[(i*13)%len(questions)]
		}
	}
	return out
}
