package postings

import (
	_ "embed"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/blevesearch/snowballstem"
	"github.com/blevesearch/snowballstem/arabic"
	"github.com/blevesearch/snowballstem/danish"
	"github.com/blevesearch/snowballstem/dutch"
	"github.com/blevesearch/snowballstem/english"
	"github.com/blevesearch/snowballstem/finnish"
	"github.com/blevesearch/snowballstem/french"
	"github.com/blevesearch/snowballstem/german"
	"github.com/blevesearch/snowballstem/hungarian"
	"github.com/blevesearch/snowballstem/irish"
	"github.com/blevesearch/snowballstem/italian"
	"github.com/blevesearch/snowballstem/norwegian"
	"github.com/blevesearch/snowballstem/portuguese"
	"github.com/blevesearch/snowballstem/romanian"
	"github.com/blevesearch/snowballstem/russian"
	"github.com/blevesearch/snowballstem/spanish"
	"github.com/blevesearch/snowballstem/swedish"
	"github.com/blevesearch/snowballstem/tamil"
	"github.com/blevesearch/snowballstem/turkish"
	"golang.org/x/text/unicode/norm"
)

// analysis is the version of the way from texts to terms: an index that was made another way is made anew.
const analysis = 1

// maxTerm cuts a word, in bytes: what is longer is data that nobody asks for by word.
const maxTerm = 128

// stemmer returns the Snowball stemmer of a language (ISO 639-1), or nil.
func stemmer(language string) func(*snowballstem.Env) bool {
	switch language {
	case "ar":
		return arabic.Stem
	case "da":
		return danish.Stem
	case "de":
		return german.Stem
	case "en":
		return english.Stem
	case "es":
		return spanish.Stem
	case "fi":
		return finnish.Stem
	case "fr":
		return french.Stem
	case "ga":
		return irish.Stem
	case "hu":
		return hungarian.Stem
	case "it":
		return italian.Stem
	case "nb", "nn", "no":
		return norwegian.Stem
	case "nl":
		return dutch.Stem
	case "pt":
		return portuguese.Stem
	case "ro":
		return romanian.Stem
	case "ru":
		return russian.Stem
	case "sv":
		return swedish.Stem
	case "ta":
		return tamil.Stem
	case "tr":
		return turkish.Stem
	}
	return nil
}

//go:embed stopwords.txt
var stopWords string

// stopWordsOf reads a language's lines of the list.
func stopWordsOf(language string) map[string]bool {
	if language == "nb" || language == "nn" {
		language = "no"
	}
	words := map[string]bool{}
	for line := range strings.Lines(stopWords) {
		if fields := strings.Fields(line); len(fields) > 0 && fields[0] == language {
			for _, w := range fields[1:] {
				words[w] = true
			}
		}
	}
	return words
}

// Analyzer turns texts of one language into terms. It is immutable.
type Analyzer struct {
	language string
	stop     map[string]bool
	stem     func(*snowballstem.Env) bool
}

// For makes the analyser of a language (ISO 639-1). Of languages without a stemmer, and of "", terms are the words as
// they are, in lower case.
func For(language string) *Analyzer {
	return &Analyzer{language: language, stop: stopWordsOf(language), stem: stemmer(language)}
}

// Language is what the analyser was made for.
func (a *Analyzer) Language() string { return a.language }

// Terms are the terms of a text in order, with repeats: runs of letters, marks, digits and underscores in lower case
// and canonical composition (NFC), without the language's stop words, stemmed. Ideographs and syllables, which no
// spaces part, become overlapping pairs.
func (a *Analyzer) Terms(text string) []string {
	var terms []string
	a.each(text, func(term string) { terms = append(terms, term) })
	return terms
}

// each calls f with each term.
func (a *Analyzer) each(text string, f func(term string)) {
	words(text, func(w string, joined bool) {
		if joined {
			pairs(w, f)
		} else if term := a.term(w); term != "" {
			f(term)
		}
	})
}

// words calls f with each word of a text, and whether it is of a script that spaces do not part.
func words(text string, f func(w string, joined bool)) {
	if !norm.NFC.IsNormalString(text) {
		text = norm.NFC.String(text)
	}
	start, joined := -1, false // of the word that is being read
	for i, r := range text {
		in := isWord(r)
		if start >= 0 && (!in || joined != spaceless(r)) {
			f(text[start:i], joined)
			start = -1
		}
		if in && start < 0 {
			start, joined = i, spaceless(r)
		}
	}
	if start >= 0 {
		f(text[start:], joined)
	}
}

// term is what a word becomes, "" for a stop word.
func (a *Analyzer) term(w string) string {
	if w = strings.ToLower(w); len(w) > maxTerm {
		w = w[:maxTerm]
		for !utf8.ValidString(w) {
			w = w[:len(w)-1]
		}
	}
	switch {
	case a.stop[w]:
		return ""
	case a.stem == nil:
		return w
	}
	env := snowballstem.NewEnv(w)
	a.stem(env)
	return strings.Clone(env.Current())
}

// pairs calls f with each two characters that follow each other, or the only one.
func pairs(w string, f func(term string)) {
	before, n := -1, 0
	for i, r := range w {
		if before >= 0 {
			f(w[before : i+utf8.RuneLen(r)])
		}
		before, n = i, n+1
	}
	if n == 1 {
		f(w)
	}
}

func isWord(r rune) bool {
	if r < utf8.RuneSelf {
		return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '_'
	}
	return r != utf8.RuneError && (unicode.IsLetter(r) || unicode.IsNumber(r) || unicode.IsMark(r))
}

func spaceless(r rune) bool {
	return r >= 0x2e80 && unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana)
}
