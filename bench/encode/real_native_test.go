//go:build native

package encode

import (
	"context"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/engine/cores"
	"github.com/sluice-rag/sluice/internal/fetch"
	"github.com/sluice-rag/sluice/internal/models"
)

// TestRealPeers runs the installed peers and checks that their vectors agree with Sluice's and with the float64
// reference.
func TestRealPeers(t *testing.T) {
	root, err := fetch.Root()
	if err != nil {
		t.Fatal(err)
	}
	for _, program := range []string{pythonProgram, hugotProgram} {
		if _, err := exec.LookPath(filepath.Join(root, program)); err != nil {
			t.Skipf("SKIP: the peers are not set up: %v; %s", err, setUpHint)
		}
	}
	dir, err := models.Locate("all-MiniLM-L6-v2")
	if err != nil {
		t.Skipf("SKIP: the default encoder is not there: %v", err)
	}
	data := filepath.Join("..", "..", "..", "shared", "data")
	if _, err := readLines(filepath.Join(data, squad, "contexts.jsonl")); err != nil {
		t.Skipf("SKIP: %v", err)
	}
	report, err := Run(t.Context(), Options{Short: true, Rounds: 1, Data: data, Workloads: []string{Question},
		Precisions: []string{"f32"}, Peers: []string{"onnxruntime", "fastembed", "hugot"},
		Open: func(ctx context.Context, _ string, threads int) (Encoder, error) {
			return embed.Open(ctx, dir, embed.Options{Cores: cores.New(threads)})
		}})
	if err != nil {
		t.Fatal(err)
	}
	count := map[string]int{}
	for _, r := range report.Rows {
		name, _, _ := strings.Cut(r.Impl, ",")
		count[name]++
		if r.MaxError == nil || r.NDCG == nil || r.DType == "f32" && *r.MaxError > 2e-6 {
			t.Errorf("%+v", r)
		}
	}
	for _, name := range []string{Own, "onnxruntime", "onnxruntime dynamic int8", "fastembed", "hugot"} {
		if count[name] != 1 {
			t.Errorf("%s has %d rows; %q", name, count[name], report.Notes)
		}
	}
}
