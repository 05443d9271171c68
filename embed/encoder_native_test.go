//go:build native

package embed

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-rag/sluice/engine/cores"
	"github.com/sluice-rag/sluice/internal/test/race"
	"github.com/sluice-rag/sluice/internal/testmodels/checkpoint"
)

func TestEncoderAgainstNumPy(t *testing.T) {
	race.Skip(t)
	dir, texts := minilm(t), mixed(t, 200)
	want, ids := reference(t,
		task{Model: dir, Task: "embed", Pooling: "mean", Normalise: true, MaxTokens: 256, Texts: texts})
	e := openEncoder(t, dir, Options{})
	got := embedAll(t, e, texts, Document)
	var most float64
	shortest, longest, cut := 1<<30, 0, 0
	for i := range texts {
		if got.Tokens[i] != len(ids[i]) {
			t.Fatalf("text %d: %d tokens, the reference has %d", i, got.Tokens[i], len(ids[i]))
		}
		if len(ids[i]) == 256 {
			cut++
		}
		most = max(most, worst(got.Row(i), want[i]))
		shortest, longest = min(shortest, len(ids[i])), max(longest, len(ids[i]))
	}
	t.Logf("200 texts of %d to %d tokens, %d cut: max |d| to NumPy float64 = %.3g", shortest, longest, got.Truncated,
		most)
	if most > 2e-6 {
		t.Errorf("max |d| = %g, at most 2e-6 expected", most)
	}
	if got.Truncated == 0 || got.Truncated > cut {
		t.Errorf("Truncated = %d, expected 1 to %d", got.Truncated, cut)
	}
}

func TestBatchAndParallelInvariance(t *testing.T) {
	dir, texts := minilm(t), mixed(t, 96)
	serial := openEncoder(t, dir, Options{Workers: 1, Cores: cores.New(1)})
	parallel := openEncoder(t, dir, Options{Workers: 4, Cores: cores.New(4), MaxBatchTokens: 700})
	whole := embedAll(t, serial, texts, Document)
	if d := worst32(embedAll(t, parallel, texts, Document).Data, whole.Data); d > 1e-6 {
		t.Errorf("parallel and other batches: max |d| = %g", d)
	} else {
		t.Logf("parallel, small batches − serial, large batches: max |d| = %.3g", d)
	}
	var most float64
	for i, text := range texts {
		most = max(most, worst32(embedAll(t, serial, []string{text}, Document).Data, whole.Row(i)))
	}
	t.Logf("alone − in a batch: max |d| = %.3g", most)
	if most > 1e-6 {
		t.Errorf("alone − in a batch: max |d| = %g, at most 1e-6 expected", most)
	}
	if again := embedAll(t, serial, texts, Document); !slices.Equal(again.Data, whole.Data) {
		t.Error("the same call gives other bits")
	}
}

// TestJoinedCallsHaveTheBitsOfOne: calls of one text at the same time share batches, and their vectors have the bits
// that each text has alone.
func TestJoinedCallsHaveTheBitsOfOne(t *testing.T) {
	texts := mixed(t, 96)
	for _, p := range []Precision{F32, Int8} {
		e := openEncoder(t, minilm(t), Options{Cores: cores.New(2), Precision: p})
		alone := make([][]float32, len(texts))
		for i, text := range texts {
			alone[i] = embedAll(t, e, []string{text}, Query).Data
		}
		if s := e.Stats(); s.Joined != 0 || s.Calls != int64(len(texts)) || s.Texts != s.Calls || s.ComputeTime <= 0 {
			t.Errorf("%s: one after the other: %+v", p, s)
		}
		var wg sync.WaitGroup
		for w := range 16 {
			wg.Go(func() {
				for i := w; i < len(texts); i += 16 {
					got, err := e.Embed(t.Context(), texts[i:i+1], Query)
					if err != nil || !slices.Equal(got.Data, alone[i]) {
						t.Errorf("%s: text %d has other bits beside others than alone (%v)", p, i, err)
					}
				}
			})
		}
		whole := embedAll(t, e, texts, Query) // beside them
		wg.Wait()
		for i := range texts {
			if !slices.Equal(whole.Row(i), alone[i]) {
				t.Errorf("%s: text %d has other bits in a large call than alone", p, i)
			}
		}
		if s := e.Stats(); s.Joined == 0 {
			t.Errorf("%s: no batch was of more than one call: %+v", p, s)
		}
	}
}

func TestConcurrentCallsAndClose(t *testing.T) {
	e := openEncoder(t, minilm(t), Options{})
	want := embedAll(t, e, []string{"one", "two words"}, Query)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			got, err := e.Embed(context.Background(), []string{"one", "two words"}, Query)
			if err != nil && !errors.Is(err, ErrClosed) {
				t.Error(err)
			} else if err == nil && worst32(got.Data, want.Data) > 1e-6 {
				t.Error("concurrent calls disagree")
			}
		})
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	wg.Wait()
	if _, err := e.Embed(context.Background(), []string{"x"}, Query); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v, ErrClosed expected", err)
	}
	if _, err := e.CountTokens("x"); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v, ErrClosed expected", err)
	}
	if err := e.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
}

func TestOddTexts(t *testing.T) {
	e := openEncoder(t, minilm(t), Options{})
	none, err := e.Embed(context.Background(), nil, Document)
	if err != nil || len(none.Data) != 0 || none.Dim != 384 {
		t.Errorf("zero texts: %+v, %v", none, err)
	}
	big := strings.Repeat("The quick brown fox jumps over the lazy dog. ", 1<<20/45)
	long := strings.Repeat("x", 1<<20)
	texts := []string{"", "a\x00b", "a\uFFFDb", "ab", "\xff\xfe", "Grüße aus Köln \U0001F600", big, long}
	got := embedAll(t, e, texts, Document)
	if got.Tokens[0] != 2 || got.Tokens[6] != 256 || got.Truncated != 1 || got.Repaired != 2 {
		t.Errorf("tokens %v, truncated %d, repaired %d", got.Tokens, got.Truncated, got.Repaired)
	}
	if worst32(got.Row(1), got.Row(2)) > 1e-6 {
		t.Error("NUL is not read as U+FFFD")
	}
	if d := worst32(got.Row(1), embedAll(t, e, []string{"a"}, Document).Data); d < 1e-3 {
		t.Errorf("the text ends at its NUL: distance %g", d)
	}
	for i := range texts {
		var norm float64
		for _, v := range got.Row(i) {
			norm += float64(v) * float64(v)
		}
		if norm < .99999 || norm > 1.00001 {
			t.Errorf("text %d: squared norm %g", i, norm)
		}
	}
	if n, err := e.CountTokens(big); err != nil || n < 200_000 {
		t.Errorf("CountTokens cuts: %d, %v", n, err)
	}
}

func TestTruncationEqualsLibrary(t *testing.T) {
	dir := minilm(t)
	texts := append(mixed(t, 60), "", "a", strings.Repeat("word ", 300))
	tok, err := OpenTokenizer(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer tok.Close()
	if tok.special != 2 || tok.closing != 1 {
		t.Fatalf("special %d, closing %d", tok.special, tok.closing)
	}
	for _, limit := range []int{3, 17, 256} {
		_, want := reference(t, task{Model: dir, Task: "tokens", MaxTokens: limit, Texts: texts})
		for i, text := range texts {
			all, err := tok.encode(text)
			if err != nil {
				t.Fatal(err)
			}
			if got, _ := truncate(all, limit, tok.closing); !slices.Equal(got, want[i]) {
				t.Errorf("limit %d, text %d: %v, library %v", limit, i, got, want[i])
			}
		}
	}
}

func TestCancelAndProgress(t *testing.T) {
	dir, texts := minilm(t), mixed(t, 400)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	calls, last := 0, 0
	e := openEncoder(t, dir, Options{MaxBatchTokens: 512, Progress: func(done, total int) {
		calls++
		if total != len(texts) || done <= last {
			t.Errorf("progress %d of %d after %d", done, total, last)
		}
		if last = done; calls == 2 {
			cancel()
		}
	}})
	start := time.Now()
	if _, err := e.Embed(ctx, texts, Document); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	t.Logf("returned %v after the call, %d batches were reported", time.Since(start), calls)
	if calls > 2+cores.Available()+4 {
		t.Errorf("%d batches ran after the cancellation", calls-2)
	}
	if _, err := Open(ctx, dir, Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("Open with an ended context: %v", err)
	}
}

func TestReopenFreesLibrary(t *testing.T) {
	dir := minilm(t)
	needLibrary(t)
	var first Info
	for i := range 3 {
		e, err := Open(context.Background(), dir, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			first = e.Info()
		} else if e.Info() != first {
			t.Errorf("Info changes: %+v, %+v", first, e.Info())
		}
		if _, err := e.Embed(context.Background(), []string{"x"}, Document); err != nil {
			t.Error(err)
		}
		_ = e.Close()
	}
	if ortRuntime.users != 0 {
		t.Errorf("%d users of ONNX Runtime are left", ortRuntime.users)
	}
	version, path, err := LibraryVersion(Options{})
	t.Logf("ONNX Runtime %s at %s; %+v", version, path, first)
	if err != nil || version == "" {
		t.Error(err)
	}
	if _, err := Open(context.Background(), dir,
		Options{Library: "/nonexistent/libonnxruntime.so"}); !errors.Is(err, ErrLibrary) {
		t.Errorf("%v, ErrLibrary expected", err)
	}
	if _, err := Open(context.Background(), dir, Options{Library: dir + "/config.json"}); !errors.Is(err, ErrLibrary) {
		t.Errorf("%v, ErrLibrary expected", err)
	}
}

// Of a text that is much longer than what is read, only a beginning is tokenised, with the same result.
func TestHeadsAreTheWholesBeginning(t *testing.T) {
	needLibrary(t)
	e := openEncoder(t, minilm(t), Options{})
	texts := []string{
		strings.Repeat("The second valve isn't opened: 3.5 bar, Größe 日本語 😀. ", 500),
		strings.Repeat("x", 5000) + strings.Repeat(" a", 3000), strings.Repeat("k", 1<<16),
		strings.Repeat("\u3000é\n", 9000),
	}
	for _, text := range append(texts, squad(t, "contexts")[:50]...) {
		for _, limit := range []int{4, 16, 64, 256} {
			head, _, err := e.tok.encodeHead(text, limit)
			if err != nil {
				t.Fatal(err)
			}
			whole, err := e.tok.encode(text)
			if err != nil {
				t.Fatal(err)
			}
			a, cutA := truncate(head, limit, e.tok.closing)
			b, cutB := truncate(whole, limit, e.tok.closing)
			if !slices.Equal(a, b) || cutA != cutB {
				t.Errorf("%.30q, %d tokens: %v, the whole's are %v", text, limit, a, b)
			}
			if limit == 4 && len(text) > 1<<14 && len(head) > 1000 {
				t.Errorf("%.30q: %d tokens were made for 4", text, len(head))
			}
		}
	}
}

// TestInfoTellsDimensions: Info reports whether vectors have length 1 and to what dimensions they may be cut.
func TestInfoTellsDimensions(t *testing.T) {
	needLibrary(t)
	dir := t.TempDir()
	if err := checkpoint.Write(dir, checkpoint.Spec{Family: "bert", Normalise: true}); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "model.yaml")
	yaml, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	digests := map[string]bool{}
	for lines, want := range map[string]string{"": "", "dimensions: [16, 8]\n": "8 16"} {
		if err := os.WriteFile(path, append(slices.Clone(yaml), "\n"+lines...), 0o600); err != nil {
			t.Fatal(err)
		}
		i := openEncoder(t, dir, Options{}).Info()
		if i.Dim != 32 || i.Dimensions != want || !i.Normalised {
			t.Errorf("%q: %+v", lines, i)
		}
		digests[i.Digest] = true
	}
	if len(digests) != 1 {
		t.Error("what vectors may be cut to makes another encoder of it")
	}
	if err := os.WriteFile(path, append(yaml, "\ndimensions: [33]\n"...), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), dir, Options{}); !errors.Is(err, ErrModel) || !strings.Contains(err.Error(), "33") {
		t.Error(err)
	}
}
