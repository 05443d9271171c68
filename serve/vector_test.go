package serve

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"testing"
)

// TestVectorsAreReadAsEncodingJSONDoes compares values, bits and errors.
func TestVectorsAreReadAsEncodingJSONDoes(t *testing.T) {
	texts := []string{`[]`, `[ ]`, `null`, `[1]`, ` [ 1 ,\t-2.5e-3,\n0.1 ] `, `[-0]`, `[1,null,2]`, `[3.4028235e38]`,
		`[3.5e38]`, `[1e-60]`, `["1"]`, `[[1]]`, `[1,[2]]`, `{"a":1}`, `"[1]"`, `7`, `[true]`,
		`[16777217.0000001, 1.00000005960464477539062]`}
	rng := rand.New(rand.NewPCG(1, 1))
	for range 200 {
		row := make([]float32, rng.IntN(9))
		for i := range row {
			for row[i] = math.Float32frombits(rng.Uint32()); row[i]-row[i] != 0; {
				row[i] = math.Float32frombits(rng.Uint32())
			}
		}
		b, err := json.Marshal(row)
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, string(b))
	}
	for _, text := range texts {
		var want struct{ V [][]float32 }
		var got struct{ V []vector }
		body := []byte(`{"V":[` + text + `]}`)
		wrong, err := json.Unmarshal(body, &want), json.Unmarshal(body, &got)
		if (wrong == nil) != (err == nil) {
			t.Errorf("%s: %v, encoding/json says %v", text, err, wrong)
			continue
		}
		if err != nil {
			continue
		}
		if len(got.V) != 1 || len(got.V[0]) != len(want.V[0]) {
			t.Errorf("%s: %v, want %v", text, got.V, want.V)
			continue
		}
		for i, x := range want.V[0] {
			if math.Float32bits(x) != math.Float32bits(got.V[0][i]) {
				t.Errorf("%s: number %d is %v, want %v", text, i, got.V[0][i], x)
			}
		}
	}
}
