package embed

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"

	"golang.org/x/sys/cpu"

	"github.com/sluice-rag/sluice/internal/durable"
)

// Runtime is what computes an encoder's vectors, beside what its digest covers (weights, tokenizer, pooling and the
// other settings). Another runtime rounds otherwise, mostly in the seventh digit; KeepRuntime looks whether it does.
type Runtime struct {
	Library   string `json:"library"`   // "onnxruntime 1.31.1"
	Provider  string `json:"provider"`  // "cpu" or "cuda"
	ISA       string `json:"isa"`       // of our operators, else what the library chooses by; of a GPU "sm_90"
	Precision string `json:"precision"` // class of the arithmetic: "float32", or "export": as a ready graph says
}

func (r Runtime) String() string {
	return fmt.Sprintf("%s, %s, %s, %s", r.Library, r.Provider, r.ISA, r.Precision)
}

// ErrRuntime: the runtime in use gives other vectors than the one that a store's vectors were made with.
var ErrRuntime = errors.New("embed: another runtime with other vectors")

// How far a component of a probe's vector may lie from the recorded one. Vectors of 8 bits are off by up to .007 from
// those of float32, and not the same on all instruction sets; the class promises no more than that.
const (
	runtimeTolerance = 1e-5
	int8Tolerance    = .02
)

// probes are embedded to compare runtimes: a word, a sentence, numbers, another script.
func probes() []string {
	return []string{"pump", "The valve of the second pump is opened when the pressure falls below 3.5 bar.",
		"2024-11-22, 17 × 4 = 68", "Größenordnungen sind nicht übertragbar; 日本語"}
}

// runtimeRecord lies beside a store's vectors.
type runtimeRecord struct {
	Schema  int         `json:"schema"`
	Encoder string      `json:"encoder"` // its digest
	Runtime Runtime     `json:"runtime"`
	Vectors [][]float32 `json:"vectors"` // of probes
}

const runtimeSchema = 1

// KeepRuntime compares the runtime of an encoder with the one that the file at path records for the same encoder. When
// they differ, a few texts are embedded and their vectors compared: within 1e-5 (with 8 bits .02) the runtime is
// accepted, and changed is true; beyond it the error is ErrRuntime. Without such a record, or with one of another
// encoder, the present runtime is recorded. An encoder that names no runtime is left alone.
func KeepRuntime(ctx context.Context, path string, e Embedder) (changed bool, err error) {
	info := e.Info()
	if info.Runtime == (Runtime{}) {
		return false, nil
	}
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	var made runtimeRecord
	known := err == nil && json.Unmarshal(text, &made) == nil && made.Schema == runtimeSchema &&
		made.Encoder == info.Digest && len(made.Vectors) == len(probes())
	if known && made.Runtime == info.Runtime {
		return false, nil
	}
	v, err := e.Embed(ctx, probes(), Document)
	if err != nil {
		return false, err
	}
	if known {
		return true, made.compare(path, v, info.Runtime)
	}
	made = runtimeRecord{Schema: runtimeSchema, Encoder: info.Digest, Runtime: info.Runtime}
	for i := range probes() {
		made.Vectors = append(made.Vectors, v.Row(i))
	}
	if text, err = json.Marshal(made); err != nil {
		return false, err
	}
	tmp := path + ".tmp"
	if err := os.WriteFile(tmp, text, durable.FileMode(filepath.Dir(path))); err != nil {
		return false, err
	}
	return false, os.Rename(tmp, path)
}

func (r *runtimeRecord) compare(path string, v *Embeddings, now Runtime) error {
	worst := 0.
	for i, row := range r.Vectors {
		if len(row) != v.Dim {
			return fmt.Errorf("%w: %s holds vectors of %d dimensions, not %d", ErrRuntime, path, len(row), v.Dim)
		}
		for j, x := range v.Row(i) {
			if d := math.Abs(float64(x) - float64(row[j])); !(d <= worst) { // NaN as well
				worst = d
			}
		}
	}
	most := runtimeTolerance
	if now.Precision == string(Int8) {
		most = int8Tolerance
	}
	if !(worst <= most) {
		return fmt.Errorf("%w: components differ by up to %.2g, %.0e is accepted (%s now, %s when %s was made); "+
			"use that runtime, or ingest into another store", ErrRuntime, worst, most, now, r.Runtime, path)
	}
	return nil
}

// cpuISA names the instruction sets that ONNX Runtime's kernels are chosen by.
func cpuISA() string {
	x := &cpu.X86
	switch {
	case x.HasAMXInt8 && x.HasAMXTile:
		return "amx"
	case x.HasAVX512F && x.HasAVX512VNNI:
		return "avx512vnni"
	case x.HasAVX512F:
		return "avx512"
	case x.HasAVX2 && x.HasFMA:
		return "avx2"
	case x.HasSSE2:
		return "sse2"
	}
	return "other"
}
