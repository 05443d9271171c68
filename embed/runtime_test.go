package embed

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// shifted is an encoder whose vectors a runtime moves by a little.
type shifted struct {
	info  Info
	by    float32
	calls int
}

func (s *shifted) Embed(_ context.Context, texts []string, _ Role) (*Embeddings, error) {
	s.calls++
	e := &Embeddings{Dim: 3}
	for i := range texts {
		e.Data = append(e.Data, .5, .25+s.by, float32(i))
	}
	return e, nil
}
func (s *shifted) CountTokens(string) (int, error) { return 0, nil }
func (s *shifted) Info() Info                      { return s.info }

// TestKeepRuntime: another runtime is accepted where it gives the recorded vectors, and only there.
func TestKeepRuntime(t *testing.T) {
	path := filepath.Join(t.TempDir(), "runtime.json")
	of := func(library, digest string, by float32) *shifted {
		s := &shifted{by: by}
		s.info.Digest, s.info.Runtime = digest, Runtime{Library: library, Provider: "cpu", ISA: "avx2"}
		return s
	}
	for _, c := range []struct {
		name    string
		e       *shifted
		changed bool
		err     error
		calls   int
	}{
		{"the first one is recorded", of("a 1", "d", 0), false, nil, 1},
		{"the same one is not compared", of("a 1", "d", 1), false, nil, 0},
		{"another one that rounds otherwise", of("a 2", "d", 9e-6), true, nil, 1},
		{"the first one is still the one that counts", of("a 1", "d", 1), false, nil, 0},
		{"another one with other vectors", of("a 2", "d", 2e-5), true, ErrRuntime, 1},
		{"another encoder replaces the record", of("a 2", "e", 5), false, nil, 1},
		{"which then stands", of("a 1", "e", 0), true, ErrRuntime, 1},
		{"an encoder that names no runtime", &shifted{by: 7}, false, nil, 0},
	} {
		changed, err := KeepRuntime(t.Context(), path, c.e)
		if changed != c.changed || !errors.Is(err, c.err) || c.e.calls != c.calls {
			t.Errorf("%s: changed %t, %v, %d calls", c.name, changed, err, c.e.calls)
		}
	}
	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if changed, err := KeepRuntime(t.Context(), path, of("a 3", "e", 0)); changed || err != nil {
		t.Errorf("a damaged record: %t, %v", changed, err)
	}
	if changed, err := KeepRuntime(t.Context(), path, of("a 4", "e", 0)); !changed || err != nil {
		t.Errorf("it was not written anew: %t, %v", changed, err)
	}
}
