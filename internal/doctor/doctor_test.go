package doctor

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice"
	"github.com/sluice-rag/sluice/cuda"
	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/embed/identity"
	"github.com/sluice-rag/sluice/llm"
)

func collect(t *testing.T, ctx context.Context, o Options) (checks []Check, err error) {
	t.Helper()
	t.Setenv(cuda.EnvLibrary, "/none/libcuda.so.1") // a process keeps the driver that it has opened
	err = Run(ctx, o, func(c Check) { checks = append(checks, c) })
	return checks, err
}

func find(t *testing.T, checks []Check, name string) Check {
	t.Helper()
	i := slices.IndexFunc(checks, func(c Check) bool { return c.Name == name })
	if i < 0 {
		t.Fatalf("no check %q in %v", name, checks)
	}
	return checks[i]
}

func TestNothingSetUpIsMissingNotFailed(t *testing.T) {
	t.Setenv("SLUICE_CACHE", t.TempDir())
	checks, err := collect(t, t.Context(),
		Options{Config: sluice.Config{Store: t.TempDir() + "/none", Encoder: "all-MiniLM-L6-v2",
			Model: "SmolLM2-135M-Instruct"}})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]Status{"engine": OK, "kernels go": OK, "encoder": Missing,
		"language model": Missing, "store": Missing} {
		if c := find(t, checks, name); c.Status != want || want == Missing && c.Hint == "" {
			t.Errorf("%s: %+v, want %s with a hint", name, c, want)
		}
	}
}

func TestWhatShouldWorkFails(t *testing.T) {
	dir := t.TempDir()
	checks, err := collect(t, t.Context(),
		Options{Config: sluice.Config{Store: dir, ISA: "mmx", Encoder: "no such encoder", Model: "no such model",
			Classifier: "no such classifier", Reranker: "no such reranker"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"engine", "encoder", "classifier", "reranker", "language model"} {
		if c := find(t, checks, name); c.Status != Failed {
			t.Errorf("%s: %+v", name, c)
		}
	}
}

func TestEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if checks, err := collect(t, ctx, Options{}); !errors.Is(err, context.Canceled) || len(checks) > 0 {
		t.Errorf("%v %v", checks, err)
	}
}

// wrong is an encoder whose vectors depend on the batch by a factor per text in it.
type wrong struct{ factor float32 }

func (w wrong) Embed(_ context.Context, texts []string, _ embed.Role) (*embed.Embeddings, error) {
	e := &embed.Embeddings{Dim: 8, Data: make([]float32, 8*len(texts))}
	for i := range e.Data {
		e.Data[i] = .1 * (1 + w.factor*float32(len(texts)-1))
	}
	return e, nil
}
func (wrong) CountTokens(string) (int, error) { return 0, nil }
func (wrong) Info() embed.Info                { return embed.Info{Encoder: identity.Encoder{Name: "wrong"}} }

func TestWrongVectorsAreFound(t *testing.T) {
	for _, factor := range []float32{1, float32(math.NaN())} {
		_, err := compareVectors(t.Context(), wrong{factor}, batchTolerance)
		if err == nil || !strings.Contains(err.Error(), "batch") {
			t.Errorf("factor %v: %v", factor, err)
		}
	}
	detail, err := compareVectors(t.Context(), wrong{0}, batchTolerance)
	if err != nil || !strings.Contains(detail, "no golden vectors") {
		t.Errorf("%q, %v", detail, err)
	}
}

func TestStamped(t *testing.T) {
	stamp := "liba.a sha256:1\nlibb.so sha256:2 b 1.0"
	if got := stamped(stamp, "libb"); got != "libb.so sha256:2 b 1.0" {
		t.Error(got)
	}
	if c := linked("a", true, stamp); c.Detail != "linked, liba.a sha256:1" {
		t.Error(c)
	}
}

// TestModelFileIsTriedFirst checks that a model file without a digest is opened by the helper before this process opens
// it.
func TestModelFileIsTriedFirst(t *testing.T) {
	if !llm.Available {
		t.Skip("SKIP: built without llama.cpp")
	}
	path := filepath.Join(t.TempDir(), "m.gguf")
	if err := os.WriteFile(path, []byte("GGUF"), 0o600); err != nil {
		t.Fatal(err)
	}
	checks, err := collect(t, t.Context(), Options{Config: sluice.Config{Store: t.TempDir(),
		Encoder: "no such encoder", Model: path,
		ModelHelper: []string{"sh", "-c", "cat > /dev/null; echo an assertion >&2; exit 2"}}})
	if err != nil {
		t.Fatal(err)
	}
	if c := find(t, checks, "language model"); c.Status != Failed || !strings.Contains(c.Detail, "an assertion") {
		t.Errorf("%+v", c)
	}
}
