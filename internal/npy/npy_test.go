package npy

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
)

// The first 128 bytes of what NumPy 2 writes for np.save(f, np.array([0.5, -1.25, 3e300])) and for
// np.save(f, np.array([[1, 2], [3, 4], [5, 6.5]], np.float32)).
const (
	goldenF8 = "934e554d5059010076007b276465736372273a20273c6638272c2027666f727472616e5f6f72646572273a2046616c73652c20277368617065273a2028332c292c207d2020202020202020202020202020202020202020202020202020202020202020202020202020202020202020202020202020202020202020202020200a"
	goldenF4 = "934e554d5059010076007b276465736372273a20273c6634272c2027666f727472616e5f6f72646572273a2046616c73652c20277368617065273a2028332c2032292c207d202020202020202020202020202020202020202020202020202020202020202020202020202020202020202020202020202020202020202020200a"
)

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// file builds an .npy by hand, so that the reader is not only tested against the writer.
func file(major, minor byte, dict string, data ...byte) []byte {
	b := append([]byte(magic), major, minor)
	if major == 1 {
		b = binary.LittleEndian.AppendUint16(b, uint16(len(dict)))
	} else {
		b = binary.LittleEndian.AppendUint32(b, uint32(len(dict)))
	}
	return append(append(b, dict...), data...)
}

func TestWriteIsWhatNumPyWrites(t *testing.T) {
	var b bytes.Buffer
	v := []float64{.5, -1.25, 3e300}
	if err := WriteFloat64(&b, v); err != nil {
		t.Fatal(err)
	}
	want := unhex(t, goldenF8)
	for _, x := range v {
		want = binary.LittleEndian.AppendUint64(want, math.Float64bits(x))
	}
	if !bytes.Equal(b.Bytes(), want) {
		t.Errorf("float64:\n%q\nwant\n%q", b.Bytes(), want)
	}
	b.Reset()
	m := []float32{1, 2, 3, 4, 5, 6.5}
	if err := WriteFloat32(&b, m, 3, 2); err != nil {
		t.Fatal(err)
	}
	want = unhex(t, goldenF4)
	for _, x := range m {
		want = binary.LittleEndian.AppendUint32(want, math.Float32bits(x))
	}
	if !bytes.Equal(b.Bytes(), want) {
		t.Errorf("float32:\n%q\nwant\n%q", b.Bytes(), want)
	}
}

func TestRoundTrip(t *testing.T) {
	for _, n := range []int{0, 1, 7, block/8 - 1, block / 8, block/8 + 1, 3*block/8 + 5} {
		v := make([]float64, n)
		for i := range v {
			v[i] = math.Sin(float64(i)) * math.Pow(10, float64(i%600-300))
		}
		var b bytes.Buffer
		if err := WriteFloat64(&b, v); err != nil {
			t.Fatal(err)
		}
		if (b.Len()-8*n)%64 != 0 {
			t.Errorf("n=%d: data do not begin at a multiple of 64", n)
		}
		got, err := ReadFloat64(&b)
		if err != nil || !slices.Equal(got, v) {
			t.Errorf("n=%d: %d values back, error %v", n, len(got), err)
		}
	}
	for _, s := range [][2]int{{0, 384}, {1, 1}, {5, 0}, {100, 384}} {
		v := make([]float32, s[0]*s[1])
		for i := range v {
			v[i] = float32(i) / 3
		}
		var b bytes.Buffer
		if err := WriteFloat32(&b, v, s[0], s[1]); err != nil {
			t.Fatal(err)
		}
		got, rows, cols, err := ReadFloat32(&b)
		if err != nil || rows != s[0] || cols != s[1] || !slices.Equal(got, v) {
			t.Errorf("%v: %d × %d back, error %v", s, rows, cols, err)
		}
	}
}

func TestReadVersionsAndSpellings(t *testing.T) {
	data := binary.LittleEndian.AppendUint64(nil, math.Float64bits(2.5))
	for name, b := range map[string][]byte{
		"v1":                   file(1, 0, "{'descr': '<f8', 'fortran_order': False, 'shape': (1,), }\n", data...),
		"v2":                   file(2, 0, "{'descr': '<f8', 'fortran_order': False, 'shape': (1,), }\n", data...),
		"v3":                   file(3, 0, "{'descr': '<f8', 'fortran_order': False, 'shape': (1,), }\n", data...),
		"no trailing comma":    file(1, 0, "{'descr':'<f8','fortran_order':False,'shape':(1,)}", data...),
		"double quotes, order": file(1, 0, `{"shape": (1,), "fortran_order": False, "descr": "<f8"}`, data...),
	} {
		if v, err := ReadFloat64(bytes.NewReader(b)); err != nil || len(v) != 1 || v[0] != 2.5 {
			t.Errorf("%s: %v, %v", name, v, err)
		}
	}
}

func TestReadRefuses(t *testing.T) {
	dict := func(descr, order, shape string) string {
		return "{'descr': '" + descr + "', 'fortran_order': " + order + ", 'shape': " + shape + ", }"
	}
	eight := make([]byte, 8)
	for name, c := range map[string]struct {
		b    []byte
		want error
		says string
	}{
		"empty":          {nil, ErrFormat, "no header"},
		"text":           {[]byte("id,score\n1,2\n"), ErrFormat, "signature"},
		"version":        {file(4, 0, dict("<f8", "False", "(1,)"), eight...), ErrFormat, "4.0"},
		"minor version":  {file(1, 1, dict("<f8", "False", "(1,)"), eight...), ErrFormat, "1.1"},
		"short header":   {file(1, 0, dict("<f8", "False", "(1,)"))[:30], ErrFormat, "early"},
		"hostile length": {append([]byte(magic), 2, 0, 0xff, 0xff, 0xff, 0x7f), ErrFormat, "2147483647"},
		"no dictionary":  {file(1, 0, "descr"), ErrFormat, "no dictionary"},
		"missing key":    {file(1, 0, "{'descr': '<f8', 'shape': (1,)}", eight...), ErrFormat, "2 of the keys"},
		"unknown key": {file(1, 0, "{'descr': '<f8', 'fortran_order': False, 'shape': (1,), 'x': 1}", eight...),
			ErrFormat, `"x"`},
		"key twice": {file(1, 0, "{'descr': '<f8', 'descr': '<f8', 'shape': (1,)}", eight...), ErrFormat,
			"twice"},
		"negative shape": {file(1, 0, dict("<f8", "False", "(-1,)"), eight...), ErrFormat, "shape"},
		"shape overflow": {file(1, 0, dict("<f8", "False", "(99999999999999999999,)"), eight...), ErrFormat,
			"shape"},
		"after dictionary": {file(1, 0, dict("<f8", "False", "(1,)")+"x", eight...), ErrFormat,
			"after the dictionary"},
		"huge claim": {file(1, 0, dict("<f8", "False", "(9000000000000000000,)"), eight...), ErrFormat,
			"end in value 1"},
		"truncated":         {file(1, 0, dict("<f8", "False", "(2,)"), eight...), ErrFormat, "promises 2"},
		"trailing":          {file(1, 0, dict("<f8", "False", "(1,)"), make([]byte, 9)...), ErrFormat, "bytes after"},
		"big-endian":        {file(1, 0, dict(">f8", "False", "(1,)"), eight...), ErrKind, "big-endian"},
		"float32":           {file(1, 0, dict("<f4", "False", "(2,)"), eight...), ErrKind, "<f4"},
		"objects":           {file(1, 0, dict("|O", "False", "(1,)"), eight...), ErrKind, "|O"},
		"fortran":           {file(1, 0, dict("<f8", "True", "(1,)"), eight...), ErrKind, "Fortran"},
		"two-dimensional":   {file(1, 0, dict("<f8", "False", "(1, 1)"), eight...), ErrKind, "2 dimensions"},
		"scalar":            {file(1, 0, dict("<f8", "False", "()"), eight...), ErrKind, "0 dimensions"},
		"no comma in tuple": {file(1, 0, dict("<f8", "False", "(1 1)"), eight...), ErrFormat, "shape"},
	} {
		v, err := ReadFloat64(bytes.NewReader(c.b))
		if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, error %v; want %v saying %q", name, v, err, c.want, c.says)
		}
	}
	b := file(1, 0, dict("<f4", "False", "(4611686018427387904, 4)"))
	if _, _, _, err := ReadFloat32(bytes.NewReader(b)); !errors.Is(err, ErrFormat) ||
		!strings.Contains(err.Error(), "overflows") {
		t.Errorf("overflowing product: %v", err)
	}
	if err := WriteFloat32(&bytes.Buffer{}, make([]float32, 5), 2, 3); err == nil {
		t.Error("5 values written as 2 × 3")
	}
}

func FuzzRead(f *testing.F) {
	f.Add(append(unhex(f, goldenF8), make([]byte, 24)...))
	f.Add(append(unhex(f, goldenF4), make([]byte, 24)...))
	f.Add(file(2, 0, "{'descr': '<f8', 'fortran_order': False, 'shape': (9000000000000000000,), }", 1, 2, 3))
	f.Add(file(1, 0, `{"shape": (0,3), "fortran_order": True, "descr": ">f4"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		if v, err := ReadFloat64(bytes.NewReader(b)); err == nil {
			if len(v)*8 > len(b) {
				t.Fatalf("%d values out of %d bytes", len(v), len(b))
			}
			var out bytes.Buffer
			if err := WriteFloat64(&out, v); err != nil {
				t.Fatal(err)
			}
			if tail := len(v) * 8; !bytes.Equal(out.Bytes()[out.Len()-tail:], b[len(b)-tail:]) {
				t.Fatal("values do not come back bit by bit")
			}
		}
		if v, rows, cols, err := ReadFloat32(bytes.NewReader(b)); err == nil &&
			(len(v) != rows*cols || len(v)*4 > len(b)) {
			t.Fatalf("%d values, %d × %d, out of %d bytes", len(v), rows, cols, len(b))
		}
	})
}
