package entities

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	monthPattern = `(?:January|February|March|April|June|July|August|September|October|November|December|May|` +
		`Januar|Jänner|Februar|März|Mai|Juni|Juli|Oktober|Dezember|` +
		`Jan\.?|Feb\.?|Mar\.?|Mär\.|Apr\.?|Jun\.?|Jul\.?|Aug\.?|Sept?\.?|Oct\.?|Okt\.|Nov\.?|Dec\.?|Dez\.)`
	yearPattern = `(?:1\d{3}|20\d{2})`
	centuries   = `first|second|third|fourth|fifth|sixth|seventh|eighth|ninth|tenth|eleventh|twelfth|thirteenth|` +
		`fourteenth|fifteenth|sixteenth|seventeenth|eighteenth|nineteenth|twentieth|twenty-first`
)

// datePatterns are the forms of dates, with names for what they hold: y, m, d (a number), name (a month), century, era.
// They are compiled once for a Finder's life, which is the program's.
var datePatterns = compile(
	`(?P<y>\d{4})-(?P<m>\d{2})-(?P<d>\d{2})`,
	`(?P<y>`+yearPattern+`)-(?P<m>\d{2})`,
	`(?P<d>\d{1,2})(?:st|nd|rd|th)?(?: of)? (?P<name>`+monthPattern+`)(?:,? (?P<y>\d{4}))?`,
	`(?P<name>`+monthPattern+`) (?P<d>\d{1,2})(?:st|nd|rd|th)?(?:,? (?P<y>\d{4}))?`,
	`(?P<d>\d{1,2})\. ?(?:(?:bis|und|oder) (?:zum )?\d{1,2}\. ?)?(?P<name>`+monthPattern+`)(?: (?P<y>\d{4}))?`,
	`(?P<name>`+monthPattern+`),? (?P<y>\d{4})`,
	`(?P<d>\d{1,2})\. ?(?P<m>\d{1,2})\. ?(?P<y>\d{4}|\d{2})`,
	`(?P<m>\d{1,2})/(?P<d>\d{1,2})/(?P<y>\d{4})`,
	`(?:(?:the )?(?:early|mid|late)[ -])?(?P<century>\d{1,2})(?:st|nd|rd|th)[ -]century(?: (?P<era>BCE?|AD|CE))?`,
	`(?P<century>\d{1,2})(?:st|nd|rd|th) (?:and|or|to) \d{1,2}(?:st|nd|rd|th) centuries(?: (?P<era>BCE?|AD|CE))?`,
	`(?:(?:early|mid|late)[ -])?(?P<century>`+centuries+`)[ -]century(?: (?P<era>BCE?|AD|CE))?`,
	`(?:(?:frühen|späten|ausgehenden) )?(?P<century>\d{1,2})\. (?:Jahrhunderts?|Jh\.)(?: (?P<era>[vn]\. ?Chr\.))?`,
	`(?:(?:the )?(?:early|mid|late)[ -])?(?P<decade>(?:1\d|20)\d0)s`,
	`(?P<decade>(?:1\d|20)\d0)er(?: Jahren?)?`,
	`(?P<y>\d{1,4}) (?P<era>BCE?|AD|CE|[vn]\. ?Chr\.)`,
	`(?P<y>`+yearPattern+`)[–-](?:`+yearPattern+`|\d{2})`,
)

// wordPatterns are dates in words, and dates that need a word before them.
var (
	dayWords = regexp.MustCompile(`(?:Monday|Tuesday|Wednesday|Thursday|Friday|Saturday|Sunday|Montag|Dienstag|` +
		`Mittwoch|Donnerstag|Freitag|Samstag|Sonnabend|Sonntag|[Tt]oday|[Yy]esterday|[Tt]omorrow|[Hh]eute|[Gg]estern)`)
	lonelyMonth = regexp.MustCompile(`(?:January|February|March|April|May|June|July|August|September|October|` +
		`November|December|Januar|Jänner|Februar|März|Mai|Juni|Juli|Oktober|Dezember)`)
	lonelyYear = regexp.MustCompile(yearPattern)
)

func compile(patterns ...string) []*regexp.Regexp {
	list := make([]*regexp.Regexp, len(patterns))
	for i, p := range patterns {
		list[i] = regexp.MustCompile(p)
	}
	return list
}

// groups returns the text of a match's groups by their names, "" of one that has none.
func groups(p *regexp.Regexp, text string, at []int) func(name string) string {
	return func(name string) string {
		i := p.SubexpIndex(name)
		if i < 0 || at[2*i] < 0 {
			return ""
		}
		return text[at[2*i]:at[2*i+1]]
	}
}

// dates finds dates. In German texts a year may stand alone.
func dates(text string, german bool) (out []Entity) {
	add := func(start, end int, value string) {
		if value != "" && isWhole(text, start, end) {
			out = append(out, Entity{Date, text[start:end], start, end, value})
		}
	}
	for _, p := range datePatterns {
		for _, at := range p.FindAllStringSubmatchIndex(text, -1) {
			add(at[0], at[1], dateValue(p, text, at))
		}
	}
	for _, at := range dayWords.FindAllStringIndex(text, -1) {
		add(at[0], at[1], strings.ToLower(text[at[0]:at[1]]))
	}
	for _, at := range lonelyMonth.FindAllStringIndex(text, -1) {
		if isCue(wordBefore(text, at[0])) {
			add(at[0], at[1], fmt.Sprintf("--%02d", monthNumber(text[at[0]:at[1]])))
		}
	}
	for _, at := range lonelyYear.FindAllStringIndex(text, -1) {
		if isCue(wordBefore(text, at[0])) || german && !nounFollows(text[at[1]:]) || isYear(text, at[0], at[1]) {
			add(at[0], at[1], text[at[0]:at[1]])
		}
	}
	return out
}

// isWhole reports whether no letter or digit, nor a number's separator with one, stands on either side.
func isWhole(text string, start, end int) bool {
	inWord := func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }
	before, n := utf8.DecodeLastRuneInString(text[:start])
	if n > 0 && (inWord(before) || before == '$' || before == '€' || before == '£') {
		return false
	}
	if n > 0 && strings.ContainsRune(".,:/-", before) {
		if r, _ := utf8.DecodeLastRuneInString(text[:start-n]); unicode.IsDigit(r) {
			return false
		}
	}
	last, _ := utf8.DecodeLastRuneInString(text[:end])
	after, n := utf8.DecodeRuneInString(text[end:])
	if n > 0 && inWord(after) && inWord(last) {
		return false
	}
	if n > 0 && unicode.IsDigit(last) && strings.ContainsRune(".,:/-", after) {
		if r, _ := utf8.DecodeRuneInString(text[end+n:]); unicode.IsDigit(r) {
			return false
		}
	}
	return true
}

// near bounds the bytes around a place that are examined: words that mark a date are shorter, and a text may have no
// spaces.
const near = 100

// wordBefore returns the word in front of a place, in lower case.
func wordBefore(text string, at int) string {
	before := strings.TrimRight(text[max(0, at-near):at], " \n\t(")
	i := strings.LastIndexFunc(before, unicode.IsSpace) + 1
	return strings.ToLower(strings.Trim(before[i:], "(,;"))
}

// isCue reports whether a year or a month alone is a date behind the word.
func isCue(word string) bool {
	switch word {
	case "in", "since", "from", "to", "until", "till", "by", "of", "before", "after", "during", "around", "circa",
		"ca.",
		"c.", "between", "year", "early", "late", "mid", "summer", "winter", "spring", "autumn", "last", "next", "this",
		"im", "seit", "von", "bis", "ab", "vor", "nach", "um", "jahr", "jahre", "jahres", "zwischen", "anfang", "ende",
		"mitte", "sommer", "herbst", "frühjahr", "frühling", "*", "†":
		return true
	}
	// "between 1939 and 1945", "from 1831 to 1836" have their own words; what is left is "1939 and 1945"
	return word == "and" || word == "und"
}

// isYear reports whether a number that may be a year stands as one does: alone in parentheses, behind an article before
// a name ("the 1973 oil crisis"), or behind a name ("the Scotland Act 1998,").
func isYear(text string, start, end int) bool {
	if strings.HasSuffix(text[:start], "(") {
		return strings.HasPrefix(text[end:], ")")
	}
	switch wordBefore(text, start) {
	case "the", "its", "his", "her", "their", "a", "an":
		next, _, _ := strings.Cut(strings.TrimLeft(text[end:min(end+near, len(text))], " "), " ")
		return text[start] != '1' || text[start+1] > '4' || nounFollows(text[end:]) || !strings.HasSuffix(next, "s")
	}
	before := strings.TrimRight(text[max(0, start-near):start], " ")
	r, _ := utf8.DecodeRuneInString(before[strings.LastIndexByte(before, ' ')+1:])
	after, n := utf8.DecodeRuneInString(text[end:])
	return unicode.IsUpper(r) && (n == 0 || strings.ContainsRune(",.;)", after)) && wordBefore(text, start) != "no."
}

// nounFollows reports whether a word with a capital follows, as a German noun that a number counts.
func nounFollows(rest string) bool {
	r, _ := utf8.DecodeRuneInString(strings.TrimLeft(rest, " "))
	return strings.HasPrefix(rest, " ") && unicode.IsUpper(r)
}

// dateValue returns a match in the form that Entity.Value has; "" if there is no such date.
func dateValue(p *regexp.Regexp, text string, at []int) string {
	group := groups(p, text, at)
	if c := group("century"); c != "" {
		n, err := strconv.Atoi(c)
		if err != nil {
			n = slices.Index(strings.Split(centuries, "|"), c) + 1
		}
		return strings.TrimSpace(ordinal(n) + " century " + eraName(group("era")))
	}
	if d := group("decade"); d != "" {
		return strings.TrimSuffix(d, "s") + "s"
	}
	if era := group("era"); era != "" {
		return strings.TrimSpace(group("y") + " " + eraName(era))
	}
	year, month, day := group("y"), group("m"), group("d")
	if len(year) == 2 { // 3.5.98
		if n, _ := strconv.Atoi(year); n < 50 {
			year = "20" + year
		} else {
			year = "19" + year
		}
	}
	m, _ := strconv.Atoi(month)
	d, _ := strconv.Atoi(day)
	if name := group("name"); name != "" {
		m = monthNumber(name)
	}
	if m > 12 && d <= 12 && strings.Contains(text[at[0]:at[1]], "/") { // 31/12/2020
		m, d = d, m
	}
	switch {
	case month == "" && group("name") == "":
		return year
	case m < 1 || m > 12 || day != "" && (d < 1 || d > 31):
		return ""
	case year == "":
		year = "-"
	}
	if day == "" {
		return fmt.Sprintf("%s-%02d", year, m)
	}
	return fmt.Sprintf("%s-%02d-%02d", year, m, d)
}

func ordinal(n int) string {
	suffix := "th"
	if n%100 < 11 || n%100 > 13 {
		switch n % 10 {
		case 1:
			suffix = "st"
		case 2:
			suffix = "nd"
		case 3:
			suffix = "rd"
		}
	}
	return strconv.Itoa(n) + suffix
}

func eraName(era string) string {
	switch {
	case strings.HasPrefix(era, "B"), strings.HasPrefix(era, "v"):
		return "BC"
	case era != "":
		return "AD"
	}
	return ""
}

// monthNumber returns 1 for January and Jänner.
func monthNumber(name string) int {
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	for i, forms := range []string{"jan jän", "feb", "mar mär", "apr", "may mai", "jun", "jul", "aug", "sep", "oct okt",
		"nov", "dec dez"} {
		for form := range strings.FieldsSeq(forms) {
			if strings.HasPrefix(name, form) {
				return i + 1
			}
		}
	}
	return 0
}
