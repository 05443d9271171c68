package train

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

// numbered are pairs whose query names, with another word, what its context is about.
func numbered(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `{"query":"who knows q%d","context":"the gate of c%d is open today","group":"%d"}`+"\n", i%12, i%12,
			i%12)
	}
	return b.String()
}

func pairs(t *testing.T, text string) *Pairs {
	t.Helper()
	p, err := ReadPairs(strings.NewReader(text), "pairs.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func encoderInput(t *testing.T, from string) EncoderInput {
	s := EncoderDefaults()
	s.Epochs, s.Batch, s.Rate, s.Patience = 6, 8, 2e-3, 0
	return EncoderInput{Training: pairs(t, numbered(48)), Validation: pairs(t, numbered(12)), From: from,
		Out: filepath.Join(t.TempDir(), "out"), Settings: s, Tokenizer: words{60}, Engine: newEngine(t, 2)}
}

// TestEncoderLearns: queries find their contexts, which they shared no word with before.
func TestEncoderLearns(t *testing.T) {
	from := bertDir(t)
	for _, layers := range []int{2, AllLayers} {
		in := encoderInput(t, from)
		in.Settings.Layers = layers
		r, err := Encoder(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		if r.Before.NDCG > .7 || r.Validation.NDCG < r.Before.NDCG+.2 || r.Validation.Examples != 12 {
			t.Errorf("%d layers: %+v before, %+v after", layers, *r.Before, r.Validation)
		}
	}
}

// TestEncoderSameBits: interrupted and gone on with on other threads, a training gives the same bits.
func TestEncoderSameBits(t *testing.T) {
	from := bertDir(t)
	in := encoderInput(t, from)
	in.Validation, in.Settings.ValidationShare, in.Settings.Dropout = nil, .3, .1
	if _, err := Encoder(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	want := weightsOf(t, in.Out)
	in.Out, in.Engine = filepath.Join(t.TempDir(), "out"), newEngine(t, 3)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	in.Hooks.Step = func(done, _ int) {
		if done == 7 {
			cancel()
		}
	}
	if _, err := Encoder(ctx, in); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if _, err := Encoder(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(weightsOf(t, in.Out), want) {
		t.Error("other bits")
	}
}

func TestBadPairs(t *testing.T) {
	from := bertDir(t)
	one := `{"query":"a","context":"b"}` + "\n"
	for want, c := range map[string]struct {
		change func(*EncoderInput)
		target error
	}{
		"0 to validate with are left": {func(in *EncoderInput) {
			in.Training, in.Validation = pairs(t, one+one), nil
		}, ErrData},
		"at least one layer": {func(in *EncoderInput) { in.Settings.Layers = 0 }, ErrSetting},
	} {
		in := encoderInput(t, from)
		c.change(&in)
		if _, err := Encoder(t.Context(), in); !errors.Is(err, c.target) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, %q expected", err, want)
		}
	}
}

// TestSplitPairs: no context is on both sides.
func TestSplitPairs(t *testing.T) {
	training, validation, err := splitGroups(EncoderInput{Training: pairs(t, numbered(60)),
		Settings: Settings{ValidationShare: .25, Seed: 3}}, "pairs", Pair.group)
	if err != nil || len(training) != 45 || len(validation) != 15 {
		t.Errorf("%d and %d pairs: %v", len(training), len(validation), err)
	}
	held := map[string]bool{}
	for _, p := range validation {
		held[p.Context] = true
	}
	for _, p := range training {
		if held[p.Context] {
			t.Errorf("%q is trained on and validated with", p.Context)
		}
	}
}
