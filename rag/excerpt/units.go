package excerpt

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/sluice-rag/sluice/rag/corpus/doc"
	"github.com/sluice-rag/sluice/rag/corpus/sentence"
)

// What is shown of a passage at a time. Words are counted as starts counts them.
const (
	mostWords  = 60 // of a unit; a longer sentence is cut
	leastWords = 8  // of a piece of a sentence
	longRun    = 24 // characters without a space that count as one word
)

// splitter cuts a passage into units: sentences, items of lists, rows of tables, statements of code.
type splitter struct {
	passage string
	units   []Sentence
}

// split cuts a passage into units that hold a letter or a digit, in the order of the passage, without overlap.
func split(passage string) []Sentence {
	s := &splitter{passage: passage}
	prose := 0 // where the prose begins that has not been cut yet
	for _, b := range blocks(passage) {
		s.prose(prose, b.start)
		if b.code {
			s.code(b)
		} else {
			s.table(b)
		}
		prose = b.end
	}
	s.prose(prose, len(passage))
	return s.units
}

// prose cuts what is neither code nor a table.
func (s *splitter) prose(start, end int) {
	text, from := s.passage[start:end], 0
	for _, to := range sentence.Ends(text) {
		s.add(Sentence{Start: start + from, End: start + to})
		from = to
	}
}

// add adds a unit without the white space around it, in pieces if it is too long.
func (s *splitter) add(u Sentence) {
	text := s.passage[u.Start:u.End]
	left := strings.TrimLeftFunc(text, unicode.IsSpace)
	u.Start = u.End - len(left)
	u.End = u.Start + len(strings.TrimRightFunc(left, unicode.IsSpace))
	for i, p := range pieces(s.passage[u.Start:u.End]) {
		v := u
		v.Start, v.End = u.Start+p.start, u.Start+p.end
		v.Text = s.passage[v.Start:v.End]
		v.Leans = u.Leans || i > 0 && !p.alone
		v.Item = i == 0 && doc.IsListItem(v.Text)
		if strings.ContainsFunc(v.Text, isWord) {
			s.units = append(s.units, v)
		}
	}
}

func isWord(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) }

// piece is a part of a sentence.
type piece struct {
	start, end int
	alone      bool // it can be understood without the one before it
}

// pieces cuts a sentence that is too long where a clause ends, or else between words: each piece is as long as it may
// be, and ends at the best place that it can reach.
func pieces(sentence string) (list []piece) {
	words := starts(sentence)
	if len(words) <= mostWords {
		return []piece{{end: len(sentence)}}
	}
	from, alone := 0, true
	for len(words)-from > mostWords {
		best, at := -1, 0
		for i := from + leastWords; i <= min(from+mostWords, len(words)-leastWords); i++ {
			if c := clause(sentence, words, i); c >= best {
				best, at = c, i
			}
		}
		end := words[at]
		list = append(list, piece{words[from], len(strings.TrimRightFunc(sentence[:end], unicode.IsSpace)), alone})
		from, alone = at, best == atMark && !joins(sentence[end:])
	}
	return append(list, piece{words[from], len(sentence), alone})
}

// How good a place between two words is to cut at.
const (
	atWord = iota
	atComma
	atClause // a comma with a conjunction or a relative pronoun behind it
	atMark   // a semicolon, a colon, a dash, the border of a cell
)

// clause returns how good the place before word i is for a cut.
func clause(sentence string, words []int, i int) int {
	before := strings.TrimRight(sentence[words[i-1]:words[i]], " \t\r\n\"'”’»“)]")
	switch r, _ := utf8.DecodeLastRuneInString(before); r {
	case ';', ':', '–', '—', '|', '；', '：':
		return atMark
	case '-':
		if before == "-" || before == "--" {
			return atMark
		}
	case ',', '，', '、':
		if joins(sentence[words[i]:]) {
			return atClause
		}
		return atComma
	}
	return atWord
}

// joins reports whether a text begins with a word that joins a clause to the one before it: a conjunction or a relative
// pronoun of English or German.
func joins(text string) bool {
	end := strings.IndexFunc(text, func(r rune) bool { return !unicode.IsLetter(r) })
	if end < 0 {
		end = len(text)
	}
	if end > longRun {
		return false
	}
	switch strings.ToLower(text[:end]) {
	case "and", "but", "or", "nor", "so", "yet", "for", "because", "although", "though", "while", "whereas", "when",
		"where", "which", "who", "whom", "whose", "that", "if", "unless", "until", "since", "as", "after", "before",
		"including", "with",
		"und", "aber", "oder", "denn", "sondern", "doch", "jedoch", "weil", "da", "obwohl", "während", "wenn", "wo",
		"wobei", "wodurch", "womit", "wofür", "woraus", "als", "nachdem", "bevor", "bis", "damit", "dass", "daß",
		"sodass", "sowie", "der", "die", "das", "dem", "den", "deren", "dessen", "denen", "welcher", "welche",
		"welches", "indem", "darunter":
		return true
	}
	return false
}

// starts returns the places where the words of a text begin. Words are separated by white space; of a long one, and of
// scripts without spaces between words, each few characters count as one, so that any text has words.
func starts(text string) (list []int) {
	run, room := 0, 0 // characters since the last start, and how many of them make a word
	for i, r := range text {
		if unicode.IsSpace(r) {
			run = 0
			continue
		}
		wide := unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai)
		if run == 0 || run >= room {
			list, run, room = append(list, i), 0, longRun
			if wide {
				room = 2
			}
		} else if wide {
			room = min(room, 2)
		}
		run++
	}
	return list
}
