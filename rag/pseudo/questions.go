package pseudo

import (
	"regexp"
	"slices"
	"strings"
	"unicode"
)

const (
	minWords = 3
	maxWords = 40
	// maxEcho is the share of a question's word trigrams that may come from the context or the prompt:
	// names and terms must, whole sentences must not.
	maxEcho = .9
)

// decoration matches what models put before a question: numbers, bullets, labels.
var decoration = regexp.MustCompile(`^(?:[\s>*•–—#_-]+|\(?\d{1,2}[.):]\s*|(?i:q|question|frage)\s*\d*\s*[.:)]\s*)+`)

// parse cuts a completion into its questions: one a line, or one after the other, without numbering,
// bullets, labels, quotes and emphasis. What follows a question mark on its line is an entry of its own.
func parse(completion string) (questions []string) {
	for line := range strings.Lines(completion) {
		for _, part := range strings.SplitAfter(line, "?") {
			part = decoration.ReplaceAllString(strings.TrimSpace(part), "")
			part = strings.Trim(part, " \t\r\n\"'`*_“”„«»‘’")
			if strings.ContainsFunc(part, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) }) {
				questions = append(questions, part)
			}
		}
	}
	return questions
}

// interrogatives begin a question in English or German; auxiliary verbs do as well, but only a question
// mark tells those from orders and statements.
var interrogatives = strings.Fields("what who whom whose which when where why how" +
	" was wer wen wem wessen welche welcher welches welchen welchem wann wo wohin woher warum weshalb wieso wie" +
	" wodurch womit wofür wovon worin worauf worum wozu wieviel wieviele")

// statement matches the end of a sentence that is not a question.
var statement = regexp.MustCompile(`[.!:;](\s|$)`)

// aboutItself finds exam questions about the text as such ("Which of the following sentences is true?"): they
// fit every context, and small bases have too few contexts for the rank to tell.
var aboutItself = regexp.MustCompile(`(?i)\b(of the following|(this|the) (passage|sentence|paragraph)s?|de[rmn] folgenden|(diese[mnrs]?|de[mnrs]) (satz|text|abschnitt)(es|s)?)\b`)

// fault returns the reason to reject a question, by the filters that need only the texts, or "".
func fault(question string, passage, template wordSet) Reason {
	w := words(question)
	switch {
	case len(w) < minWords:
		return TooShort
	case len(w) > maxWords:
		return TooLong
	case !strings.HasSuffix(question, "?") &&
		(!slices.Contains(interrogatives, w[0]) || statement.MatchString(question)):
		return NotAQuestion
	case aboutItself.MatchString(question), passage.overlap(w) > maxEcho, template.overlap(w) > maxEcho,
		template.borrowed(w) > .5:
		return Echo
	}
	return ""
}

// words returns a text's words in lower case, without punctuation.
func words(text string) []string {
	return strings.FieldsFunc(strings.ToLower(text),
		func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsNumber(r) })
}

// normal returns a question's identity: two questions with the same words are duplicates.
func normal(question string) string { return strings.Join(words(question), " ") }

// wordSet holds the word trigrams of a text, and its words as {word, "", ""}.
type wordSet map[[3]string]bool

func wordsOf(text string) wordSet {
	set := wordSet{}
	for w := words(text); len(w) > 0; w = w[1:] {
		set[[3]string{w[0]}] = true
		if len(w) >= 3 {
			set[[3]string(w)] = true
		}
	}
	return set
}

// borrowed returns the share of w's longer words that are in the set: of the template's, it tells questions about
// the example.
func (s wordSet) borrowed(w []string) float64 {
	n, all := 0, 0
	for _, x := range w {
		if len(x) >= 5 {
			all++
			if s[[3]string{x}] {
				n++
			}
		}
	}
	return float64(n) / float64(max(all, 1))
}

// overlap returns the share of w's trigrams that are in the set.
func (s wordSet) overlap(w []string) float64 {
	if len(w) < 3 {
		return 0
	}
	n, all := 0, len(w)-2
	for ; len(w) >= 3; w = w[1:] {
		if s[[3]string(w)] {
			n++
		}
	}
	return float64(n) / float64(all)
}
