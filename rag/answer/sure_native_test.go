//go:build native

package answer_test

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/sluice-rag/sluice"
	"github.com/sluice-rag/sluice/internal/testmodels/datasets"
	"github.com/sluice-rag/sluice/llm"
	"github.com/sluice-rag/sluice/rag/answer"
)

// openWithoutStore opens a library over an empty store.
func openWithoutStore(t *testing.T) *sluice.Sluice {
	t.Helper()
	s, err := sluice.Open(t.Context(), sluice.Config{Store: filepath.Join(t.TempDir(), "store"), Model: *figureModel,
		Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// sureness asks a question of the model's own knowledge and returns how sure the model was.
func sureness(t *testing.T, s *sluice.Sluice, question string, from float64) (*answer.Answer, float64) {
	t.Helper()
	o := answer.DefaultOptions()
	o.Gate, o.OwnFrom = answer.GateClosed, from
	a, err := s.Ask(t.Context(), question, o)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, llm.ErrUnavailable) {
		t.Skipf("SKIP: the default language model is not there: %v", err)
	} else if err != nil {
		t.Fatal(err)
	}
	if score := a.Trace.Steps[len(a.Trace.Steps)-1].Score; score != nil {
		return a, *score
	}
	return a, 1
}

// TestRealModelIsSure: the default model is surer of a capital than of what nobody has told it.
func TestRealModelIsSure(t *testing.T) {
	s := openWithoutStore(t)
	a, known := sureness(t, s, "What is the capital of France?", .5)
	b, guessed := sureness(t, s, "Who signed the lease for the shop?", .5)
	if known <= guessed || guessed == 0 || a.Answer != "The capital of France is Paris." ||
		b.Answer != answer.IDontKnow {
		t.Errorf("%q with %.3f, %q (%s) with %.3f", a.Answer, known, b.Answer, b.Trace.Notice, guessed)
	}
}

// unknowing is an answer in which a model itself says that it does not know.
var unknowing = regexp.MustCompile(`(?i)do(n't| not) know|not sure|sorry|cannot|unable|unknown|as an ai`)

// TestOwnKnowledgeFigures counts the answers from a model's own knowledge to questions of general knowledge, of private
// matters, and of squad16 without its passages, by the bar of Options.OwnFrom.
func TestOwnKnowledgeFigures(t *testing.T) {
	if !*figures {
		t.Skip("SKIP: go test -tags native ./rag/answer -run OwnKnowledgeFigures -figures -v")
	}
	f, err := os.Open("testdata/own.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	kinds := map[string][]datum{}
	for d := json.NewDecoder(f); ; {
		var q datum
		if err := d.Decode(&q); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		kind := "general"
		if len(q.Answers) == 0 {
			kind = "private"
		}
		kinds[kind] = append(kinds[kind], q)
	}
	for i, q := range datasets.Lines(t, "squad16/queries.jsonl") {
		if q.Answerable && i%50 == 0 {
			kinds["squad16"] = append(kinds["squad16"], q)
		}
	}
	s := openWithoutStore(t)
	bars := []float64{1e-9, .1, .15, .2, .25, .3}
	for _, kind := range []string{"general", "private", "squad16"} {
		right, wrong := make([]int, len(bars)), make([]int, len(bars))
		for _, q := range kinds[kind] {
			a, p := sureness(t, s, q.Text, bars[0])
			is := slices.ContainsFunc(q.Answers, func(x string) bool {
				return regexp.MustCompile(`(?i)(^|\W)` + regexp.QuoteMeta(x) + `($|\W)`).MatchString(a.Answer)
			})
			for i, bar := range bars {
				switch {
				case p < bar:
				case is:
					right[i]++
				case !unknowing.MatchString(a.Answer):
					wrong[i]++
				}
			}
		}
		for i, bar := range bars {
			t.Logf("%s, %d questions, from %.2f: %d right, %d wrong", kind, len(kinds[kind]), bar, right[i], wrong[i])
		}
	}
}
