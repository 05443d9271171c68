package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-rag/sluice/internal/matrixfile"
	"github.com/sluice-rag/sluice/internal/npy"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/ref"
)

// gaussian returns rows of random numbers that float16 holds exactly.
func gaussian(seed uint64, n, dim int) [][]float32 {
	rng := rand.New(rand.NewPCG(seed, 1))
	rows := make([][]float32, n)
	for i := range rows {
		rows[i] = make([]float32, dim)
		for k := range rows[i] {
			rows[i][k] = float32(math.Round(rng.NormFloat64()*64) / 64)
		}
	}
	if n > 3 {
		copy(rows[n-1], rows[1]) // equal scores
	}
	return rows
}

// npyFile writes rows as float32.
func (b *bench) npyFile(name string, rows [][]float32) string {
	b.t.Helper()
	var f bytes.Buffer
	if err := npy.WriteFloat32(&f, slices.Concat(rows...), len(rows), len(rows[0])); err != nil {
		b.t.Fatal(err)
	}
	return b.file(name, f.String())
}

// stored reads the values of an array that the command wrote.
func stored[T matrixfile.Number](t *testing.T, path string, offset, n int) []T {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	v := make([]T, n)
	if err := binary.Read(bytes.NewReader(raw[offset:]), binary.LittleEndian, v); err != nil {
		t.Fatal(err)
	}
	return v
}

func head(descr string, rows, cols int) int { return len(npy.MatrixHeader(descr, rows, cols)) }

// TestMatrixWritesScores checks every metric and type, in one block and in many, in both formats.
func TestMatrixWritesScores(t *testing.T) {
	b := newBench(t)
	const m, n, dim = 90, 700, 48
	x, y := gaussian(1, m, dim), gaussian(2, n, dim)
	a, c := b.npyFile("a.npy", x), b.npyFile("c.npy", y)
	for _, metric := range []kernels.Metric{kernels.Cosine, kernels.IP, kernels.L2} {
		for _, dtype := range []string{"exact", "f32", "bf16x3", "bf16", "i8"} {
			for _, memory := range []string{"1", "1024"} {
				out := filepath.Join(b.dir, "out.npy")
				o := b.run("matrix", a, c, "--metric", metric.String(), "--dtype", dtype, "--memory", memory, "--out",
					out, "--json")
				if dtype != "exact" && dtype != "f32" && o.code == exitUsage &&
					strings.Contains(o.stderr, kernels.ErrISA.Error()) {
					t.Logf("SKIP %s: %s", dtype, o.stderr)
					continue
				}
				if o.code != exitOK {
					t.Fatalf("%s %s: %+v", metric, dtype, o)
				}
				report := objects(t, o.stdout)[0]
				sameKeys(t, "matrix", report, "rows", "cols", "dim", "metric", "dtype", "bound", "seconds",
					"pairs_per_s", "isa", "out")
				bound, bounded := report["bound"].(float64)
				if bounded == (dtype == "exact") || bound < 0 || report["dtype"] != dtype ||
					fmt.Sprint(report["out"]) != "["+out+"]" {
					t.Errorf("%v", report)
				}
				got := stored[float32](t, out, head("<f4", m, n), m*n)
				for i := range x {
					for j := range y {
						want, s := ref.Score(metric, x[i], y[j]), got[i*n+j]
						if dtype == "exact" && s != float32(want) || math.Abs(float64(s)-want) > bound && bounded {
							t.Fatalf("%s %s: [%d][%d] is %v, want %v within %v", metric, dtype, i, j, s, want, bound)
						}
					}
				}
			}
		}
	}
}

// TestMatrixReadsFormats checks that every type and order of the same values gives the same scores.
func TestMatrixReadsFormats(t *testing.T) {
	b := newBench(t)
	const m, n, dim = 5, 4, 6
	x, y := gaussian(3, m, dim), gaussian(4, n, dim)
	a, c := b.npyFile("a.npy", x), b.npyFile("c.npy", y)
	out := filepath.Join(b.dir, "want.npy")
	b.ok("matrix", a, c, "--dtype", "exact", "--metric", "l2", "--out", out)
	want := stored[float32](t, out, head("<f4", m, n), m*n)

	var double, columns bytes.Buffer
	double.Write(npy.MatrixHeader("<f8", m, dim))
	columns.WriteString(strings.Replace(string(npy.MatrixHeader("<f4", m, dim)), "False", "True ", 1))
	for _, v := range slices.Concat(x...) {
		_ = binary.Write(&double, binary.LittleEndian, float64(v))
	}
	for k := range dim {
		for i := range m {
			_ = binary.Write(&columns, binary.LittleEndian, x[i][k])
		}
	}
	contexts := filepath.Join(b.dir, "c.safetensors")
	sink, err := matrixfile.Create(contexts, nil, matrixfile.Array{Name: "none", DType: "F32", Rows: 0, Cols: 9},
		matrixfile.Array{Name: "embeddings", DType: "F32", Rows: n, Cols: dim})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(matrixfile.Put(sink, 1, 0, 0, slices.Concat(y...), dim), sink.Commit()); err != nil {
		t.Fatal(err)
	}
	for name, args := range map[string][]string{
		"float64":     {b.file("double.npy", double.String()), c},
		"columns":     {b.file("columns.npy", columns.String()), c},
		"safetensors": {a, contexts, "--tensor", "embeddings"},
	} {
		out := filepath.Join(b.dir, "got.safetensors")
		o := b.run(append([]string{"matrix", "--dtype", "exact", "--metric", "l2", "--memory", "1", "--out", out},
			args...)...)
		if o.code != exitOK || strings.Contains(o.stderr, "rounded to float32\n") != (name == "float64") {
			t.Errorf("%s: %+v", name, o)
		}
		s, err := matrixfile.Open(out, "scores")
		if err != nil {
			t.Fatal(err)
		}
		got, err := s.Block(0, m, nil)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v, %v", name, got, want, err)
		}
		_ = s.Close()
	}
	b.fails(exitFailure, `name one`, "matrix", a, contexts, "--out", out)
	b.fails(exitFailure, `"embeddings", "none"`, "matrix", a, contexts, "--tensor", "x", "--out", out)
}

// TestMatrixTopK compares the hits with a naive algorithm's, for different block sizes.
func TestMatrixTopK(t *testing.T) {
	b := newBench(t)
	const m, n, dim, k = 70, 900, 200, 7
	x, y := gaussian(5, m, dim), gaussian(6, n, dim)
	a, c := b.npyFile("a.npy", x), b.npyFile("c.npy", y)
	var double bytes.Buffer
	double.Write(npy.MatrixHeader("<f8", n, dim)) // needs conversion, and is therefore cut into blocks
	for _, v := range slices.Concat(y...) {
		_ = binary.Write(&double, binary.LittleEndian, float64(v))
	}
	for _, metric := range []kernels.Metric{kernels.Cosine, kernels.L2} {
		for _, contexts := range []string{c, b.file("double.npy", double.String())} {
			out := filepath.Join(b.dir, "best.npy")
			report := objects(t,
				b.ok("matrix", a, contexts, "--topK", "7", "--metric", metric.String(), "--memory", "1", "--out", out,
					"--json"))[0]
			if report["bound"] != 0.0 || report["dtype"] != "exact" || report["topk"] != 7.0 ||
				len(report["out"].([]any)) != 2 {
				t.Errorf("%v", report)
			}
			ids := stored[int64](t, filepath.Join(b.dir, "best.ids.npy"), head("<i8", m, k), m*k)
			scores := stored[float64](t, filepath.Join(b.dir, "best.scores.npy"), head("<f8", m, k), m*k)
			for i, q := range x {
				for r, h := range ref.TopK(metric, q, y, nil, k) {
					if ids[i*k+r] != int64(h.Row) || scores[i*k+r] != h.Score {
						t.Fatalf("%s: hit %d of row %d is %d (%v), want %v", metric, r, i, ids[i*k+r], scores[i*k+r], h)
					}
				}
			}
		}
	}
	out := filepath.Join(b.dir, "all.safetensors")
	b.ok("matrix", b.npyFile("few.npy", x[:2]), b.npyFile("fewer.npy", y[:3]), "--topk", "10", "--out", out)
	s, err := matrixfile.Open(out, "scores")
	if err != nil || s.Rows != 2 || s.Dim != 3 {
		t.Fatalf("%+v, %v", s, err)
	}
	_ = s.Close()
}

func TestMatrixOfNothing(t *testing.T) {
	b := newBench(t)
	two := b.npyFile("two.npy", gaussian(7, 2, 3))
	none := b.file("none.npy", string(npy.MatrixHeader("<f4", 0, 3)))
	for _, c := range []struct {
		args       []string
		rows, cols int
	}{
		{[]string{none, two}, 0, 2}, {[]string{two, none}, 2, 0}, {[]string{none, none}, 0, 0},
		{[]string{two, none, "--topk", "2"}, 2, 0},
	} {
		report := objects(t,
			b.ok(append([]string{"matrix", "--json", "--out", filepath.Join(b.dir, "x.npy")}, c.args...)...))[0]
		if report["rows"] != float64(c.rows) || report["cols"] != float64(c.cols) {
			t.Errorf("%v: %v", c.args, report)
		}
	}
}

func TestMatrixRefuses(t *testing.T) {
	b := newBench(t)
	x := gaussian(8, 300, 100)
	good := b.npyFile("good.npy", x)
	narrow := b.npyFile("narrow.npy", gaussian(8, 3, 7))
	x[250][3] = float32(math.Inf(-1)) // after the first block
	bad := b.npyFile("bad.npy", x)
	huge := string(npy.MatrixHeader("<f8", 1, 100)) + strings.Repeat("\xff\xff\xff\xff\xff\xff\xef\x7f", 100)
	wide := b.npyFile("wide.npy", gaussian(9, 1, 100_000))
	out := filepath.Join(b.dir, "out.npy")
	for name, c := range map[string]struct {
		says string
		args []string
	}{
		"dimensions": {"good.npy have dimension 100, those of " + narrow + " 7", []string{good, narrow}},
		"non-finite left": {"bad.npy: non-finite value: row 250, column 3 is -Inf",
			[]string{bad, good, "--memory", "1"}},
		"non-finite right": {"bad.npy: non-finite value: row 250, column 3 is -Inf",
			[]string{good, bad, "--memory", "1", "--dtype", "exact"}},
		"non-finite top-k": {"bad.npy: non-finite value: row 250, column 3 is -Inf",
			[]string{bad, good, "--topk", "3"}},
		"unpaired": {"row 250, column 3",
			[]string{bad, b.file("none.npy", string(npy.MatrixHeader("<f4", 0, 100)))}},
		"too large": {"column 0 is 1.79769", []string{good, b.file("huge.npy", huge)}},
		"truncated": {"bytes follow",
			[]string{good, b.file("short.npy", string(npy.MatrixHeader("<f4", 9, 100))+"....")}},
		"dimension 0": {"2 rows of dimension 0",
			[]string{good, b.file("zero.npy", string(npy.MatrixHeader("<f4", 2, 0)))}},
		"absent": {"no such file", []string{good, filepath.Join(b.dir, "gone.npy")}},
		"memory": {"memory limit too small: 1 MiB; rows of dimension 100000 and 0 hits need at least 4 MiB",
			[]string{wide, wide, "--memory", "1"}},
	} {
		b.fails(exitFailure, c.says, append([]string{"matrix", "--out", out}, c.args...)...)
		if left, _ := filepath.Glob(filepath.Join(b.dir, "*out.npy*")); len(left) > 0 {
			t.Errorf("%s: %v is left", name, left)
		}
	}
	for name, c := range map[string]struct {
		says string
		args []string
	}{
		"one file":   {"two files are wanted, given 1", []string{good}},
		"metric":     {`unknown metric: "cos"`, []string{good, good, "--metric", "cos"}},
		"dtype":      {`given "f64"`, []string{good, good, "--dtype", "f64"}},
		"ending":     {`must end in .npy or .safetensors, given "x.csv"`, []string{good, good, "--out", "x.csv"}},
		"no out":     {"--out is missing", []string{good, good, "--out", ""}},
		"topk 0":     {"at least 1, given 0", []string{good, good, "--topk", "0"}},
		"topk dtype": {"--dtype bf16 does not go with it", []string{good, good, "--topk", "1", "--dtype", "bf16"}},
		"tensors":    {"given 3 times", []string{good, good, "--tensor", "a", "--tensor", "b", "--tensor", "c"}},
		"memory 0":   {"mem_limit_mib: 0 is not between 1 and 1048576", []string{good, good, "--memory", "0"}},
	} {
		t.Run(name, func(t *testing.T) {
			b.t = t
			b.fails(exitUsage, c.says, append([]string{"matrix", "--out", out}, c.args...)...)
		})
	}
}

// TestMatrixInterrupted checks that a cancelled run leaves no files, and a killed one none under the result's name.
func TestMatrixInterrupted(t *testing.T) {
	b := newBench(t)
	big := b.npyFile("big.npy", gaussian(10, 6000, 300))
	out := filepath.Join(b.dir, "out.npy")
	args := []string{"matrix", big, big, "--isa", "go", "--dtype", "exact", "--metric", "l2", "--memory", "16", "--out",
		out}
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(150*time.Millisecond, cancel)
	start := time.Now()
	if o := b.runContext(ctx, args...); o.code != exitInterrupted {
		t.Errorf("%+v", o)
	}
	t.Logf("%v after the cancellation", time.Since(start)-150*time.Millisecond)
	if left, _ := filepath.Glob(filepath.Join(b.dir, "*out.npy*")); len(left) > 0 {
		t.Errorf("%v is left", left)
	}
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), "SLUICE_TEST_AS_COMMAND=1")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for range 100 { // until it writes
		if left, _ := filepath.Glob(filepath.Join(b.dir, ".out.npy*")); len(left) > 0 {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if _, err := os.Stat(out); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("half a result has the name: %v", err)
	}
}

// TestMatrixPlan checks that no block exceeds its share of the limit, for all shapes.
func TestMatrixPlan(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 1))
	for range 200 {
		j := matrixJob{a: &matrixfile.Source{Rows: 1 + rng.IntN(1<<rng.IntN(31))}, limit: int64(1+rng.IntN(64)) << 20}
		j.a.Dim = 1 + rng.IntN(1<<rng.IntN(16))
		j.b = &matrixfile.Source{Rows: 1 + rng.IntN(1<<rng.IntN(31)), Dim: j.a.Dim}
		if rng.IntN(3) == 0 {
			j.topK = 1 + rng.IntN(1<<rng.IntN(12))
		}
		rows, cols, err := j.plan()
		if errors.Is(err, kernels.ErrMemoryLimit) {
			continue
		}
		vectors, pairs := 4*int64(rows+cols)*int64(j.a.Dim), 4*int64(rows)*int64(cols)
		if j.topK > 0 {
			pairs = 64 * int64(rows) * int64(j.hits())
		}
		if err != nil || rows < 1 || cols < 1 || rows > j.a.Rows || cols > j.b.Rows || vectors > j.limit/4 ||
			pairs > j.limit/4 {
			t.Fatalf("%d × %d × %d, top %d, in %d MiB: %d × %d rows, %d and %d bytes, %v",
				j.a.Rows, j.b.Rows, j.a.Dim, j.topK, j.limit>>20, rows, cols, vectors, pairs, err)
		}
	}
}

// TestMatrixKeepsItsInputs checks that a result never overwrites its own input, by whatever name.
func TestMatrixKeepsItsInputs(t *testing.T) {
	b := newBench(t)
	a, c := b.npyFile("a.npy", gaussian(1, 5, 8)), b.npyFile("b.ids.npy", gaussian(2, 5, 8))
	link, hard := filepath.Join(b.dir, "link.npy"), filepath.Join(b.dir, "hard.npy")
	if err := errors.Join(os.Symlink(a, link), os.Link(a, hard)); err != nil {
		t.Skip("no links here:", err)
	}
	before, err := os.ReadFile(a)
	if err != nil {
		t.Fatal(err)
	}
	for _, out := range []string{a, link, hard, filepath.Join(b.dir, "..", filepath.Base(b.dir), "a.npy")} {
		b.fails(exitUsage, "is an input", "matrix", a, c, "--out", out)
	}
	b.fails(exitUsage, "is an input", "matrix", a, c, "--topk", "2", "--out", filepath.Join(b.dir, "b.npy"))
	if after, err := os.ReadFile(a); err != nil || !bytes.Equal(before, after) {
		t.Errorf("the input has changed: %v", err)
	}
}

// TestMatrixRefusesInfiniteScores checks that a score that float32 cannot hold is an error with its rows, and leaves no
// file.
func TestMatrixRefusesInfiniteScores(t *testing.T) {
	b := newBench(t)
	big := gaussian(1, 40, 16)
	other := gaussian(2, 30, 16)
	for k := range big[7] {
		big[7][k], other[3][k] = 1e30, 1e30
	}
	a, c := b.npyFile("a.npy", big), b.npyFile("b.npy", other)
	out := filepath.Join(b.dir, "out.npy")
	for _, dtype := range []string{"exact", "f32"} {
		o := b.run("matrix", a, c, "--metric", "ip", "--dtype", dtype, "--out", out, "--json")
		if o.code != exitFailure || !strings.Contains(o.stderr, "row 7 of ") ||
			!strings.Contains(o.stderr, "row 3 of ") ||
			strings.Contains(o.stderr, "within") || o.stdout != "" {
			t.Errorf("%s: %+v", dtype, o)
		}
		if _, err := os.Stat(out); err == nil {
			t.Errorf("%s: there is a result", dtype)
		}
	}
}

// TestMatrixWithoutItsLine checks that with --json no result is kept if its line could not be printed.
func TestMatrixWithoutItsLine(t *testing.T) {
	b := newBench(t)
	a := b.npyFile("a.npy", gaussian(1, 4, 8))
	out := filepath.Join(b.dir, "out.npy")
	var stderr bytes.Buffer
	app := &app{stdin: strings.NewReader(""), stdout: failing{}, stderr: &stderr}
	if code := app.run(t.Context(), []string{"matrix", a, a, "--out", out, "--json"}); code != exitFailure {
		t.Errorf("exit code %d: %s", code, stderr.String())
	}
	if _, err := os.Stat(out); err == nil {
		t.Errorf("there is a result: %s", stderr.String())
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }
