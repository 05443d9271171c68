package scorecards_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/internal/models"
	"github.com/sluice-rag/sluice/internal/scorecards"
	"github.com/sluice-rag/sluice/internal/testmodels/doubles"
	"github.com/sluice-rag/sluice/rag/exam"
)

// cache gives the test its own cache, and returns a model file.
func cache(t *testing.T) (dir, model string) {
	t.Helper()
	dir = t.TempDir()
	t.Setenv("SLUICE_CACHE", dir)
	model = filepath.Join(t.TempDir(), "m.gguf")
	if err := os.WriteFile(model, []byte("weights"), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir, model
}

func card(t *testing.T, model string) *exam.Card {
	t.Helper()
	digest, err := scorecards.Digest(t.Context(), model)
	if err != nil {
		t.Fatal(err)
	}
	version, err := exam.Version()
	if err != nil {
		t.Fatal(err)
	}
	r := exam.Result{Write: exam.Share{N: 3, Of: 4}, Quote: exam.Share{N: 2, Of: 4}}
	return &exam.Card{Model: "m", Digest: digest, Exam: version, Sets: map[string]exam.Result{"en": r}}
}

// TestCardsAreKeptByDigest: a card is found again for the same bytes under any name, and not for others.
func TestCardsAreKeptByDigest(t *testing.T) {
	_, model := cache(t)
	if c, err := scorecards.Find(t.Context(), model); c != nil || err != nil {
		t.Fatalf("%+v, %v", c, err)
	}
	if err := scorecards.Keep(card(t, model)); err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(t.TempDir(), "other.gguf")
	if err := os.WriteFile(other, []byte("weights"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{model, other} {
		if c, err := scorecards.Find(t.Context(), name); err != nil || !c.Writes("en") {
			t.Errorf("%s: %+v, %v", name, c, err)
		}
	}
	if err := os.WriteFile(model, []byte("other weights"), 0o600); err != nil { // the digest follows the file
		t.Fatal(err)
	}
	if c, err := scorecards.Find(t.Context(), model); c != nil || err != nil {
		t.Errorf("of other weights: %+v, %v", c, err)
	}
	_, err := scorecards.Find(t.Context(), filepath.Join(t.TempDir(), "none.gguf"))
	if !errors.Is(err, models.ErrUnknownModel) {
		t.Errorf("of no file: %v", err)
	}
}

// TestCardsThatWereEdited: neither a change of a number nor another model's card is believed.
func TestCardsThatWereEdited(t *testing.T) {
	dir, model := cache(t)
	c := card(t, model)
	if err := scorecards.Keep(c); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "scorecards", c.Digest+".json")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for name, changed := range map[string][]byte{
		"edited": bytes.Replace(text, []byte(`"n": 3`), []byte(`"n": 4`), 1),
		"cut":    text[:len(text)/2], "empty": nil,
	} {
		if err := os.WriteFile(file, changed, 0o600); err != nil {
			t.Fatal(err)
		}
		if found, err := scorecards.Find(t.Context(), model); found != nil || !errors.Is(err, exam.ErrCard) {
			t.Errorf("%s: %+v, %v", name, found, err)
		}
	}
	const server = "http://localhost:1/v1#m"
	of, err := scorecards.Digest(t.Context(), server)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "scorecards", of+".json"), text, 0o600); err != nil {
		t.Fatal(err)
	}
	if found, err := scorecards.Find(t.Context(), server); found != nil || !errors.Is(err, exam.ErrCard) {
		t.Errorf("another model's: %+v, %v", found, err)
	}
}

// TestLongExaminationsAreRemembered: the estimate of one that was not made is kept as a card, which trusts the model
// with nothing.
func TestLongExaminationsAreRemembered(t *testing.T) {
	_, model := cache(t)
	c := card(t, model)
	c.Sets, c.Seconds = nil, 300
	if err := scorecards.Keep(c); err != nil {
		t.Fatal(err)
	}
	found, err := scorecards.Find(t.Context(), model)
	if err != nil || found.Examined() || found.Writes("en") || !strings.Contains(found.Summary(), "about 5m0s") {
		t.Errorf("%+v, %v", found, err)
	}
}

// TestTheDefaultModelComesWithItsCard: it is of this version of the examination, and stands in for one that was kept by
// another version, or without results.
func TestTheDefaultModelComesWithItsCard(t *testing.T) {
	dir, _ := cache(t)
	c, err := scorecards.Find(t.Context(), "SmolLM2-135M-Instruct")
	if err != nil || c == nil {
		t.Fatalf("%+v, %v: go test -tags native ./rag/exam -run Figures -figures -figures-out DIR makes it", c, err)
	}
	if len(c.Sets) != 2 || c.Sets["en"].Quote.Of < 60 || c.Sets["de"].Quote.Of < 60 {
		t.Errorf("%+v", c)
	}
	old, long := *c, *c
	old.Exam, long.Sets, long.Seconds = "another", nil, 300
	for _, kept := range []*exam.Card{&old, &long} {
		if err := scorecards.Keep(kept); err != nil {
			t.Fatal(err)
		}
		found, err := scorecards.Find(t.Context(), "SmolLM2-135M-Instruct")
		if err != nil || !reflect.DeepEqual(found, c) {
			t.Errorf("%+v, %v", found, err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "scorecards", c.Digest+".json"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if found, err := scorecards.Find(t.Context(), "SmolLM2-135M-Instruct"); err != nil || !found.Examined() {
		t.Errorf("beside an empty file: %+v, %v", found, err)
	}
}

// TestRun: an examination that fails leaves the answers for the next one, and one that comes to its end only the card.
func TestRun(t *testing.T) {
	dir, model := cache(t)
	e, err := engine.New(engine.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	m, encoder := doubles.NewModel("nothing"), doubles.NewEncoder()
	m.Window, encoder.Limit = 4096, 256
	digest := card(t, model).Digest
	o := exam.Options{Model: m, Digest: digest, Embedder: encoder, Engine: e}
	calls := 0
	m.Wait = func(context.Context) error {
		if calls++; calls > 20 {
			return context.DeadlineExceeded
		}
		return nil
	}
	answers := filepath.Join(dir, "scorecards", digest+".answers.jsonl")
	if _, err := scorecards.Run(t.Context(), o); !errors.Is(err, exam.ErrModel) {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(answers); err != nil || bytes.Count(text, []byte(`"nothing"`)) < 10 {
		t.Errorf("%v: %s", err, text)
	}
	m.Wait = nil
	if _, err := scorecards.Run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(answers); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the answers are still there: %v", err)
	}
	if c, err := scorecards.Find(t.Context(), model); err != nil || !c.Examined() {
		t.Errorf("%+v, %v", c, err)
	}
}
