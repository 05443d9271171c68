//go:build native

package exam_test

import (
	"errors"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/internal/models"
	"github.com/sluice-rag/sluice/llm"
	"github.com/sluice-rag/sluice/rag/exam"
)

var (
	figures      = flag.Bool("figures", false, "print the scorecards of docs/models.md; ten minutes for each model")
	figureModels = flag.String("figures-models", "SmolLM2-135M-Instruct", "names and GGUF files, between commas")
	figureTwice  = flag.Bool("figures-twice", false, "examine each model twice, and compare the cards")
	figureOut    = flag.String("figures-out", "", "folder that the cards are written to")
)

// TestFigures examines language models.
func TestFigures(t *testing.T) {
	if !*figures {
		t.Skip("SKIP: go test -tags native ./rag/exam -run Figures -figures -v -timeout 10h")
	}
	for name := range strings.SplitSeq(*figureModels, ",") {
		started := time.Now()
		card := examined(t, name, nil)
		text, err := card.Text()
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s in %v: %s\n%s", name, time.Since(started).Round(time.Second), card.Summary(), text)
		if *figureOut != "" {
			if err := os.WriteFile(filepath.Join(*figureOut, card.Model+".json"), text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if *figureTwice && !reflect.DeepEqual(card, examined(t, name, nil)) {
			t.Errorf("%s: another card the second time", name)
		}
	}
}

// examined examines a model as `models check` does.
func examined(t *testing.T, name string, sets []exam.Set) *exam.Card {
	t.Helper()
	r, err := models.Default()
	if err != nil {
		t.Fatal(err)
	}
	path, err := r.LocateGGUF(name)
	dir, failed := r.Locate("all-MiniLM-L6-v2")
	if err = errors.Join(err, failed); errors.Is(err, models.ErrNotPulled) || errors.Is(err, fs.ErrNotExist) {
		t.Skipf("SKIP: the models are not there: %v", err)
	} else if err != nil {
		t.Fatal(err)
	}
	digest, err := r.Digest(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	e, err := engine.New(engine.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	encoder, err := embed.Open(t.Context(), dir, embed.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer encoder.Close()
	m, err := llm.Open(t.Context(), path, llm.Options{Threads: 1}) // more would wait for each other beside other tests
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	o := exam.Options{Model: m, Digest: digest, Embedder: encoder, Engine: e, Sets: sets}
	started := time.Now()
	o.Progress = func(done, total int) {
		if done%100 == 0 {
			t.Logf("%d of at most %d calls after %v", done, total, time.Since(started).Round(time.Second))
		}
	}
	card, err := exam.Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return card
}
