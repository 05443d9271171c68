package knowledge

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sluice-rag/sluice/embed"
)

// Language guesses the language of a text as an ISO 639-1 code, "" where that is not sure.
func (b *Base) Language(text string) string { return b.languages.Of(text) }

// QuestionLanguage is Language for a question, which may be a few words.
func (b *Base) QuestionLanguage(text string) string { return b.languages.OfQuestion(text) }

// Untrained says what an encoder was trained for, and which one was for languages (ISO 639-1) that it was not:
// "all-MiniLM-L6-v2 was trained for English; 'sluice models pull …' brings an encoder that knows German".
func (b *Base) Untrained(info embed.Info, codes ...string) string {
	s := fmt.Sprintf("%s was trained for %s", info.Name, b.names(strings.Fields(info.Languages)))
	if b.cfg.Multilingual == nil {
		return s
	}
	by := map[string][]string{} // languages by model
	for _, code := range codes {
		if model := b.cfg.Multilingual(code); model != "" && model != info.Name {
			by[model] = append(by[model], code)
		}
	}
	for _, model := range slices.Sorted(maps.Keys(by)) {
		s += fmt.Sprintf("; 'sluice models pull %s' brings an encoder that knows %s, for a store of its own", model,
			b.names(by[model]))
	}
	return s
}

// names returns the English names of languages.
func (b *Base) names(codes []string) string {
	names := make([]string, len(codes))
	for i, code := range codes {
		names[i] = b.languages.Name(code)
	}
	return strings.Join(names, ", ")
}

// LanguageName returns the English name of a language by its ISO 639-1 code.
func (b *Base) LanguageName(code string) string { return b.languages.Name(code) }

// watchLanguages warns of questions in a language that the encoder was not trained for, once for each language.
func (b *Base) watchLanguages(info embed.Info, questions []string) {
	if info.Languages == "" {
		return
	}
	for _, q := range questions[:min(len(questions), maxWatched)] {
		code := b.languages.OfQuestion(q)
		if info.Knows(code) {
			continue
		}
		if _, said := b.foreign.LoadOrStore(code, true); !said {
			b.log.Warn(fmt.Sprintf("a question looks like %s; %s", b.languages.Name(code), b.Untrained(info, code)))
		}
	}
}

// maxWatched questions of one call are looked at.
const maxWatched = 64
