package check

import (
	"regexp"
	"strings"
	"unicode"

	"github.com/sluice-rag/sluice/rag/corpus/sentence"
	"github.com/sluice-rag/sluice/rag/prompt"
)

// stretch is a sentence of a text.
type stretch struct {
	Text       string
	Start, End int // bytes within the text
}

// stretches cuts a text into sentences, and drops those without a letter or a digit.
func stretches(text string) (list []stretch) {
	start := 0
	for _, end := range sentence.Ends(text) {
		left := strings.TrimLeftFunc(text[start:end], unicode.IsSpace)
		s := stretch{Text: strings.TrimRightFunc(left, unicode.IsSpace), Start: end - len(left)}
		s.End = s.Start + len(s.Text)
		if strings.ContainsFunc(s.Text, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) }) {
			list = append(list, s)
		}
		start = end
	}
	return list
}

// split cuts an answer into sentences; a row of a table and a line of code count as one each. Citations are replaced by
// spaces.
func split(answer string) (list []stretch) {
	answer = prompt.BlankCitations(answer)
	add := func(start, end int) {
		for _, s := range stretches(answer[start:end]) {
			s.Start, s.End = s.Start+start, s.End+start
			list = append(list, s)
		}
	}
	start, at, code := 0, 0, false
	for line := range strings.Lines(answer) {
		t := strings.TrimSpace(line)
		fence := strings.HasPrefix(t, "```")
		if fence || code || strings.HasPrefix(t, "|") || strings.HasPrefix(t, "#") {
			add(start, at)
			if !fence {
				add(at, at+len(line))
			}
			start = at + len(line)
		}
		if fence {
			code = !code
		}
		at += len(line)
	}
	add(start, at)
	return list
}

// unknowing matches an answer that says that the passages do not tell, or that the writer does not know.
var unknowing = regexp.MustCompile(`(?i)\b(?:i|we) (?:really |just |still )?(?:do not|don['’]t|cannot|can['’]t|can not|could not|` +
	`couldn['’]t|am not able to|am unable to|am not sure|am sorry|have no|was not able to)\b|` +
	`\b(?:passages?|texts?|contexts?|sources?|documents?|excerpts?) ` +
	`(?:given |provided |above |shown )?(?:(?:do|does|did|is|are|was|were|has|have|can|could)(?: not|n['’]t)|cannot) ` +
	`(?:\w+ ){0,2}?(?:know|say|mention|mentioned|state|stated|specify|specified|provide|provided|contain|answer|` +
	`determine|determined|found|tell|given|include|included|known|clear|possible|available)\b|` +
	`\b(?:no|not enough|insufficient|lack of) (?:\w+ ){0,2}information\b|` +
	`\bwei(?:ß|ss) (?:ich |es |das )*nicht|\bkeine (?:\S+ )?(?:Information|Angabe|Antwort)|geht nicht (?:\S+ ){0,6}hervor|` +
	`nicht (?:erwähnt|angegeben|genannt|enthalten|bekannt|beantwort)`)

// about lists words with which answers refer to the passages, as in "according to the text". They need no backing.
const about = "according based passage passages text texts context contexts source sources document documents provided " +
	"given mentioned stated states information answer question following above below excerpt paragraph article " +
	"laut gemäß Passage Text Texte Kontext Quelle Quellen Dokument Dokumente Frage Antwort Abschnitt Auszug genannt " +
	"angegeben folgenden"
