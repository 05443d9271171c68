package npy

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestParseMatrix(t *testing.T) {
	data := []byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}
	head := "{'descr': '<f2', 'fortran_order': True, 'shape': (3, 2), }"
	m, err := ParseMatrix(file(1, 0, head, data...))
	if err != nil || m.Rows != 3 || m.Cols != 2 || m.DType != "<f2" || !m.Fortran || !bytes.Equal(m.Data, data) {
		t.Errorf("%+v, %v", m, err)
	}
	for shape, size := range map[string]int{"(0, 5)": 0, "(5, 0)": 0, "(1, 1)": 8} {
		if m, err := ParseMatrix(file(2, 0, "{'descr': '<f8', 'fortran_order': False, 'shape': "+shape+"}",
			make([]byte, size)...)); err != nil || len(m.Data) != size {
			t.Errorf("%s: %+v, %v", shape, m, err)
		}
	}
}

func TestParseMatrixRefuses(t *testing.T) {
	dict := func(descr, shape string) string {
		return "{'descr': '" + descr + "', 'fortran_order': False, 'shape': " + shape + ", }"
	}
	for name, c := range map[string]struct {
		b    []byte
		want error
		says string
	}{
		"empty":   {nil, ErrFormat, "no header"},
		"hostile": {append([]byte(magic), 3, 0, 0xff, 0xff, 0xff, 0xff), ErrFormat, "4294967295"},
		"long":    {append([]byte(magic), 1, 0, 200, 0, '{'), ErrFormat, "early"},
		"truncated": {file(1, 0, dict("<f4", "(2, 2)"), make([]byte, 15)...), ErrFormat,
			"promises 2 × 2 values of 4 bytes, 16 in all; 15 bytes follow"},
		"trailing":   {file(1, 0, dict("<f4", "(2, 2)"), make([]byte, 17)...), ErrFormat, "17 bytes follow"},
		"overflow":   {file(1, 0, dict("<f4", "(4611686018427387904, 4)")), ErrFormat, "overflows"},
		"overflow 2": {file(1, 0, dict("<f8", "(9223372036854775807, 1)")), ErrFormat, "overflows"},
		"big-endian": {file(1, 0, dict(">f4", "(1, 1)"), make([]byte, 4)...), ErrKind, "big-endian"},
		"integers":   {file(1, 0, dict("<i4", "(1, 1)"), make([]byte, 4)...), ErrKind, "type <i4, want <f4"},
		"objects":    {file(1, 0, dict("|O", "(1, 1)"), make([]byte, 8)...), ErrKind, "|O"},
		"vector":     {file(1, 0, dict("<f4", "(2,)"), make([]byte, 8)...), ErrKind, "1 dimensions [2], want 2"},
		"cube":       {file(1, 0, dict("<f4", "(1, 1, 1)"), make([]byte, 4)...), ErrKind, "3 dimensions"},
	} {
		if _, err := ParseMatrix(c.b); !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %v saying %q", name, err, c.want, c.says)
		}
	}
}

// TestNumPyAgrees: NumPy reads what MatrixHeader begins, and ParseMatrix what NumPy writes.
func TestNumPyAgrees(t *testing.T) {
	python := os.Getenv("SLUICE_TEST_PYTHON")
	python = cmp.Or(python, "../../third_party/python/bin/python3")
	if err := exec.Command(python, "-c", "import numpy").Run(); err != nil {
		t.Skipf("SKIP: no Python with NumPy (make test sets it up): %v", err)
	}
	dir := t.TempDir()
	b := MatrixHeader("<i8", 2, 1)
	for _, id := range []uint64{3, 1 << 41} {
		b = binary.LittleEndian.AppendUint64(b, id)
	}
	if err := os.WriteFile(filepath.Join(dir, "ids.npy"), b, 0o600); err != nil {
		t.Fatal(err)
	}
	const script = `import sys, numpy as np
d = sys.argv[1]
print(np.load(d + "/ids.npy").tolist())
x = np.arange(6, dtype=np.float16).reshape(2, 3) - 2.5
np.save(d + "/half.npy", x); np.save(d + "/fortran.npy", np.asfortranarray(x.astype(np.float64)))`
	out, err := exec.Command(python, "-c", script, dir).CombinedOutput()
	if err != nil || string(out) != "[[3], [2199023255552]]\n" {
		t.Fatalf("%v: %s", err, out)
	}
	for name, want := range map[string]Matrix{"half": {DType: "<f2"}, "fortran": {DType: "<f8", Fortran: true}} {
		b, err := os.ReadFile(filepath.Join(dir, name+".npy"))
		if err != nil {
			t.Fatal(err)
		}
		m, err := ParseMatrix(b)
		if err != nil || m.Rows != 2 || m.Cols != 3 || m.DType != want.DType || m.Fortran != want.Fortran {
			t.Errorf("%s: %+v, %v", name, m, err)
		}
		if name == "fortran" && math.Float64frombits(binary.LittleEndian.Uint64(m.Data[8:])) != .5 {
			t.Error("column 0 is not first")
		}
	}
}

func FuzzParseMatrix(f *testing.F) {
	f.Add(append(unhex(f, goldenF4), make([]byte, 24)...))
	f.Add(file(1, 0, "{'descr': '<f2', 'fortran_order': True, 'shape': (4611686018427387904, 4)}"))
	f.Add(file(3, 0, "{'descr': '<f8', 'fortran_order': False, 'shape': (0, 9)}"))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := ParseMatrix(b)
		if err != nil {
			if !errors.Is(err, ErrFormat) && !errors.Is(err, ErrKind) {
				t.Fatal(err)
			}
			return
		}
		width := int(m.DType[2] - '0')
		if m.Rows < 0 || m.Cols < 0 || m.Rows*m.Cols*width != len(m.Data) || len(m.Data) > len(b) {
			t.Fatalf("%+v out of %d bytes", m, len(b))
		}
	})
}
