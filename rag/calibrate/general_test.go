package calibrate_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/internal/language"
	"github.com/sluice-rag/sluice/internal/testmodels/datasets"
	"github.com/sluice-rag/sluice/internal/testmodels/doubles"
	"github.com/sluice-rag/sluice/rag/calibrate"
	"github.com/sluice-rag/sluice/rag/ingest"
)

// general reads the general questions of a language.
func general(t *testing.T, code string) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("general", code+".txt"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(text)), "\n")
}

// A base gets the general questions of its own language, and the artifact says which they are. Before: all bases got
// English ones, which any gate of a German base keeps out.
func TestGeneralQuestionsAreInTheLanguageOfTheBase(t *testing.T) {
	german := datasets.Lines(t, "xquad-de/contexts.jsonl")
	asked := datasets.Lines(t, "xquad-de/queries.jsonl")
	var contexts, questions strings.Builder
	for _, l := range german { // without their topics, by which a gate would be judged instead
		writeJSON(t, &contexts, map[string]string{"id": l.ID, "text": l.Text})
	}
	for _, l := range asked[:200] {
		writeJSON(t, &questions, map[string]string{"context_id": l.ContextID, "text": l.Text})
	}
	for _, c := range []struct {
		what, contexts, questions, code, instead, verdict string
		set                                               string
	}{
		{"xquad-de", contexts.String(), questions.String(), "de", "", "of 48 general questions in German, ", "de"},
		{"English", doubles.Contexts, doubles.Questions, "en", "", "", "en"},
		{"Polish", `{"id":"p","text":"Latarnik każdego wieczoru zapala lampę na wieży, aby statki mogły bezpiecznie ` +
			`wpłynąć do portu, a rano ją gasi i czyści szkła."}`, `{"context_id":"p","text":"Kto zapala lampę?"}`,
			"en", "Polish", "of 48 general questions in English (there are none in Polish), ", "en"},
		{"few words", `{"id":"f","text":"Die Heringe leben im Norden."}`,
			`{"context_id":"f","text":"Wo leben die Heringe?"}`, "de", "", "of 48 general questions in German, ", "de"},
	} {
		t.Run(c.what, func(t *testing.T) {
			w := &world{Base: doubles.NewBase(t, nil)}
			in := ingest.Input{Paths: []string{w.File(t, "a.jsonl", c.contexts)},
				Options: ingest.Options{NoChunk: true}}
			if _, err := ingest.Run(t.Context(), w.Base.Base, in); err != nil {
				t.Fatal(err)
			}
			var embedded []string
			w.Encoder.After = func(texts []string) { embedded = append(embedded, texts...) }
			r, err := w.calibrate(t, calibrate.Options{Queries: strings.NewReader(c.questions), Source: "q"})
			if err != nil {
				t.Fatal(err)
			}
			if g := r.General; g == nil || g.Language != c.code || g.InsteadOf != c.instead {
				t.Errorf("the artifact says %+v", g)
			}
			if !strings.Contains(r.Evidence.Verdict, c.verdict) {
				t.Errorf("verdict %q lacks %q", r.Evidence.Verdict, c.verdict)
			}
			for _, code := range []string{"de", "en", "es", "fr", "it"} {
				for _, q := range general(t, code) {
					if slices.Contains(embedded, q) != (code == c.set) {
						t.Fatalf("%q was embedded: %v", q, code != c.set)
					}
				}
			}
		})
	}
}

func writeJSON(t *testing.T, to *strings.Builder, v any) {
	t.Helper()
	line, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	to.Write(append(line, '\n'))
}

// The sets have as many questions, each once, and each is in its language as far as that can be guessed.
func TestGeneralSets(t *testing.T) {
	detector := language.New()
	files, err := filepath.Glob("general/*.txt")
	if err != nil || len(files) != 5 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		code := strings.TrimSuffix(filepath.Base(file), ".txt")
		questions := general(t, code)
		seen, guessed := map[string]bool{}, 0
		for _, q := range questions {
			if seen[q] || !strings.HasSuffix(q, "?") || strings.TrimSpace(q) != q {
				t.Errorf("%s: %q", code, q)
			}
			seen[q] = true
			switch guess := detector.OfQuestion(q); guess {
			case code:
				guessed++
			case "":
			default:
				t.Logf("%s: %q looks like %q", code, q, guess)
			}
		}
		if len(questions) != 48 || guessed < 36 {
			t.Errorf("%s: %d questions, %d look like it", code, len(questions), guessed)
		}
	}
}
