//go:build native

package tests

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/sluice-rag/sluice/internal/test/race"
	"github.com/sluice-rag/sluice/internal/testmodels/generator"
	"github.com/sluice-rag/sluice/llm"
	"github.com/sluice-rag/sluice/llm/gguf"
)

const flippedFile = "SLUICE_TEST_FLIPPED"

// openFlipped is what the child does: whatever is wrong with the file ends in an error.
func openFlipped(t *testing.T, path string) {
	m, err := llm.Open(t.Context(), path, llm.Options{ContextSize: 32, Slots: 1, Threads: 1,
		Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		if !errors.Is(err, llm.ErrModel) && !errors.Is(err, llm.ErrOptions) && !errors.Is(err, llm.ErrMemory) {
			t.Error(err)
		}
		return
	}
	defer m.Close()
	_, err = m.Generate(t.Context(), llm.Request{Prompt: "hello", MaxTokens: 2}, nil)
	if err != nil && !errors.Is(err, llm.ErrGenerate) && !errors.Is(err, llm.ErrPromptTooLong) &&
		!errors.Is(err, llm.ErrOptions) {
		t.Error(err)
	}
}

// TestOpenFlipped opens models with a flipped bit in the header, which Inspect lets pass, each in a process of its own:
// they are refused, or they run, but the process lives. SLUICE_FLIPS (20) is how many of each architecture are tried.
func TestOpenFlipped(t *testing.T) {
	race.Skip(t)
	if path := os.Getenv(flippedFile); path != "" {
		openFlipped(t, path)
		return
	}
	flips := 20
	if s := os.Getenv("SLUICE_FLIPS"); s != "" {
		var err error
		if flips, err = strconv.Atoi(s); err != nil {
			t.Fatal(err)
		}
	}
	eachPreset(t, func(t *testing.T, p generator.Model) {
		path := filepath.Join(t.TempDir(), "m.gguf")
		if err := generator.Write(path, p); err != nil {
			t.Fatal(err)
		}
		whole, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		// Settings stand before the vocabulary, names, shapes and types of tensors behind it.
		settings, tensors := bytes.Index(whole, []byte("tokenizer.ggml.tokens")), bytes.Index(whole, []byte("blk.0."))
		rng := rand.New(rand.NewPCG(51, uint64(flips)))
		passed := 0
		for range flips {
			flipped := bytes.Clone(whole)
			at := rng.IntN(settings)
			switch rng.IntN(3) {
			case 0:
				at = tensors - 200 + rng.IntN(2200)
			case 1: // texts, scores and types of tokens
				at = settings + rng.IntN(tensors-settings)
			}
			flipped[at] ^= 1 << rng.IntN(8)
			if err := os.WriteFile(path, flipped, 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := gguf.Inspect(path, llm.ISA()); err != nil {
				continue
			}
			passed++
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute) // one that never ends is a defect, too
			child := exec.CommandContext(ctx, os.Args[0], "-test.run", "^TestOpenFlipped$")
			child.Env = append(os.Environ(), flippedFile+"="+path)
			if out, err := child.CombinedOutput(); err != nil {
				t.Errorf("byte %d, after %q: %v\n%.800s", at, whole[max(0, at-30):at], err, out)
			}
			cancel()
		}
		t.Logf("%d of %d flipped files pass Inspect", passed, flips)
	})
}
