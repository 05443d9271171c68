//go:build native

package generate

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/internal/models"
)

// TestEndToEnd is a small run of everything with the default model and those peers that are built.
func TestEndToEnd(t *testing.T) {
	model, err := models.LocateGGUF("SmolLM2-135M-Instruct")
	if errors.Is(err, models.ErrNotPulled) {
		t.Skipf("SKIP: %v", err)
	} else if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join("..", "..", "build", "out")
	var peers []string
	for _, p := range Peers() {
		if _, err := os.Stat(filepath.Join(dir, p)); err != nil {
			t.Logf("%s is not built and left out", p)
			continue
		}
		peers = append(peers, p)
	}
	r, err := Run(t.Context(), Options{
		Model: model, Peers: peers, Concurrency: []int{2}, Threads: 1, PromptTokens: []int{24}, Tokens: []int{6},
		PrefixTokens: 48,
		Batch:        64, Rounds: 1, Tools: dir,
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Notes) > 0 {
		t.Errorf("%q", r.Notes)
	}
	for _, impl := range append([]string{Own}, peers...) {
		if impl != LlamaServer {
			for _, workload := range []string{"pp24", "tg6"} {
				if x := find(t, r, workload, impl, Rate); !(x.Median > 0) {
					t.Errorf("%+v", x)
				}
			}
		}
		if impl == LlamaBench {
			continue
		}
		if x := find(t, r, "concurrent", impl, Prompt); x.Median != 48 {
			t.Errorf("two prompts of 24 tokens: %+v", x)
		}
		if x := find(t, r, "prefix-warm", impl, Reused); x.Median < 2*47 { // a token may merge with what follows
			t.Errorf("two prompts that begin with the same 48 tokens, seen before: %+v", x)
		}
	}
	if len(r.Model.SHA256) != 64 || !strings.HasPrefix(r.Model.Description, "llama") {
		t.Errorf("%+v", r.Model)
	}
	for _, x := range r.Ratios {
		if !(x.Ratio > 0) || x.SameTexts != nil && !(*x.SameTexts >= 0 && *x.SameTexts <= 1) {
			t.Errorf("%+v", x)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Run(ctx, Options{
		Model: model, Concurrency: []int{1}, Threads: 1, PromptTokens: []int{8}, Tokens: []int{1}, PrefixTokens: 8,
		Batch: 64, Rounds: 1,
	}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
