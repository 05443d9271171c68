package gate

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/internal/npy"
	"github.com/sluice-rag/sluice/kernels"
)

func saved(t testing.TB) (path string, c *Calibration, positive []float64) {
	t.Helper()
	c, positive, err := Calibrate(t.Context(), newEngine(t), input(20, 3, 4, 8))
	if err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(t.TempDir(), "base.cal.json")
	if err := c.Save(path, positive); err != nil {
		t.Fatal(err)
	}
	return path, c, positive
}

func names(t *testing.T, path string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func TestRoundTrip(t *testing.T) {
	path, c, positive := saved(t)
	got, d, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(d, positive) || !reflect.DeepEqual(got, c) {
		t.Errorf("loaded %+v\nsaved %+v", got, c)
	}
	if want := []string{"base.cal.json", c.OtherFile, c.MaximumFile, c.OwnerFile,
		c.PositiveFile}; !slices.Equal(sortedNames(want), names(t, path)) {
		t.Errorf("files %q, want %q", names(t, path), want)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm()&0o444 == 0 {
		t.Errorf("permissions %v, %v", info.Mode(), err)
	}
	f, err := os.Open(filepath.Join(filepath.Dir(path), c.PositiveFile))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if v, err := npy.ReadFloat64(f); err != nil || !slices.Equal(v, positive) {
		t.Errorf("D+ as .npy: %d values, %v", len(v), err)
	}
	// A loaded artifact can be given any policy, as the calibration itself.
	want, err := c.WithPolicy("median", "", .1)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := got.WithPolicy("median", "", .1); err != nil || !reflect.DeepEqual(again, want) {
		t.Errorf("policy after loading: %+v, %v; want %+v", again, err, want)
	}
	// The reviewable part is what the design names.
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{`"positive": {`, `"metric": "cosine"`, `"policy": "maximum:p5"`,
		`"positive_file": "base.cal.positive.`, `"separation": `, `"bootstrap": {`, `"holdout": {`} {
		if !bytes.Contains(text, []byte(key)) {
			t.Errorf("no %s in the artifact", key)
		}
	}
}

func sortedNames(v []string) []string { slices.Sort(v); return v }

func TestSaveReplaces(t *testing.T) {
	path, c, positive := saved(t)
	in := input(20, 3, 4, 8)
	in.Metric = kernels.L2
	second, d, err := Calibrate(t.Context(), newEngine(t), in)
	if err != nil {
		t.Fatal(err)
	}
	neighbour := filepath.Join(filepath.Dir(path), "base2.cal.json")
	if err := c.Save(neighbour, positive); err != nil {
		t.Fatal(err)
	}
	if err := second.Save(path, d); err != nil {
		t.Fatal(err)
	}
	if got, _, err := Load(path); err != nil || got.Metric != kernels.L2 {
		t.Errorf("replaced by %+v, %v", got, err)
	}
	if got, _, err := Load(neighbour); err != nil || got.Metric != kernels.Cosine {
		t.Errorf("a neighbour became %+v, %v", got, err)
	}
	if n := len(names(t, path)); n != 10 {
		t.Errorf("%d files of two artifacts: %q", n, names(t, path))
	}
	// A save that fails leaves the old one.
	bad := *second
	bad.Cutoff++
	if err := bad.Save(path, d); err == nil || !strings.Contains(err.Error(), "cut-off") {
		t.Errorf("an inconsistent calibration was saved: %v", err)
	}
	if err := second.Save(path, d[1:]); err == nil {
		t.Error("a shortened D+ was saved")
	}
	if got, _, err := Load(path); err != nil || got.Metric != kernels.L2 {
		t.Errorf("after failed saves: %+v, %v", got, err)
	}
	if err := c.Save(filepath.Join(t.TempDir(), "absent", "x.cal.json"), positive); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("folder absent: %v", err)
	}
}

func TestLoadRefuses(t *testing.T) {
	path, c, _ := saved(t)
	dir := filepath.Dir(path)
	original, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	edit := func(change func(map[string]any)) []byte {
		m := map[string]any{}
		if err := json.Unmarshal(original, &m); err != nil {
			t.Fatal(err)
		}
		change(m)
		text, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	set := func(key string, v any) []byte { return edit(func(m map[string]any) { m[key] = v }) }
	for name, c := range map[string]struct {
		text []byte
		says string
	}{
		"empty":             {nil, "JSON"},
		"truncated":         {original[:len(original)/2], "JSON"},
		"more after it":     {append(slices.Clone(original), "{}"...), "after top-level value"},
		"newer schema":      {edit(func(m map[string]any) { m["schema"], m["new key"] = 6, 1 }), "schema version 6"},
		"older schema":      {set("schema", 4), "schema version 4, this program reads 5"},
		"no schema":         {edit(func(m map[string]any) { delete(m, "schema") }), "schema version 0"},
		"unknown key":       {set("polcy", "p5"), "polcy"},
		"metric":            {set("metric", "hamming"), "hamming"},
		"policy":            {set("policy", "p500"), "p500"},
		"policy changed":    {set("policy", "maximum:p6"), "policy_value says"},
		"negatives":         {set("negatives", "few"), "few"},
		"threshold changed": {set("threshold", .5), "does not follow"},
		"cut-off changed":   {set("cutoff", .5), "does not follow"},
		"P and cut-off": {edit(func(m map[string]any) { m["policy_value"], m["cutoff"] = .25, .25 }),
			"policy_value says 0.25"},
		"number too large": {bytes.Replace(original, []byte(`"threshold": 0`), []byte(`"threshold": 1e999`), 1),
			"1e999"},
		"not a number": {bytes.Replace(original, []byte(`"threshold": 0`), []byte(`"threshold": NaN`), 1),
			"invalid character"},
		"statistics": {edit(func(m map[string]any) { m["positive"].(map[string]any)["median"] = 5 }),
			"positive"},
		"count": {edit(func(m map[string]any) { m["positive"].(map[string]any)["n"] = 61 }), "counts 61"},
		"dimension": {edit(func(m map[string]any) { m["encoder"].(map[string]any)["dim"] = 0 }),
			"dimension 0"},
		"digests":       {set("context_digests", "AAAA"), "context_digests"},
		"histogram":     {set("negative_histogram", []int{1, -1}), "histogram"},
		"no D+":         {set("positive_file", ""), "positive_file"},
		"no maximum":    {set("maximum_file", ""), "without its distribution"},
		"path":          {set("positive_file", "../x.positive.0123456789abcdef.npy"), "not the name"},
		"absolute path": {set("positive_file", "/etc/x.positive.0123456789abcdef.npy"), "not the name"},
		"any file":      {set("positive_file", "base.cal.json"), "not the name"},
		"missing file":  {set("positive_file", "y.positive.0123456789abcdef.npy"), "no such file"},
		"bootstrap resamples": {edit(func(m map[string]any) { m["bootstrap"].(map[string]any)["resamples"] = -1 }),
			"bootstrap"},
	} {
		if err := os.WriteFile(path, c.text, 0o600); err != nil {
			t.Fatal(err)
		}
		if got, _, err := Load(path); !errors.Is(err, ErrArtifact) || !strings.Contains(err.Error(), c.says) ||
			!strings.Contains(err.Error(), path) {
			t.Errorf("%s: %+v, %v; want %q", name, got, err, c.says)
		}
	}
	if err := os.WriteFile(path, original, 0o600); err != nil {
		t.Fatal(err)
	}
	scores := filepath.Join(dir, c.PositiveFile)
	data, err := os.ReadFile(scores)
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func([]byte) []byte{
		"one bit":    func(b []byte) []byte { b[len(b)-3] ^= 1; return b },
		"truncated":  func(b []byte) []byte { return b[:len(b)-8] },
		"emptied":    func([]byte) []byte { return nil },
		"lengthened": func(b []byte) []byte { return append(b, 0) },
	} {
		if err := os.WriteFile(scores, change(slices.Clone(data)), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, _, err := Load(path); !errors.Is(err, ErrArtifact) || !strings.Contains(err.Error(), c.PositiveFile) {
			t.Errorf("D+ %s: %v", name, err)
		}
	}
	if err := os.Remove(scores); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Load(path); !errors.Is(err, ErrArtifact) || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("D+ removed: %v", err)
	}
	if _, _, err := Load(filepath.Join(dir, "none.cal.json")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no artifact: %v", err)
	}
}

// TestLoadRefusesScores: score files that are what their name says, and wrong all the same.
func TestLoadRefusesScores(t *testing.T) {
	path, c, positive := saved(t)
	original, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, x := range map[string]struct {
		kind, old string
		scores    []float64
		says      string
	}{
		"not a number": {"positive", c.PositiveFile, append(slices.Clone(positive[1:]), math.NaN()), "NaN"},
		"too few":      {"maximum", c.MaximumFile, positive[1:], "59 scores"},
		"owner":        {"owner", c.OwnerFile, append(make([]float64, len(positive)-1), .5), "row number"},
	} {
		file, err := writeScores(path, x.kind, x.scores)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, bytes.Replace(original, []byte(x.old), []byte(file), 1), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, _, err := Load(path); !errors.Is(err, ErrArtifact) || !strings.Contains(err.Error(), x.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// FuzzLoad: whatever the JSON says, Load returns an error or a calibration that a gate can be made of.
func FuzzLoad(f *testing.F) {
	path, _, _ := saved(f)
	original, err := os.ReadFile(path)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(original)
	f.Add([]byte(`{"schema":1}`))
	f.Add([]byte(`{"schema":5,"future":true}`))
	f.Add(bytes.Replace(original, []byte(`"cosine"`), []byte(`"l2"`), 1))
	f.Add(bytes.Replace(original, []byte(`"n": 60`), []byte(`"n": -1`), 1))
	f.Add(bytes.Replace(original, []byte(`maximum:p5`), []byte(`p5`), 1))
	fuzzed := filepath.Join(filepath.Dir(path), "fuzzed.cal.json")
	f.Fuzz(func(t *testing.T, text []byte) {
		if err := os.WriteFile(fuzzed, text, 0o600); err != nil {
			t.Fatal(err)
		}
		c, positive, err := Load(fuzzed)
		if err != nil {
			if !errors.Is(err, ErrArtifact) {
				t.Fatal(err)
			}
			return
		}
		if _, err := New(c, positive,
			Use{Encoder: c.Encoder, Metric: c.Metric, TextDigests: digests(0)}); err != nil {
			t.Fatal(err)
		}
		if _, err := c.WithPolicy("p5", "", 0); err != nil {
			t.Fatal(err)
		}
	})
}
