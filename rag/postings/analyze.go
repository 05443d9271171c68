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
	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// analysis is the version of the way from texts to terms: an index that was made another way is made anew.
const analysis = 5

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
				words[folded(w)] = true
			}
		}
	}
	return words
}

// Analyzer turns texts of one language into terms. It is immutable.
type Analyzer struct {
	language string
	stop     map[string]bool
	asks     map[string]bool // terms of words that only ask
	stem     func(*snowballstem.Env) bool
}

// For makes the analyser of a language (ISO 639-1). Of languages without a stemmer, and of "", terms are the words as
// they are, case folded.
func For(language string) *Analyzer {
	a := &Analyzer{language: language, stop: stopWordsOf(language), stem: stemmer(language), asks: map[string]bool{}}
	a.each(asking, func(term string) { a.asks[term] = true })
	return a
}

// asking are words of English questions that say nothing of what is asked about. Other languages have theirs among the
// stop words, which here are fewer.
const asking = "what which who whom whose when where why how do does did done"

// Terms are the terms of a text in order, with repeats: runs of letters, marks, digits and underscores, compatibility
// forms composed (NFKC) and case folded, without the language's stop words, stemmed. Ideographs and syllables, which no
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
	text = folded(text)
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

// folded normalises the words of a text: compatibility composition (NFKC), case folding, and removal of invisible
// characters such as soft hyphens and joiners, at which UAX 29 ends no word. The text between words is left as it is,
// because the compatibility form of a symbol may be a word ("™" becomes "TM").
func folded(text string) string {
	if isASCII(text) {
		return strings.ToLower(text)
	}
	fold := cases.Fold()
	var b strings.Builder
	b.Grow(len(text))
	text = fold.String(norm.NFC.String(text))
	for at := 0; at < len(text); {
		end := at // of the word
		for size := 0; end < len(text); end += size {
			var r rune
			if r, size = utf8.DecodeRuneInString(text[end:]); !isWord(r) && !isIgnorable(r) {
				break
			}
		}
		if end == at {
			_, size := utf8.DecodeRuneInString(text[at:])
			b.WriteString(text[at : at+size])
			at += size
			continue
		}
		w := text[at:end]
		at = end
		if isASCII(w) {
			b.WriteString(w)
			continue
		}
		w = strings.Map(func(r rune) rune {
			if isIgnorable(r) {
				return -1
			}
			return r
		}, w)
		if !norm.NFKC.IsNormalString(w) {
			w = norm.NFKC.String(fold.String(norm.NFKC.String(w)))
		}
		b.WriteString(w)
	}
	return b.String()
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// isIgnorable reports whether words are the same without a character. A space without width parts words.
func isIgnorable(r rune) bool {
	return r >= utf8.RuneSelf && r != '\u200b' && unicode.In(r, unicode.Cf, unicode.Variation_Selector)
}

// term is what a word becomes, "" for a stop word.
func (a *Analyzer) term(w string) string {
	if len(w) > maxTerm {
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
