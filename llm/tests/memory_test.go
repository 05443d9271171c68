//go:build native

package tests

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"sync"
	"testing"

	"github.com/sluice-rag/sluice/internal/test/race"
	"github.com/sluice-rag/sluice/internal/testmodels/generator"
	"github.com/sluice-rag/sluice/llm"
	"github.com/sluice-rag/sluice/llm/gguf"
)

// llamaLog collects llama.cpp's log, which comes from the scheduler's thread.
type llamaLog struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *llamaLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *llamaLog) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// bytes adds up what the log says in lines like "CPU KV buffer size = 45.00 MiB".
func (l *llamaLog) bytes(t *testing.T, what string) (total float64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, f := range regexp.MustCompile(what+` buffer size\s*=\s*([0-9.]+) MiB`).
		FindAllStringSubmatch(l.b.String(), -1) {
		n, err := strconv.ParseFloat(f[1], 64)
		if err != nil {
			t.Fatal(err)
		}
		total += n
	}
	return total * (1 << 20)
}

// shown is the precision of a line of the log: two digits of a MiB, and two caches where layers have sliding windows.
const shown = 2 * 0.005 * (1 << 20)

// TestMemoryAgainstLlamasLog compares the estimate with what llama.cpp says that it allocates for the same options.
func TestMemoryAgainstLlamasLog(t *testing.T) {
	race.Skip(t)
	// another name, because weights that are open already are not loaded again
	path := filepath.Join(t.TempDir(), "model.gguf")
	if err := os.Symlink(testModel(t), path); err != nil {
		t.Fatal(err)
	}
	for _, o := range []llm.Options{
		{ContextSize: 512, Slots: 1},
		{ContextSize: 2048, CacheTokens: 4100, Slots: 4},
		{ContextSize: 2048, CacheTokens: 8192, Slots: 8, BatchSize: 512},
	} {
		t.Run(fmt.Sprintf("%d cells, batch %d", max(o.CacheTokens, o.ContextSize), o.BatchSize), func(t *testing.T) {
			log := &llamaLog{}
			o.Logger = log.logger()
			o.Threads = testThreads
			m, err := llm.Open(t.Context(), path, o)
			if err != nil {
				t.Fatal(err)
			}
			defer m.Close()
			need := estimate(t, path, o)
			if got := log.bytes(t, "KV"); math.Abs(got-float64(need.Cache)) > shown {
				t.Errorf("KV cache: llama.cpp says %.0f bytes, we %d", got, need.Cache)
			}
			if got := log.bytes(t, "model"); math.Abs(got-float64(need.Weights)) > 0.02*got {
				t.Errorf("weights: llama.cpp says %.0f bytes, we %d", got, need.Weights)
			}
			checkCompute(t, log, need)
		})
	}
}

// TestMemoryOfEveryCache does so for every kind of cache: full, with sliding windows, recurrent, both.
func TestMemoryOfEveryCache(t *testing.T) {
	race.Skip(t)
	eachPreset(t, func(t *testing.T, p generator.Model) {
		path := filepath.Join(t.TempDir(), p.Name+".gguf")
		if err := generator.Write(path, p); err != nil {
			t.Fatal(err)
		}
		log := &llamaLog{}
		o := llm.Options{ContextSize: 512, CacheTokens: 16384, Slots: 24, Threads: testThreads, Logger: log.logger()}
		m, err := llm.Open(context.Background(), path, o)
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		need := estimate(t, path, o)
		cache, state := log.bytes(t, "KV"), log.bytes(t, "RS")
		if math.Abs(cache-float64(need.Cache)) > shown || math.Abs(state-float64(need.State)) > shown {
			t.Errorf("llama.cpp says KV cache %.0f and state %.0f bytes, we %d and %d",
				cache, state, need.Cache, need.State)
		}
		if (need.State > 0) != recurrent(p) || need.Cache == 0 && need.State == 0 {
			t.Errorf("%+v", need)
		}
		checkCompute(t, log, need)
	})
}

func estimate(t *testing.T, path string, o llm.Options) gguf.Memory {
	t.Helper()
	file, err := gguf.Inspect(path, llm.ISA())
	if err != nil {
		t.Fatal(err)
	}
	return llm.EstimateMemory(file, o)
}

func checkCompute(t *testing.T, log *llamaLog, need gguf.Memory) {
	t.Helper()
	compute := log.bytes(t, "compute") + log.bytes(t, "output")
	t.Logf("compute and output: llama.cpp %.1f MB, our upper estimate of it and the rest %.1f MB",
		compute/1e6, float64(need.Compute)/1e6)
	if compute == 0 || compute > float64(need.Compute)-gguf.BaseMemory {
		t.Errorf("compute: llama.cpp says %.0f bytes, we estimate %d at most", compute, need.Compute-gguf.BaseMemory)
	}
}
