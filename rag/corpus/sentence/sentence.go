// Package sentence splits texts into sentences.
package sentence

import (
	"iter"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/rivo/uniseg"

	"github.com/sluice-rag/sluice/rag/corpus/doc"
)

// sentenceWindow bounds the text given to the sentence breaker at once: its look-ahead is quadratic in the worst case,
// and no sentence of that length fits a chunk.
const sentenceWindow = 16 << 10

// sourceMarks are the last mark of a sentence and the sources that are named directly behind it: "old.[12][13]".
var sourceMarks = regexp.MustCompile(`[.!?…]["'”’»“]*(?:\[[^\[\]]{1,40}\])+`)

// asClosing replaces the sources behind a sentence's last mark by as many bytes of closing brackets, which the Unicode
// rules leave with the sentence.
func asClosing(s string) string {
	n := strings.IndexByte(s, '[')
	return s[:n] + strings.Repeat(")", len(s)-n)
}

// Split splits s into sentences. They cover all of s except white space.
func Split(text string, s doc.Span) iter.Seq[doc.Span] {
	return func(yield func(doc.Span) bool) {
		add := func(start, end int) bool {
			t := (doc.Span{Start: start, End: end}).Trim(text)
			return t.End == t.Start || yield(t)
		}
		flatten := strings.NewReplacer("\n", " ", "\r", " ")
		for s.Start < s.End {
			end := s.End
			if end-s.Start > sentenceWindow {
				end = CutPoint(text, doc.Span{Start: s.Start, End: s.Start + sentenceWindow}, s.Start+sentenceWindow-1)
			}
			// The algorithm would take a line break inside a block for a sentence break.
			flat := flatten.Replace(text[s.Start:end])
			if strings.Contains(flat, "[") {
				flat = sourceMarks.ReplaceAllStringFunc(flat, asClosing)
			}
			for start, at, state := s.Start, s.Start, -1; flat != ""; {
				var one string
				one, flat, state = uniseg.FirstSentenceInString(flat, state)
				at += len(one)
				if flat == "" || !abbreviated(text[start:at], flat) {
					if !add(start, at) {
						return
					}
					start = at
				}
			}
			s.Start = end
		}
	}
}

// CutPoint returns the boundary in s nearest to at: behind a run of white space, else of a rune. It is never an end of
// s unless s is a single rune.
func CutPoint(text string, s doc.Span, at int) int {
	before := strings.LastIndexFunc(text[s.Start:at], unicode.IsSpace)
	after := strings.IndexFunc(text[at:s.End], unicode.IsSpace)
	if before >= 0 {
		_, n := utf8.DecodeRuneInString(text[s.Start+before:])
		before += s.Start + n
	}
	if after >= 0 {
		_, n := utf8.DecodeRuneInString(text[at+after:])
		after += at + n
	}
	switch {
	case before > s.Start && (after < 0 || after >= s.End || at-before <= after-at):
		return before
	case after >= 0 && after < s.End:
		return after
	}
	for at > s.Start && !utf8.RuneStart(text[at]) {
		at--
	}
	if at == s.Start {
		_, n := utf8.DecodeRuneInString(text[at:])
		at += n
	}
	return at
}

// abbreviated reports whether sentence, which the Unicode rules end before next, continues: its final mark belongs to a
// quotation ("Stop!" he said) or a name, or its dot to an abbreviation, an initial, a number of a list, or a German
// ordinal.
func abbreviated(sentence, next string) bool {
	if isWithin(sentence, next) {
		return true
	}
	sentence = strings.TrimRightFunc(sentence, unicode.IsSpace)
	next = strings.TrimLeftFunc(next, unicode.IsSpace)
	if r, _ := utf8.DecodeRuneInString(next); unicode.IsLower(r) {
		return strings.TrimRight(sentence, "\"'”’»“)]") != sentence || isName(sentence)
	}
	s, ok := strings.CutSuffix(sentence, ".")
	if !ok {
		return false
	}
	at := strings.LastIndexFunc(s, unicode.IsSpace) + 1
	word, before := s[at:], lastWord(s[:at])
	whole := before == ""
	word = strings.TrimLeft(word, "([{\"'„“‚‘«»")
	lower := strings.ToLower(word)
	following, _, _ := strings.Cut(next, " ")
	number := following != "" && following[0] >= '0' && following[0] <= '9'
	following = strings.TrimRight(following, ".,;:!?)")
	first, _ := utf8.DecodeRuneInString(following)
	switch {
	case doc.OneOf(lower, abbreviations),
		number && (doc.OneOf(lower, numbered) || strings.HasSuffix(lower, "str")),
		lower == "co" && doc.OneOf(following, legalForms),
		isAcronym(word) && unicode.IsLetter(first) && !doc.OneOf(following, starts):
		return true
	}
	if r, n := utf8.DecodeRuneInString(word); n == len(word) && unicode.IsLetter(r) {
		return word != "I" // an initial, or the first half of "z. B."
	}
	if strings.Trim(word, "0123456789") != "" || word == "" || len(word) > 2 {
		return false
	}
	return whole || doc.OneOf(following, counted) || doc.OneOf(strings.ToLower(before), articles)
}

// isWithin reports whether the mark at the end of sentence stands within a word or an address: ".NET", "b?Id=3".
func isWithin(sentence, next string) bool {
	if next == "" || sentence == strings.TrimRight(sentence, ".!?") {
		return false
	}
	isOne := len(strings.TrimRight(sentence, ".!?")) == len(sentence)-1
	return strings.IndexByte("=&/_+", next[0]) >= 0 ||
		isOne && next[0] < utf8.RuneSelf && (unicode.IsLetter(rune(next[0])) || unicode.IsDigit(rune(next[0])))
}

// isName reports whether the mark at the end of a sentence, behind which small letters follow, belongs to a name, as in
// "The dbg! macro" or "the ? operator". People who begin their sentences with small letters end them so, too.
func isName(sentence string) bool {
	at := strings.IndexFunc(sentence, unicode.IsLetter)
	if at < 0 {
		return false
	}
	first, _ := utf8.DecodeRuneInString(sentence[at:])
	return unicode.IsUpper(first) && (strings.HasSuffix(sentence, "!") || strings.Trim(lastWord(sentence), "?") == "")
}

// lastWord returns the last word of s, or "" if s has no words.
func lastWord(s string) string {
	s = strings.TrimRightFunc(s, unicode.IsSpace)
	return s[strings.LastIndexFunc(s, unicode.IsSpace)+1:]
}

// isAcronym reports whether word is capitals with dots between them, without the last dot: "U.S".
func isAcronym(word string) bool {
	if len(word) < 3 || len(word)%2 == 0 {
		return false
	}
	for i := range len(word) {
		if i%2 == 0 && (word[i] < 'A' || word[i] > 'Z') || i%2 == 1 && word[i] != '.' {
			return false
		}
	}
	return true
}

// starts are words that begin a sentence rather than continue one after "U.S.".
const starts = " A An The This That These Those He She It They We You I His Her Its Their Our My There Here In On " +
	"At By For From With After Before When While As If But And However Both Some Many Most Several No Nobody " +
	"What Who Where Why How Since During Although Then Today Now Der Die Das Er Sie Es Ein Eine Im Am "

// legalForms may follow "& Co.".
const legalForms = " KG KGaA OHG Inc Ltd LLC AG GmbH Limited "

// articles stand before a number with a dot that is a German ordinal ("das 1. Tor"), in lower case.
const articles = " der die das dem den des im am vom zum zur beim ins wurde als "

// abbreviations are common in English or German, and a capital may follow them; in lower case, without the last dot.
const abbreviations = " dr mr mrs ms prof st jr sr rev gen col capt lt sgt gov sen rep hon vs cf e.g i.e eg ie " +
	"approx dept univ bros resp viz mt ft bzw ca fa d.h z.b u.a u.ä o.ä vgl evtl ggf inkl exkl hrsg hr fr frl " +
	"str dipl ing habil geb gest mio mrd mind sog s.o s.u u.u v.a v.chr n.chr zzgl zit i.d.r i.a z.t m.e o.g " +
	"einschl jan feb aug sept okt nov dez "

// numbered are abbreviations only before a number, and otherwise words.
const numbered = " no nos nr fig figs eq eqs sec ch vol p pp ed ref refs abb abs art aufl bd bde tel tab kap anm " +
	"max min mar apr jun jul sep oct dec s "

// counted may follow a German ordinal ("am 3. Oktober", "das 19. Jahrhundert").
const counted = " Januar Jänner Februar März April Mai Juni Juli August September Oktober November Dezember Jan " +
	"Feb Apr Jun Jul Aug Sep Sept Okt Nov Dez Jahrhundert Jahrhunderts Jh Jahrtausend Platz Auflage Kapitel " +
	"Klasse Lebensjahr Mal Band Teil Stock Weltkrieg Weltkriegs Geburtstag Bundestag Armee "

// Ends returns the offsets behind each sentence of unmarked text, in order. Line breaks are ends between
// paragraphs, before list items, and where lines are items of their own.
func Ends(text string) []int {
	var ends []int
	for b := range doc.PlainBlocks(text, doc.Span{Start: 0, End: len(text)}) {
		for s := range Split(text, b.Span) {
			ends = append(ends, s.End)
		}
	}
	return ends
}
