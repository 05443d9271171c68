package knowledge

import (
	"fmt"
	"strings"

	"github.com/sluice-rag/sluice/embed"
)

// Language guesses the language of a text as an ISO 639-1 code, "" where that is not sure.
func (b *Base) Language(text string) string { return b.languages.Of(text) }

// Untrained is a sentence about texts in a language (ISO 639-1) that an encoder was not trained for, such as
// "all-MiniLM-L6-v2 was trained for English, not for German", with what helps.
func (b *Base) Untrained(info embed.Info, code string) string {
	var known []string
	for _, c := range strings.Fields(info.Languages) {
		known = append(known, b.languages.Name(c))
	}
	s := fmt.Sprintf("%s was trained for %s, not for %s", info.Name, strings.Join(known, ", "), b.languages.Name(code))
	if b.cfg.Multilingual != nil {
		if model := b.cfg.Multilingual(code); model != "" && model != info.Name {
			s += fmt.Sprintf("; 'sluice models pull %s' brings an encoder that knows it, for a store of its own", model)
		}
	}
	return s
}

// LanguageName is the English name of a language by its ISO 639-1 code.
func (b *Base) LanguageName(code string) string { return b.languages.Name(code) }

// watchLanguages warns of questions in a language that the encoder was not trained for, once for each language.
func (b *Base) watchLanguages(info embed.Info, questions []string) {
	if info.Languages == "" {
		return
	}
	for _, q := range questions[:min(len(questions), maxWatched)] {
		code := b.languages.Of(q)
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
