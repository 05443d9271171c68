package quote

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/sluice-rag/sluice/rag/excerpt"
)

// mostListed is how many words of a list are quoted together at most.
const mostListed = 200

// around returns which sentences of a passage a quote of sentence i needs, [from, to): the list, or the sentence, that
// i leads in to; the sentence that is interrupted by what is shown, such as a command; all steps of a numbered list,
// if i is one and the question asks how something is done; an option of a command, if i is a further sentence about
// it; the one before, if i leans on it.
func (o Options) around(of []excerpt.Sentence, passage string, i int) (from, to int) {
	from, to = i, i+1
	begin, end := interrupted(of, passage, i)
	switch {
	case leadsIn(of, i):
		_, to = list(of, passage, to)
	case end-begin > 1:
		from, to = begin, end
	case of[i].Item && unicode.IsDigit(rune(of[i].Text[0])) && asksHow(o.Question):
		if from, to = list(of, passage, i); from > 0 && leadsIn(of, from-1) {
			from--
		}
	case isNamed(of, i, to) && to < len(of) && paragraph(of, passage, to) == to && !isOption(of[to].Text):
		to++
	case strings.HasSuffix(of[i].Text, ":") && to < len(of):
		to = shown(of, to)
	case option(of, passage, i) >= 0:
		from = option(of, passage, i)
		if wordsIn(of[from:to]) > mostListed {
			from = i
		}
	case i > 0 && (of[i].Leans || leans(of[i].Text)):
		from--
	}
	words := wordsIn(of[from:to])
	for to-from > 1 && words > mostListed {
		if from < i {
			words -= len(strings.Fields(of[from].Text))
			from++
		} else {
			to--
			words -= len(strings.Fields(of[to].Text))
		}
	}
	return from, to
}

// mostShown is how many words of code are quoted together at most, unless a statement has more.
const mostShown = 60

// shown returns where what a lead-in shows ends, which begins at sentence i: a sentence, or code, which the name of its
// file may stand before.
func shown(of []excerpt.Sentence, i int) int {
	to := i + 1
	if !of[i].Code && (to == len(of) || !of[to].Code || wordsIn(of[i:to]) > 4) {
		return to
	}
	for to < len(of) && of[to].Code && (to == i+1 && !of[i].Code || wordsIn(of[i:to+1]) <= mostShown) {
		to++
	}
	return to
}

// interrupted returns a sentence that stops at the end of its paragraph, what is shown behind it, such as a command,
// and the rest of the sentence, if i is a part of these; else i alone.
func interrupted(of []excerpt.Sentence, passage string, i int) (from, to int) {
	for from = i; from >= 0 && i-from <= mostBehind; from-- {
		if to = afterDisplay(of, passage, from); to > max(i, from+1) {
			return from, to
		}
	}
	return i, i + 1
}

const (
	mostBehind    = 3  // parts behind the first one of a sentence that is interrupted
	mostOfDisplay = 20 // words of what is shown in a paragraph of its own, unless it is code
	leastOfBefore = 3  // words before it
)

// afterDisplay returns where what interrupts sentence i ends, with the rest of the sentence; i+1 if nothing does.
func afterDisplay(of []excerpt.Sentence, passage string, i int) int {
	ends := func(i int) bool { return i+1 == len(of) || strings.Contains(passage[of[i].End:of[i+1].Start], "\n\n") }
	to := i + 1
	if to == len(of) || !ends(i) || of[i].Code || of[to].Item || isEnded(of[i].Text) ||
		len(strings.Fields(of[i].Text)) < leastOfBefore || strings.Contains(of[i].Text, " | ") {
		return i + 1
	}
	goesOn := func(i int) bool {
		r, _ := utf8.DecodeRuneInString(of[i].Text)
		return unicode.IsLower(r) && !of[i].Code
	}
	switch {
	case of[to].Code:
		to = shown(of, to)
	case ends(to) && !isEnded(of[to].Text) && len(strings.Fields(of[to].Text)) <= mostOfDisplay:
		to++
	case goesOn(to):
		return to + 1
	default:
		return i + 1
	}
	if to < len(of) && goesOn(to) {
		to++
	}
	return to
}

// isEnded reports whether a text ends as a sentence or a lead-in does.
func isEnded(text string) bool {
	r, _ := utf8.DecodeLastRuneInString(strings.TrimRight(text, "\"'”’»)]*_"))
	return strings.ContainsRune(".!?:;…。！？", r)
}

func wordsIn(of []excerpt.Sentence) (words int) {
	for _, s := range of {
		words += len(strings.Fields(s.Text))
	}
	return words
}

// mostNames is how many words the names of an option have that stand in a paragraph of their own.
const mostNames = 8

// option returns the first sentence of the paragraph or item of sentence i if that begins with an option of a command,
// or of the paragraph before if that has only its names, else -1: what is said about an option is little without them.
func option(of []excerpt.Sentence, passage string, i int) int {
	first := paragraph(of, passage, i)
	if isOption(of[first].Text) {
		return first
	}
	if first > 0 && !of[first].Item {
		names := paragraph(of, passage, first-1)
		if isNamed(of, names, first) {
			return names
		}
	}
	return -1
}

// length is how many sentences a quote of sentence i has that extends over [from, to). The names of an option do not
// count, and an interrupted sentence is one.
func length(of []excerpt.Sentence, passage string, from, i, to int) int {
	if isNamed(of, from, i) {
		return to - i
	}
	if at, end := interrupted(of, passage, i); at == from && end == to {
		return 1
	}
	return to - from
}

// isNamed reports whether the sentences from one on to another are the names of an option.
func isNamed(of []excerpt.Sentence, from, to int) bool {
	return from < to && isOption(of[from].Text) && wordsIn(of[from:to]) <= mostNames
}

// paragraph returns the first sentence of the paragraph or item of sentence i.
func paragraph(of []excerpt.Sentence, passage string, i int) int {
	for i > 0 && !of[i].Item && !strings.Contains(passage[of[i-1].End:of[i].Start], "\n\n") {
		i--
	}
	return i
}

// isOption reports whether a text begins with the name of an option of a command.
func isOption(text string) bool {
	name := strings.TrimLeft(strings.TrimPrefix(text, "- "), "`*")
	return len(name) > 1 && name[0] == '-' && (name[1] == '-' || unicode.IsLetter(rune(name[1])))
}

// leadsIn reports whether sentence i ends in a colon, and a list follows.
func leadsIn(of []excerpt.Sentence, i int) bool {
	return i+1 < len(of) && of[i+1].Item && strings.HasSuffix(of[i].Text, ":")
}

// list returns the list that has sentence i, an item: further sentences of an item are on its last line.
func list(of []excerpt.Sentence, passage string, i int) (from, to int) {
	goesOn := func(i int) bool { return !strings.Contains(passage[of[i-1].End:of[i].Start], "\n") }
	for from, to = i, i+1; to < len(of) && (of[to].Item || goesOn(to)); to++ {
	}
	for j := i - 1; j >= 0; j-- {
		if of[j].Item {
			from = j
		} else if j == 0 || !goesOn(j) {
			break
		}
	}
	return from, to
}

// asksForWay reports whether a question in English or German asks how something is done, or for an option.
func asksForWay(question string) bool {
	return asksHow(question) || slices.ContainsFunc(strings.Fields(strings.ToLower(question)), func(word string) bool {
		switch strings.TrimRight(word, "?,.") {
		case "option", "options", "flag", "flags", "switch", "parameter", "optionen", "schalter":
			return true
		}
		return false
	})
}

// asksHow reports whether a question in English or German asks how something is done, so that steps answer it.
func asksHow(question string) bool {
	words := strings.Fields(strings.ToLower(question))
	if len(words) < 3 {
		return false
	}
	switch words[0] + " " + words[1] {
	case "how do", "how to", "how can", "how should", "how must", "how could", "how would", "how is", "how are",
		"wie kann", "wie können", "wie muss", "wie soll", "wie sollte", "wie wird", "wie werden":
		return true
	}
	return words[0] == "wie" && (words[2] == "ich" || words[2] == "man" || words[2] == "wir")
}
