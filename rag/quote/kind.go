package quote

import (
	"strings"
	"unicode"
)

// kind is the kind of answer that a question asks for, if a sentence can show it.
type kind uint8

const (
	anything kind = iota
	aTime
	aNumber
)

// kindWeights are the weights of sentences that contain the kind of answer that a question asks for.
var kindWeights = map[kind]float64{aTime: timeWeight, aNumber: numberWeight}

// kindOf reads a question in English or German. Another language's asks for anything.
func kindOf(question string) kind {
	words := strings.FieldsFunc(strings.ToLower(question), func(r rune) bool { return !unicode.IsLetter(r) })
	for i, word := range words {
		next := ""
		if i+1 < len(words) {
			next = words[i+1]
		}
		switch word {
		case "when", "wann":
			return aTime
		case "what", "which", "welches", "welchem", "welchen", "welcher":
			switch next {
			case "year", "date", "month", "decade", "century", "jahr", "jahre", "jahren", "datum", "monat", "jahrzehnt",
				"jahrhundert":
				return aTime
			case "percent", "percentage", "number", "amount", "population", "prozentsatz", "anteil", "anzahl":
				return aNumber
			}
		case "how", "wie":
			switch next {
			case "many", "much", "long", "old", "far", "large", "big", "tall", "high", "viel", "viele", "vielen",
				"lange", "lang", "alt", "weit", "groß", "hoch":
				return aNumber
			}
		case "wieviel", "wieviele":
			return aNumber
		}
	}
	return anything
}

// has reports whether a sentence names what the question asks for: a time is a year, a month or a century, and a number
// has a digit.
func (k kind) has(sentence string) bool {
	switch k {
	case aNumber:
		return strings.ContainsFunc(sentence, unicode.IsNumber)
	case aTime:
		for word := range strings.FieldsFuncSeq(sentence,
			func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsNumber(r) }) {
			if isYear(word) || isTime(word) {
				return true
			}
		}
	}
	return false
}

// isYear reports whether a word is a year of four digits to 2099, or a decade: "1960s", "1960er".
func isYear(word string) bool {
	word = strings.TrimSuffix(strings.TrimSuffix(word, "s"), "er")
	return len(word) == 4 && (word[0] == '1' || word[:2] == "20") && strings.Trim(word, "0123456789") == ""
}

func isTime(word string) bool {
	switch word {
	case "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
		"December", "century", "Century",
		"Januar", "Jänner", "Februar", "März", "Mai", "Juni", "Juli", "Oktober", "Dezember", "Jahrhundert",
		"Jahrhunderts":
		return true
	}
	return false
}
