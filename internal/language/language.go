// Package language guesses the language of a text, from its script and the frequency of its trigrams
// (github.com/abadojack/whatlanggo). It knows the languages that encoders are made for.
package language

import (
	"cmp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/abadojack/whatlanggo"
)

// sample is how many bytes of a text are looked at; more changes little.
const sample = 1 << 10

// leastLetters a text must have for a guess. Ideographs and syllables say more than letters do: they count for four.
const leastLetters = 32

// leastWords a text must have, in scripts that part words: a long identifier or a line of base64 is in no language.
const leastWords = 5

// codes are the languages that are told apart, in ISO 639-3. More would be mistaken for these more often.
const codes = "eng deu fra spa ita por nld pol ces swe dan nob fin hun ron tur vie ind rus ukr bul srp ell arb heb " +
	"pes urd hin ben tam tel tha cmn jpn kor"

// Detector guesses languages. It is made once and may be used by several goroutines.
type Detector struct {
	known whatlanggo.Options
	names map[string]string // by ISO 639-1 code
}

// New makes a detector.
func New() *Detector {
	d := &Detector{known: whatlanggo.Options{Whitelist: map[whatlanggo.Lang]bool{}}, names: map[string]string{}}
	for code := range strings.FieldsSeq(codes) {
		l := whatlanggo.CodeToLang(code)
		d.known.Whitelist[l] = true
		d.names[l.Iso6391()] = l.String()
	}
	d.names["zh"], d.names["no"], d.names["nb"] = "Chinese", "Norwegian", "Norwegian"
	return d
}

// Of returns the ISO 639-1 code of a text's language, "" where the text is too short or too odd to be sure.
func (d *Detector) Of(text string) string {
	if len(text) > sample {
		text = text[:sample]
		for !utf8.ValidString(text[max(len(text)-utf8.UTFMax, 0):]) && len(text) > sample-utf8.UTFMax {
			text = text[:len(text)-1]
		}
	}
	letters := 0
	for _, r := range text {
		switch {
		case unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul):
			letters += 4
		case unicode.IsLetter(r):
			letters++
		}
	}
	if letters < leastLetters {
		return ""
	}
	if isEnglish(text) {
		return "en"
	}
	if words(text) < leastWords && !spaceless(text) {
		return ""
	}
	info := whatlanggo.DetectWithOptions(text, d.known)
	if info.IsReliable() {
		if code := info.Lang.Iso6391(); code == "en" || info.Script != unicode.Latin || isProse(text, code) {
			return code
		}
		return ""
	}
	switch info.Script { // its languages are at least none of another script: the one that most texts are in
	case unicode.Cyrillic:
		return "ru"
	case unicode.Arabic:
		return "ar"
	case unicode.Devanagari:
		return "hi"
	}
	return ""
}

// OfQuestion returns the language of a question, which may be a few words: the language that has the most of the
// question words and articles in it, or else what Of returns if something else supports it. Trigrams alone take English
// names and technical terms for another language, and one article may be part of a name.
func (d *Detector) OfQuestion(text string) string {
	guess, hits := d.Of(text), evidence(text)
	best := leader(hits)
	switch {
	case guess == "" || guess == best:
		return best
	case guess == "en", !isLatin(text), hits[guess] >= enough:
		return guess
	case best != "":
		return best
	case hits["en"] == 0 && (hits[guess] > 0 || strings.IndexFunc(text, isForeign) >= 0 ||
		!strings.Contains(listed, guess) && len(text) >= longQuestion):
		return guess
	}
	return ""
}

// listed are the languages that functionWords knows besides English.
const listed = "de fr es it pt nl"

// longQuestion has enough bytes for a guess by trigrams alone of a language that is not listed.
const longQuestion = 60

// enough is the evidence that another language than English needs: a question word, or two other words.
const enough = 2

// evidence counts the function words of a text by language; question words count twice.
func evidence(text string) map[string]int {
	hits := map[string]int{}
	for word := range strings.FieldsSeq(strings.ToLower(text)) {
		word = strings.Trim(word, ".,;:?!¿¡\"'()„“”«»")
		for code := range strings.FieldsSeq(functionWords(word)) {
			hits[code]++
			if strings.Contains(questionWords, " "+word+" ") {
				hits[code]++
			}
		}
	}
	return hits
}

// leader returns the language with the most evidence, or "" if that is too little or two languages have as much.
func leader(hits map[string]int) string {
	best, most, second := "", 0, 0
	for code, n := range hits {
		switch {
		case n > most:
			best, most, second = code, n, most
		case n > second:
			second = n
		}
	}
	if most == second || best != "en" && most < enough {
		return ""
	}
	return best
}

// isLatin reports whether a text's first letter is of the Latin script.
func isLatin(text string) bool {
	at := strings.IndexFunc(text, unicode.IsLetter)
	if at < 0 {
		return false
	}
	r, _ := utf8.DecodeRuneInString(text[at:])
	return unicode.Is(unicode.Latin, r)
}

// isForeign reports whether English has a letter in names only.
func isForeign(r rune) bool { return r >= utf8.RuneSelf && unicode.IsLetter(r) }

// questionWords are question words that are not spelt like a frequent English word.
const questionWords = " who what when where why how which whose wer wann wo warum wie welche welcher welches wieso " +
	"wem woher quel quelle quels quelles qui quand où pourquoi combien est-ce qué quién cuándo dónde cómo cuál cuánto " +
	"cuántos che chi quando perché quanto quali quanti quante quem como onde quais wat wanneer waar waarom hoe welke "

// functionWords returns the languages in which a word is a question word, an article, or another frequent word. A word
// that is frequent in a language with another meaning counts for that language, too.
func functionWords(word string) string {
	switch word {
	case "what", "who", "when", "where", "why", "how", "which", "whose", "the", "does", "did", "is", "are", "of", "and",
		"from", "with", "without", "that", "this", "should", "it", "if", "or", "my", "can", "only":
		return "en"
	case "was":
		return "en de"
	case "wer", "wann", "wo", "warum", "wie", "welche", "welcher", "welches", "wieso", "wem", "wen", "woher", "ist",
		"sind", "der", "das", "ein", "eine", "und", "nicht", "hat", "kann", "im", "von", "wurde",
		"wurden", "wird", "zu":
		return "de"
	case "die":
		return "de nl"
	case "des":
		return "de fr"
	case "quel", "quelle", "quels", "quelles", "qui", "quand", "où", "pourquoi", "comment", "combien", "est-ce", "le",
		"les", "est", "du":
		return "fr"
	case "la":
		return "fr es it"
	case "quando":
		return "it pt"
	case "que", "de":
		return "fr es pt"
	case "qué", "quién", "cuándo", "dónde", "cómo", "cuál", "cuánto", "cuántos", "el", "los", "las", "es":
		return "es"
	case "por":
		return "es pt"
	case "che", "chi", "come", "cosa", "dove", "perché", "quale", "quali", "quanto", "quanti", "quante", "il", "gli",
		"è", "di", "della", "nel", "sono":
		return "it"
	case "qual":
		return "it pt"
	case "un":
		return "fr es it"
	case "una", "del":
		return "es it"
	case "o", "como", "quem", "onde", "quais", "os", "são", "é":
		return "pt"
	case "wat", "wanneer", "waar", "waarom", "hoe", "welke", "het", "een", "zijn", "wie's":
		return "nl"
	}
	return ""
}

// isProse reports whether a text can be prose in a language other than English that is written in Latin letters: most
// of its words are letters alone, without capitals within, and one in sixteen is a function word if the language's are
// listed. Lists of identifiers and source code have trigrams of any language.
func isProse(text, code string) bool {
	words, plain := 0, 0
	for word := range strings.FieldsSeq(text) {
		words++
		word = strings.TrimFunc(word, func(r rune) bool { return !unicode.IsLetter(r) })
		if word == "" {
			continue
		}
		_, first := utf8.DecodeRuneInString(word)
		inner := word[first:]
		if strings.IndexFunc(inner, func(r rune) bool { return !unicode.IsLower(r) && !unicode.IsMark(r) }) < 0 ||
			strings.ToUpper(word) == word && letters(word) {
			plain++
		}
	}
	if 3*plain < 2*words {
		return false
	}
	return words < 16 || !strings.Contains(listed, code) || 16*evidence(text)[code] >= words
}

// letters reports whether a word has no other characters than letters and their marks.
func letters(word string) bool {
	return strings.IndexFunc(word, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsMark(r) }) < 0
}

// words counts the words of letters, as far as leastWords.
func words(text string) (n int) {
	for word := range strings.FieldsSeq(text) {
		word = strings.TrimFunc(word, unicode.IsPunct)
		if word != "" && letters(word) {
			if n++; n == leastWords {
				return n
			}
		}
	}
	return n
}

// spaceless reports whether a text begins in a script without spaces between words.
func spaceless(text string) bool {
	for _, r := range text {
		if unicode.IsLetter(r) {
			return unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai)
		}
	}
	return false
}

// isEnglish decides by function words, which suffice for most questions and cost a thousandth of the work: two
// different ones, and one word in fourteen, which no text of another language that quotes English has.
func isEnglish(text string) bool {
	first, different, hits, words := "", false, 0, 0
	for word := range strings.FieldsSeq(text) {
		words++
		switch word = strings.ToLower(strings.Trim(word, ".,;:?!\"'()")); word {
		case "the", "of", "what", "how", "does", "which", "when", "where", "why", "and", "with", "from":
			hits++
			first = cmp.Or(first, word)
			different = different || word != first
		}
	}
	return different && 14*hits >= words
}

// Name returns the English name of a language by its ISO 639-1 code; of an unknown one, the code.
func (d *Detector) Name(code string) string {
	if name, ok := d.names[code]; ok {
		return name
	}
	return code
}
