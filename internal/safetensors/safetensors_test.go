package safetensors

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// frame puts a header's length before it and the data after it.
func frame(header, data []byte) []byte {
	out := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(out, header...), data...)
}

// TestGolden reads bytes put together from the format's description, as its reference implementation writes them.
func TestGolden(t *testing.T) {
	const header = `{"__metadata__":{"made":"by hand"},"b":{"dtype":"I64","shape":[],"data_offsets":[0,8]},` +
		`"a":{"dtype":"BF16","shape":[2,3],"data_offsets":[8,20]}}       `
	raw := append([]byte{151, 0, 0, 0, 0, 0, 0, 0}, header...)
	raw = append(raw, make([]byte, 20)...)
	got, err := ReadHeader(bytes.NewReader(raw), int64(len(raw)))
	want := map[string]Tensor{
		"a": {DType: "BF16", Shape: []int64{2, 3}, Offset: 167, Length: 12},
		"b": {DType: "I64", Shape: []int64{}, Offset: 159, Length: 8},
	}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v: %s", err, diff)
	}
}

func TestHeaderRoundTrip(t *testing.T) {
	entries := []Entry{
		{"ids", Tensor{DType: "I64", Shape: []int64{3, 2}}},
		{"none", Tensor{DType: "F32", Shape: []int64{0, 7}}},
		{`a "name" / ü`, Tensor{DType: "F64", Shape: []int64{3, 2}}},
	}
	head, err := Header(entries, map[string]string{"metric": "l2"})
	if err != nil {
		t.Fatal(err)
	}
	if len(head)%64 != 0 || binary.LittleEndian.Uint64(head) != uint64(len(head)-8) || !json.Valid(head[8:]) {
		t.Errorf("%d bytes of header: %q", len(head), head)
	}
	raw := append(head, make([]byte, 96)...)
	got, err := ReadHeader(bytes.NewReader(raw), int64(len(raw)))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if diff := cmp.Diff(e.Tensor, got[e.Name]); diff != "" {
			t.Errorf("%s: %s", e.Name, diff)
		}
	}
	for name, e := range map[string]Entry{
		"type":     {"x", Tensor{DType: "F31", Shape: []int64{1}}},
		"shape":    {"x", Tensor{DType: "F32", Shape: []int64{-1}}},
		"overflow": {"x", Tensor{DType: "F32", Shape: []int64{math.MaxInt64 / 2}}},
	} {
		if _, err := Header([]Entry{e}, nil); err == nil {
			t.Errorf("%s: written", name)
		}
	}
	two := []Entry{{"x", Tensor{DType: "U8", Shape: []int64{math.MaxInt64}}},
		{"y", Tensor{DType: "U8", Shape: []int64{1}}}}
	if _, err := Header(two, nil); err == nil {
		t.Error("a sum beyond 64 bits is written")
	}
}

// TestReferenceReadsIt has the format's own library read what Header begins.
func TestReferenceReadsIt(t *testing.T) {
	python := os.Getenv("SLUICE_TEST_PYTHON")
	if python == "" {
		python = "../../third_party/python/bin/python3"
	}
	if err := exec.Command(python, "-c", "import numpy, safetensors").Run(); err != nil {
		t.Skipf("SKIP: no Python with numpy and safetensors (make test sets it up): %v", err)
	}
	entries := []Entry{{"ids", Tensor{DType: "I64", Shape: []int64{1, 2}}},
		{"scores", Tensor{DType: "F32", Shape: []int64{2, 1}}}}
	head, err := Header(entries, map[string]string{"metric": "ip"})
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []uint64{7, 1 << 40} {
		head = binary.LittleEndian.AppendUint64(head, id)
	}
	for _, score := range []float32{.5, -3} {
		head = binary.LittleEndian.AppendUint32(head, math.Float32bits(score))
	}
	path := filepath.Join(t.TempDir(), "x.safetensors")
	if err := os.WriteFile(path, head, 0o600); err != nil {
		t.Fatal(err)
	}
	const script = `import sys, safetensors
with safetensors.safe_open(sys.argv[1], "np") as f:
    print(f.metadata(), f.get_tensor("ids").tolist(), f.get_tensor("scores").tolist())`
	out, err := exec.Command(python, "-c", script, path).CombinedOutput()
	if want := "{'metric': 'ip'} [[7, 1099511627776]] [[0.5], [-3.0]]\n"; err != nil || string(out) != want {
		t.Errorf("%v: %s, want %s", err, out, want)
	}
}

func TestHeaderRefuses(t *testing.T) {
	const one = `"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}`
	ok := func(header string, data int) error {
		raw := frame([]byte(header), make([]byte, data))
		_, err := ReadHeader(bytes.NewReader(raw), int64(len(raw)))
		return err
	}
	if err := ok(`{"__metadata__":{"format":"pt"},`+one+`}   `, 8); err != nil {
		t.Fatal(err)
	}
	if err := ok(`{"e":{"dtype":"F32","shape":[0],"data_offsets":[0,0]},`+one+`}`, 8); err != nil {
		t.Errorf("an empty tensor: %v", err)
	}
	for name, c := range map[string]struct {
		header string
		data   int
		want   string
	}{
		"empty":          {"", 0, "object"},
		"array":          {"[]", 0, "object"},
		"twice":          {"{" + one + "," + one + "}", 8, "twice"},
		"behind":         {"{" + one + "} x", 8, "after the JSON"},
		"unknown key":    {`{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8],"x":1}}`, 8, `"x"`},
		"unknown dtype":  {`{"a":{"dtype":"F31","shape":[2],"data_offsets":[0,8]}}`, 8, "F31"},
		"negative shape": {`{"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}}`, 8, "negative"},
		"overflow": {`{"a":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,8]}}`, 8,
			"too large"},
		"float":           {`{"a":{"dtype":"F32","shape":[2.5],"data_offsets":[0,8]}}`, 8, "2.5"},
		"three offsets":   {`{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8,9]}}`, 8, "two expected"},
		"no offsets":      {`{"a":{"dtype":"F32","shape":[2]}}`, 8, "two expected"},
		"backwards":       {`{"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}}`, 8, "do not lie"},
		"negative offset": {`{"a":{"dtype":"F32","shape":[2],"data_offsets":[-8,0]}}`, 8, "do not lie"},
		"beyond":          {"{" + one + "}", 4, "do not lie"},
		"size":            {`{"a":{"dtype":"F16","shape":[2],"data_offsets":[0,8]}}`, 8, "need 4"},
		"overlap": {"{" + one + `,"b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}}`, 12,
			"gap or overlap"},
		"gap": {"{" + one + `,"b":{"dtype":"F32","shape":[1],"data_offsets":[12,16]}}`, 16,
			"gap or overlap"},
		"bytes left":       {"{" + one + "}", 9, "the file at"},
		"metadata":         {`{"__metadata__":{"a":1},` + one + "}", 8, "__metadata__"},
		"not closed":       {"{" + one, 8, "header"},
		"infinite nesting": {strings.Repeat(`{"a":`, 20000), 0, "header"},
	} {
		if err := ok(c.header, c.data); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, ErrFormat with %q expected", name, err, c.want)
		}
	}
	for _, n := range []uint64{9, maxHeader + 1, 1 << 62, math.MaxUint64} {
		raw := []byte{byte(n), byte(n >> 8), byte(n >> 16), byte(n >> 24), byte(n >> 32), byte(n >> 40), byte(n >> 48),
			byte(n >> 56), '{', '}'}
		if _, err := ReadHeader(bytes.NewReader(raw), int64(len(raw))); !errors.Is(err, ErrFormat) {
			t.Errorf("a length of %d: %v", n, err)
		}
	}
}

func FuzzReadHeader(f *testing.F) {
	f.Add(frame([]byte(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}`), make([]byte, 8)))
	f.Add(frame([]byte(`{"a":{"dtype":"F32","shape":[9223372036854775807,2],"data_offsets":[0,8]}}`), nil))
	f.Add([]byte{255, 255, 255, 255, 255, 255, 255, 127, '{'})
	f.Fuzz(func(t *testing.T, raw []byte) {
		tensors, err := ReadHeader(bytes.NewReader(raw), int64(len(raw)))
		if err != nil {
			if !errors.Is(err, ErrFormat) {
				t.Fatal(err)
			}
			return
		}
		for name, x := range tensors {
			if x.Offset < 8 || x.Length < 0 || x.Offset+x.Length > int64(len(raw)) {
				t.Fatalf("tensor %q at %d, %d bytes, in a file of %d", name, x.Offset, x.Length, len(raw))
			}
		}
	})
}
