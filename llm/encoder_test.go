//go:build native

package llm

import (
	"encoding/json"
	"math"
	"math/bits"
	"os"
	"testing"
)

// TestEncoderAgainstGolden is run with SLUICE_GGUF_MINILM, the path of all-MiniLM-L6-v2 as a GGUF file in float32.
func TestEncoderAgainstGolden(t *testing.T) {
	path := os.Getenv("SLUICE_GGUF_MINILM")
	if path == "" {
		t.Skip("SLUICE_GGUF_MINILM names no file")
	}
	e, err := OpenEncoder(t.Context(), path, EncoderOptions{MaxTokens: 256, Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	raw, err := os.ReadFile("../embed/testdata/golden-minilm.json")
	if err != nil {
		t.Fatal(err)
	}
	var golden struct {
		Texts []struct {
			Text       string
			Tokens     int
			First      []float64
			Projection float64
		}
	}
	if err := json.Unmarshal(raw, &golden); err != nil {
		t.Fatal(err)
	}
	for _, g := range golden.Texts {
		ids, err := e.Tokenize(g.Text)
		if err != nil {
			t.Fatal(err)
		}
		if len(ids) > 256 {
			ids = append(ids[:255], ids[len(ids)-1])
		}
		if len(ids) != g.Tokens {
			t.Errorf("%.40q: %d tokens, %d expected", g.Text, len(ids), g.Tokens)
			continue
		}
		row := make([]float32, e.Dim())
		if err := e.Encode(t.Context(), [][]int32{ids}, row); err != nil {
			t.Fatal(err)
		}
		var sum, projection float64
		for i, x := range row {
			sum += float64(x) * float64(x)
			projection += float64(x) * float64(1-2*(bits.OnesCount(uint(i))%2))
		}
		worst := math.Abs(projection/math.Sqrt(sum)/math.Sqrt(float64(len(row))) - g.Projection)
		for i, want := range g.First {
			worst = max(worst, math.Abs(float64(row[i])/math.Sqrt(sum)-want))
		}
		t.Logf("%.40q: worst %.2g", g.Text, worst)
		if !(worst <= 1e-3) {
			t.Errorf("%.40q is off by %.3g", g.Text, worst)
		}
	}
}
