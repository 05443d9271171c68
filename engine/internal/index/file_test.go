package index

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-rag/sluice/engine/cores"
	"github.com/sluice-rag/sluice/engine/internal/device"
	"github.com/sluice-rag/sluice/engine/internal/testvectors"
	"github.com/sluice-rag/sluice/engine/internal/workers"
	"github.com/sluice-rag/sluice/internal/durable"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/cpu"
	"github.com/sluice-rag/sluice/kernels/cpu/scan"
)

func resources(t testing.TB, isa string) *device.Resources {
	t.Helper()
	k, err := cpu.Open(isa)
	if err != nil {
		t.Fatal(err)
	}
	return &device.Resources{Device: device.NewCPU(k), Host: k, Pool: &workers.Pool{Budget: cores.New(2), Threads: 2},
		MemLimit: 1 << 30}
}

// grown returns an index that has seen it all: rows at the start, appended ones with codes and without, deleted ones.
func grown(t testing.TB, r *device.Resources, v kernels.Vectors, metric kernels.Metric) *Index {
	t.Helper()
	ctx := context.Background()
	part := func(from, to int) kernels.Vectors {
		return kernels.Vectors{Data: v.Data[from*v.Dim : to*v.Dim], Rows: to - from, Dim: v.Dim}
	}
	n := v.Rows
	x, err := New(ctx, r, part(0, n/4), metric, Options{})
	if err == nil {
		err = errors.Join(x.Append(ctx, part(n/4, n-20)), x.Append(ctx, part(n-20, n-5)), x.Append(ctx, part(n-5, n)))
	}
	for _, row := range []int{0, 17, n / 2, n - 1} {
		err = errors.Join(err, x.Delete(row))
	}
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func saved(t testing.TB, x *Index) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := x.Save(context.Background(), &out); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func load(r *device.Resources, data []byte, v kernels.Vectors) (*Index, error) {
	return Load(context.Background(), r, bytes.NewReader(data), int64(len(data)), v, Options{})
}

// TestFile: what is loaded answers as what was saved, on every instruction set, and saves as the same bytes.
func TestFile(t *testing.T) {
	rng, ctx := rand.New(rand.NewPCG(5, 1)), context.Background()
	for _, metric := range []kernels.Metric{kernels.Cosine, kernels.IP, kernels.L2} {
		for _, dim := range []int{7, 70} {
			v, q := testvectors.Embeddings(rng, 6000, dim), testvectors.Embeddings(rng, 6, dim)
			x := grown(t, resources(t, ""), v, metric)
			want, err := x.TopK(ctx, q, 9, nil)
			if err != nil {
				t.Fatal(err)
			}
			data := saved(t, x)
			for _, isa := range cpu.Available() {
				r := resources(t, isa.String())
				y, err := load(r, data, v)
				if err != nil {
					t.Fatalf("%s: %v", isa, err)
				}
				got, err := y.TopK(ctx, q, 9, nil)
				if diff := cmp.Diff(want, got); diff != "" || err != nil {
					t.Errorf("%s %s: %v\n%s", metric, isa, err, diff)
				}
				a, b := x.Describe(), y.Describe()
				b.Kernel = a.Kernel
				if scan.Has(r.Host) && (a != b || !bytes.Equal(saved(t, y), data)) {
					t.Errorf("%s %s: %+v, was %+v, or other bytes", metric, isa, b, a)
				}
				if !scan.Has(r.Host) && (b.Chunks != 0 || b.Reason == "") {
					t.Errorf("%s without a scan: %+v", metric, b)
				}
				more := testvectors.Embeddings(rng, 3, dim) // it goes on as usual
				if err := errors.Join(y.Append(ctx, more), y.Delete(1)); err != nil || y.Rows() != 6003 ||
					y.Describe().Deleted != 5 {
					t.Errorf("%s %s: %+v, %v", metric, isa, y.Describe(), err)
				}
			}
		}
	}
}

// TestFileWithoutCodes: an index that was saved where nothing scans gets its codes where something does.
func TestFileWithoutCodes(t *testing.T) {
	v := testvectors.Embeddings(rand.New(rand.NewPCG(6, 1)), 3000, 20)
	data := saved(t, grown(t, resources(t, "go"), v, kernels.L2))
	r := resources(t, "")
	x, err := load(r, data, v)
	if err != nil {
		t.Fatal(err)
	}
	if d := x.Describe(); scan.Has(r.Host) && d.Chunks == 0 {
		t.Errorf("%+v", d)
	}
	if x, err = Load(context.Background(), r, bytes.NewReader(data), int64(len(data)), v,
		Options{Plain: true}); err != nil || x.Describe().Chunks != 0 {
		t.Errorf("codes that nobody asked for, %v", err)
	}
	empty, err := New(context.Background(), r, kernels.Vectors{}, kernels.IP, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if x, err = load(r, saved(t, empty), kernels.Vectors{}); err != nil || x.Rows() != 0 {
		t.Errorf("nothing: %v", err)
	}
}

// TestFileRefused: damaged files, other files and other vectors, by type.
func TestFileRefused(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 1))
	r, v := resources(t, ""), testvectors.Embeddings(rng, 1500, 9)
	data := saved(t, grown(t, r, v, kernels.L2))
	for n := 0; n < len(data); n += 1 + rng.IntN(len(data)/200) {
		if _, err := load(r, data[:n], v); !errors.Is(err, ErrFile) {
			t.Fatalf("%d of %d bytes: %v", n, len(data), err)
		}
		other := slices.Clone(data)
		other[n] ^= 1 << rng.IntN(8)
		if _, err := load(r, other, v); !errors.Is(err, ErrFile) && !errors.Is(err, ErrVectors) {
			t.Fatalf("byte %d of %d changed: %v", n, len(data), err)
		}
	}
	if _, err := load(r, append(slices.Clone(data), 0), v); !errors.Is(err, ErrFile) {
		t.Errorf("a byte more: %v", err)
	}
	if _, err := load(r, []byte(strings.Repeat("no index ", 99)), v); !errors.Is(err, ErrFile) {
		t.Errorf("something else: %v", err)
	}
	other := slices.Clone(v.Data)
	other[77]++
	for name, w := range map[string]kernels.Vectors{"one number": {Data: other, Rows: v.Rows, Dim: v.Dim},
		"fewer rows":      {Data: v.Data, Rows: v.Rows - 1, Dim: v.Dim},
		"other dimension": {Data: v.Data, Rows: v.Rows, Dim: 8, Stride: 9}} {
		if _, err := load(r, data, w); !errors.Is(err, ErrVectors) || errors.Is(err, ErrFile) {
			t.Errorf("%s: %v", name, err)
		}
	}
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Load(cancelled, r, bytes.NewReader(data), int64(len(data)), v,
		Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// TestFileHoldsEveryField fails if a field is added to the saved types, as a reminder to write it, or to note here
// that it need not be written, and to raise the version.
func TestFileHoldsEveryField(t *testing.T) {
	for kind, want := range map[reflect.Type]string{
		// units, chunks, visits, runs and length follow; a selection is not saved
		reflect.TypeFor[snapshot](): "model groups units chunks visits runs rows dim selected length unclustered dead",
		// places are found when asked for
		reflect.TypeFor[group](): "Operand first chunks centres leads locate where",
		reflect.TypeFor[chunk](): "Chunk rows shift radius term length half",
		reflect.TypeFor[model](): "reason sections scale origin rotation skew turned clusters centres profile",
	} {
		var names []string
		for i := range kind.NumField() {
			names = append(names, kind.Field(i).Name)
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%s has the fields %s; file.go knows %s", kind.Name(), got, want)
		}
	}
}

// FuzzFile: bytes that the checksum fits, whatever they are, are refused by type, or answer queries without harm.
func FuzzFile(f *testing.F) {
	rng := rand.New(rand.NewPCG(8, 1))
	r, v := resources(f, ""), testvectors.Embeddings(rng, 40, 5) // a short file
	q := testvectors.Embeddings(rng, 2, 5)
	for _, metric := range []kernels.Metric{kernels.Cosine, kernels.L2} {
		f.Add(saved(f, grown(f, r, v, metric)))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 4 {
			data = slices.Clone(data)
			body := data[:len(data)-4]
			binary.LittleEndian.PutUint32(data[len(body):], durable.Checksum(body))
		}
		x, err := load(r, data, v)
		if err != nil {
			if !errors.Is(err, ErrFile) && !errors.Is(err, ErrVectors) {
				t.Fatalf("no type: %v", err)
			}
			return
		}
		if _, err := x.TopK(context.Background(), q, 3, nil); err != nil {
			t.Fatal(err)
		}
	})
}
