package calibrate

import (
	"context"
	"embed"
	"maps"
	"slices"
	"strings"

	"github.com/sluice-rag/sluice/rag/gate"
)

// generalSets are questions about what few knowledge bases hold, from many fields: how many of them a gate keeps out
// says what it does with questions that have nothing to do with the documents. A file for each language, a question a
// line; the n-th lines of all files are about the same field.
//
//go:embed general/*.txt
var generalSets embed.FS

// generalQuestions are those in the language that most of the base is in, or else the English ones.
func (c *run) generalQuestions(ctx context.Context, own []string) ([]string, gate.General, error) {
	code, err := c.language(ctx, own)
	if err != nil {
		return nil, gate.General{}, err
	}
	about := gate.General{Language: code}
	text, err := generalSets.ReadFile("general/" + code + ".txt")
	if err != nil {
		about.Language = "en"
		if code != "" {
			about.InsteadOf = c.base.LanguageName(code)
		}
		if text, err = generalSets.ReadFile("general/en.txt"); err != nil {
			return nil, about, err
		}
	}
	about.Name = c.base.LanguageName(about.Language)
	return strings.Split(strings.TrimSpace(string(text)), "\n"), about, nil
}

// language returns the language of most chunks, as their documents say; where none says it, most of the base's own
// questions. "" is not known.
func (c *run) language(ctx context.Context, own []string) (string, error) {
	counts, err := c.snap.View.ChunksByMeta(ctx, "language")
	if err != nil {
		return "", err
	}
	if len(counts) == 0 {
		for _, q := range own {
			if code := c.base.QuestionLanguage(q); code != "" {
				counts[code]++
			}
		}
	}
	best := ""
	for _, code := range slices.Sorted(maps.Keys(counts)) {
		if best == "" || counts[code] > counts[best] {
			best = code
		}
	}
	return best, nil
}
