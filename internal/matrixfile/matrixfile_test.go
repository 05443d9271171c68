package matrixfile

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/internal/npy"
	"github.com/sluice-rag/sluice/internal/safetensors"
)

func write(t testing.TB, name string, parts ...[]byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, slices.Concat(parts...), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func open(t testing.TB, path, tensor string) *Source {
	t.Helper()
	s, err := Open(path, tensor)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// values are stored as each type holds them: 1, −2.5, 0, 65504 (the largest float16), 2⁻²⁴ (the smallest), −0.
var values = []float32{1, -2.5, 0, 65504, 0x1p-24, float32(math.Copysign(0, -1))}

func bits(dtype string) (b []byte) {
	for i, x := range values {
		switch dtype {
		case "<f2", "F16":
			b = binary.LittleEndian.AppendUint16(b, []uint16{0x3c00, 0xc100, 0, 0x7bff, 1, 0x8000}[i])
		case "BF16":
			b = binary.LittleEndian.AppendUint16(b, uint16(math.Float32bits(x)>>16))
		case "<f4", "F32":
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
		default:
			b = binary.LittleEndian.AppendUint64(b, math.Float64bits(float64(x)))
		}
	}
	return b
}

func TestSourceReadsEveryType(t *testing.T) {
	same := func(name string, s *Source, want []float32) {
		t.Helper()
		if s.Rows != 3 || s.Dim != 2 {
			t.Fatalf("%s: %d × %d", name, s.Rows, s.Dim)
		}
		for from := range 4 {
			for to := from; to <= 3; to++ {
				got, err := s.Block(from, to, make([]float32, 6))
				if err != nil ||
					!slices.EqualFunc(got, want[2*from:2*to],
						func(a, b float32) bool { return math.Float32bits(a) == math.Float32bits(b) }) {
					t.Errorf("%s: rows %d to %d are %v, want %v, %v", name, from, to, got, want[2*from:2*to], err)
				}
			}
		}
	}
	for _, dtype := range []string{"<f2", "<f4", "<f8"} {
		s := open(t, write(t, "x.npy", npy.MatrixHeader(dtype, 3, 2), bits(dtype)), "")
		same(dtype, s, values)
		if s.Direct() != (dtype == "<f4") || s.Rounds() != (dtype == "<f8") {
			t.Errorf("%s: direct %v, rounds %v", dtype, s.Direct(), s.Rounds())
		}
		head := strings.Replace(string(npy.MatrixHeader(dtype, 3, 2)), "False", "True ", 1)
		same(dtype+" by columns", open(t, write(t, "x.npy", []byte(head), bits(dtype)), ""),
			[]float32{values[0], values[3], values[1], values[4], values[2], values[5]})
	}
	for _, dtype := range []string{"F16", "BF16", "F32", "F64"} {
		want := slices.Clone(values)
		if dtype == "BF16" {
			want[3] = 65280 // the rest of 65504 is cut off
		}
		entries := []safetensors.Entry{
			{Name: "other", Tensor: safetensors.Tensor{DType: "U8", Shape: []int64{1}}}, // takes the alignment away
			{Name: "x", Tensor: safetensors.Tensor{DType: dtype, Shape: []int64{3, 2}}},
		}
		head, err := safetensors.Header(entries, nil)
		if err != nil {
			t.Fatal(err)
		}
		path := write(t, "x.safetensors", head, []byte{9}, bits(dtype))
		for _, tensor := range []string{"", "x"} {
			same(dtype, open(t, path, tensor), want)
		}
	}
}

// TestHalfIsExact goes over every float16 by its definition.
func TestHalfIsExact(t *testing.T) {
	for h := range 1 << 16 {
		sign, exponent, fraction := 1-2*float64(h>>15), h>>10&31, float64(h&1023)
		want := sign * math.Ldexp(1+fraction/1024, exponent-15)
		switch {
		case exponent == 0:
			want = sign * math.Ldexp(fraction, -24)
		case exponent == 31 && fraction == 0:
			want = sign * math.Inf(1)
		case exponent == 31:
			want = math.NaN()
		}
		got := float64(half(uint16(h)))
		if got != want && !(math.IsNaN(got) && math.IsNaN(want)) || math.Signbit(got) != math.Signbit(want) &&
			!math.IsNaN(want) {
			t.Fatalf("%#04x is %v, want %v", h, got, want)
		}
	}
}

func TestSourceRefuses(t *testing.T) {
	two := []safetensors.Entry{
		{Name: "a", Tensor: safetensors.Tensor{DType: "F32", Shape: []int64{1, 1}}},
		{Name: "b", Tensor: safetensors.Tensor{DType: "F16", Shape: []int64{2, 1}}},
		{Name: "c", Tensor: safetensors.Tensor{DType: "F32", Shape: []int64{1}}},
		{Name: "d", Tensor: safetensors.Tensor{DType: "I32", Shape: []int64{1, 1}}},
	}
	head, err := safetensors.Header(two, nil)
	if err != nil {
		t.Fatal(err)
	}
	several := write(t, "x.safetensors", head, make([]byte, 16))
	matrix := append(npy.MatrixHeader("<f4", 2, 2), make([]byte, 16)...)
	for name, c := range map[string]struct {
		path, tensor string
		want         error
		says         string
	}{
		"name":       {write(t, "x.bin", matrix), "", ErrName, "x.bin"},
		"absent":     {filepath.Join(t.TempDir(), "x.npy"), "", os.ErrNotExist, "x.npy"},
		"empty":      {write(t, "x.npy"), "", npy.ErrFormat, "no header"},
		"short":      {write(t, "x.npy", matrix[:len(matrix)-1]), "", npy.ErrFormat, "promises 2 × 2"},
		"not npy":    {write(t, "x.npy", head, make([]byte, 16)), "", npy.ErrFormat, "signature"},
		"empty st":   {write(t, "x.safetensors"), "", safetensors.ErrFormat, "0 bytes"},
		"short st":   {write(t, "x.safetensors", head, make([]byte, 15)), "a", safetensors.ErrFormat, "do not lie"},
		"no choice":  {several, "", ErrTensor, `"a", "b"`},
		"no tensor":  {several, "z", ErrTensor, `"a", "b", "c", "d"`},
		"vector":     {several, "c", ErrTensor, "1 dimensions [1], want 2"},
		"whole":      {several, "d", ErrTensor, "I32, want F32"},
		"wrong kind": {write(t, "x.npy", npy.MatrixHeader("<i8", 1, 1), make([]byte, 8)), "", npy.ErrKind, "<i8"},
	} {
		s, err := Open(c.path, c.tensor)
		if !errors.Is(err, c.want) || s != nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %v saying %q", name, err, c.want, c.says)
		}
	}
	if _, err := Open(t.TempDir()+"/.npy", ""); err == nil {
		t.Error("a missing file without a stem opens")
	}
	dir := filepath.Join(t.TempDir(), "x.npy")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir, ""); err == nil || !strings.Contains(err.Error(), "regular") {
		t.Errorf("a folder: %v", err)
	}
}

// TestSourceThatShrinks: a file cut while it is read is an error, not the end of the process.
func TestSourceThatShrinks(t *testing.T) {
	path := write(t, "x.npy", npy.MatrixHeader("<f4", 100, 1000), make([]byte, 400_000))
	s := open(t, path, "")
	if _, err := s.Block(99, 100, nil); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, 4096); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Block(99, 100, nil); !errors.Is(err, ErrChanged) ||
		!strings.Contains(err.Error(), "4096 bytes, it had 400128") {
		t.Errorf("%v", err)
	}
}

func TestNonFiniteNamesThePlace(t *testing.T) {
	data := func(fill func(i int) float64) (b []byte) {
		for i := range 12 {
			b = binary.LittleEndian.AppendUint64(b, math.Float64bits(fill(i)))
		}
		return b
	}
	large := func(i int) float64 {
		return map[bool]float64{true: -1e300, false: 1}[i == 7]
	}
	s := open(t, write(t, "x.npy", npy.MatrixHeader("<f8", 4, 3), data(large)), "")
	if row, col, v, found := s.NonFinite(1, 4); row != 2 || col != 1 || v != -1e300 || !found {
		t.Errorf("%d %d %v %v", row, col, v, found)
	}
	if _, _, _, found := s.NonFinite(0, 2); found {
		t.Error("found before it")
	}
	head := strings.Replace(string(npy.MatrixHeader("<f8", 4, 3)), "False", "True ", 1)
	s = open(t, write(t, "x.npy", []byte(head), data(large)), "")
	if row, col, _, found := s.NonFinite(0, 4); row != 3 || col != 1 || !found {
		t.Errorf("by columns: %d %d %v", row, col, found)
	}
}

func TestSinkWritesBlocks(t *testing.T) {
	dir := t.TempDir()
	arrays := []Array{{"ids", "I64", 5, 3}, {"scores", "F32", 5, 3}, {"none", "F64", 0, 3}}
	for path, want := range map[string][]string{
		"r.safetensors": {"r.safetensors"},
		"r.npy":         {"r.ids.npy", "r.scores.npy", "r.none.npy"},
	} {
		s, err := Create(filepath.Join(dir, path), map[string]string{"metric": "ip"}, arrays...)
		if err != nil {
			t.Fatal(err)
		}
		for row := range 5 { // the last first, columns apart
			row = 4 - row
			if err := errors.Join(Put(s, 0, row, 2, []int64{int64(row*10 + 2)}, 1),
				Put(s, 0, row, 0, []int64{int64(row * 10), int64(row*10 + 1)}, 2)); err != nil {
				t.Fatal(err)
			}
		}
		if err := errors.Join(Put(s, 1, 0, 0, make([]float32, 6), 3),
			Put(s, 1, 2, 0, []float32{.5, 1, 2, 3, 4, 5, 6, 7, 8}, 3), Put(s, 2, 0, 0, []float64{}, 3)); err != nil {
			t.Fatal(err)
		}
		if names := visible(t, dir); len(names) != 0 {
			t.Errorf("%v before the end", names)
		}
		if err := errors.Join(s.Commit(), s.Close()); err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, p := range s.Paths() {
			names = append(names, filepath.Base(p))
		}
		slices.Sort(names)
		if got := visible(t, dir); !slices.Equal(names, slices.Sorted(slices.Values(want))) ||
			!slices.Equal(got, names) {
			t.Errorf("%v there, %v said, want %v", got, names, want)
		}
		check(t, dir, path)
		for _, n := range names {
			if err := os.Remove(filepath.Join(dir, n)); err != nil {
				t.Fatal(err)
			}
		}
		if all, _ := os.ReadDir(dir); len(all) != 0 {
			t.Errorf("%v is left", all)
		}
	}
}

// check reads back what TestSinkWritesBlocks wrote.
func check(t *testing.T, dir, path string) {
	t.Helper()
	scores, tensor := filepath.Join(dir, "r.scores.npy"), ""
	if path == "r.safetensors" {
		scores, tensor = filepath.Join(dir, path), "scores"
	}
	s := open(t, scores, tensor)
	got, err := s.Block(1, 5, make([]float32, 12))
	if err != nil || fmt.Sprint(got) != "[0 0 0 0.5 1 2 3 4 5 6 7 8]" {
		t.Errorf("%s: scores %v, %v", path, got, err)
	}
	ids := filepath.Join(dir, "r.ids.npy")
	offset := len(npy.MatrixHeader("<i8", 5, 3))
	if tensor != "" {
		ids, offset = scores, len(s.whole)-60-120
	}
	b, err := os.ReadFile(ids)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 15 {
		if id := binary.LittleEndian.Uint64(b[offset+8*i:]); id != uint64(i/3*10+i%3) {
			t.Errorf("%s: id %d is %d", path, i, id)
		}
	}
}

func visible(t *testing.T, dir string) (names []string) {
	t.Helper()
	all, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range all {
		if !strings.HasPrefix(e.Name(), ".") {
			names = append(names, e.Name())
		}
	}
	return names
}

func TestSinkLeavesNothingBehind(t *testing.T) {
	dir := t.TempDir()
	s, err := Create(filepath.Join(dir, "x.npy"), nil, Array{"scores", "F32", 10, 10})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(Put(s, 0, 0, 0, make([]float32, 10), 10), s.Close()); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "folder.npy"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, says := range map[string]string{
		"x.txt": "neither", "folder.npy": "not a regular file", "gone/x.npy": "no such file",
	} {
		if _, err := Create(filepath.Join(dir, name), nil, Array{"scores", "F32", 1, 1}); err == nil ||
			!strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, path := range []string{"x.npy", "x.safetensors"} {
		if _, err := Create(filepath.Join(dir, path), nil, Array{"scores", "F32", math.MaxInt / 4, 8}); err == nil {
			t.Errorf("%s: more than 64 bits of bytes", path)
		}
		if _, err := Create(filepath.Join(dir, path), nil, Array{"scores", "F32", 1 << 40, 1 << 15}); err == nil {
			t.Errorf("%s: 131072 TiB are there", path)
		}
	}
	if all, _ := os.ReadDir(dir); len(all) != 1 {
		t.Errorf("%v is left", all)
	}
}
