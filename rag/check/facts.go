package check

import (
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-rag/sluice/rag/entities"
)

type kind int

const (
	aNumber kind = iota
	aDate
	aName
	aQuote
)

// fact is a number, date, name or quotation of a sentence, which must stand in the place that backs it.
type fact struct {
	kind       kind
	text       string
	start, end int
	values     []float64 // of a number: any will do
	unit       string    // of a number, "" where none is known
	date       date
	keys       []string // of a name
	token      int      // of a name
	weak       bool     // a name only if the place has one that the sentence lacks
	run        int      // names that stand beside each other have the same one
	words      []string // of a quote
}

// date holds the known parts of a date; 0 stands for an unknown part.
type date struct {
	year, month, day int
	century, decade  int    // 19 for 1801 … 1900, 1860 for the 1860s
	weekday          string // a day of the week
}

// dateOf parses the value that package entities gives to a date.
func dateOf(value string) (d date) {
	value, _, _ = strings.Cut(value, " BC")
	value, _, _ = strings.Cut(value, " AD")
	if c, ok := strings.CutSuffix(value, " century"); ok {
		d.century, _ = strconv.Atoi(strings.TrimRight(c, "stndrh"))
		return d
	}
	if c, ok := strings.CutSuffix(value, "s"); ok {
		d.decade, _ = strconv.Atoi(c)
		return d
	}
	if value != "" && value[0] >= 'a' && value[0] <= 'z' {
		if strings.HasSuffix(value, "day") && !strings.HasPrefix(value, "to") && !strings.HasPrefix(value, "yester") ||
			strings.HasSuffix(value, "tag") || value == "mittwoch" || value == "sonnabend" {
			d.weekday = value
		}
		return d
	}
	if rest, ok := strings.CutPrefix(value, "--"); ok {
		value = "0-" + rest
	}
	for i, part := range strings.SplitN(value, "-", 3) {
		n, _ := strconv.Atoi(part)
		switch i {
		case 0:
			d.year = n
		case 1:
			d.month = n
		case 2:
			d.day = n
		}
	}
	return d
}

// quotation is a stretch in quotation marks.
var quotation = regexp.MustCompile(`"([^"\n]+)"|“([^”“\n]+)[”“]|„([^“”\n]+)[“”]|«([^»\n]+)»|»([^«\n]+)«`)

// elided is where a quotation leaves something out.
var elided = regexp.MustCompile(`\.\.\.|…|\[[^\]]*\]`)

// quotes finds the quotations of a text.
func quotes(text string) (facts []fact) {
	for _, at := range quotation.FindAllStringSubmatchIndex(text, -1) {
		for g := 2; g < len(at); g += 2 {
			if at[g] < 0 {
				continue
			}
			for _, part := range elided.Split(text[at[g]:at[g+1]], -1) {
				f := fact{kind: aQuote, text: strings.TrimSpace(part), start: at[g], end: at[g+1]}
				for _, t := range tokens(part) {
					f.words = append(f.words, t.key)
				}
				if len(f.words) > 0 {
					facts = append(facts, f)
				}
			}
		}
	}
	return facts
}

// claim is a sentence of an answer, analysed for the comparison.
type claim struct {
	at       int  // among the sentences
	asked    bool // the question's words are among its own
	facts    []fact
	tokens   []token
	words    map[string]float64 // the sentence's, with their weights
	rest     map[string]float64 // without those of the facts
	order    []string           // of rest
	mass     float64            // of rest
	fresh    []string           // of rest, those that the question has not
	sum      map[float64]int    // its numbers, by value
	months   map[int]bool
	dated    bool           // it has dates, or numbers with units
	keys     map[string]int // how often each name comes
	runs     map[int]string // first letters of the names that stand beside each other
	firstRun int
}

// factsOf finds a sentence's facts.
func (x *checker) factsOf(text string, list []token, found []entities.Entity, c convention) (facts []fact) {
	for _, e := range found {
		if e.Kind == entities.Date {
			if d := dateOf(e.Value); d != (date{}) {
				facts = append(facts, fact{kind: aDate, text: e.Text, start: e.Start, end: e.End, date: d})
			}
		}
	}
	for _, n := range numbersOf(text, list, c) {
		if len(n.values) == 0 || n.words && n.values[0] < 2 || partOfDate(entityAt(found, n.start), n) {
			continue
		}
		f := fact{kind: aNumber, start: n.start, end: n.end, values: n.values}
		if e := entityAt(found, n.start); e.Kind == entities.Quantity {
			f.start, f.end, f.unit = min(e.Start, n.start), max(e.End, n.end), unitOf(e)
		}
		f.text = text[f.start:f.end]
		facts = append(facts, f)
	}
	facts = append(facts, quotes(text)...)
	return append(facts, x.namesOf(list, found)...)
}

// entityAt returns the entity that covers an offset.
func entityAt(found []entities.Entity, at int) (e entities.Entity) {
	i, _ := slices.BinarySearchFunc(found, at, func(e entities.Entity, at int) int { return e.End - 1 - at })
	if i < len(found) && found[i].Start <= at {
		return found[i]
	}
	return e
}

// unitOf returns the unit of a quantity, and "" for other entities.
func unitOf(e entities.Entity) (unit string) {
	if e.Kind == entities.Quantity {
		_, unit, _ = strings.Cut(e.Value, " ")
	}
	return unit
}

// partOfDate reports whether a number is a part of a date.
func partOfDate(e entities.Entity, n number) bool {
	if e.Kind != entities.Date {
		return false
	}
	d := dateOf(e.Value)
	return slices.ContainsFunc(n.values, func(v float64) bool {
		return v == float64(d.year) || v == float64(d.month) || v == float64(d.day) || v == float64(d.century) ||
			v == float64(d.decade)
	})
}

// namesOf finds the tokens of names: capitalised words, or in German, where every noun is capitalised, the names that
// entities finds.
func (x *checker) namesOf(list []token, found []entities.Entity) (facts []fact) {
	uppers := 0
	for _, t := range list {
		if t.upper {
			uppers++
		}
	}
	shouted := len(list) >= 6 && uppers*10 > len(list)*7
	run, before := 0, -2
	for i, t := range list {
		kind := entityAt(found, t.start).Kind
		if !t.upper || kind == entities.Date || ordinary(t) || t.raw != strings.ToUpper(t.raw) && x.stop(t.raw) {
			continue
		}
		f := fact{kind: aName, text: t.raw, start: t.start, end: t.end, token: i, keys: nameKeys(t.key)}
		switch {
		case named(kind):
		case shouted, x.Language == "de":
			continue
		case i == 0 && !x.capital[t.key]:
			if x.small[t.key] || strings.HasSuffix(t.key, "ly") || strings.HasSuffix(t.key, "ing") {
				continue
			}
			f.weak = true
		}
		if before != i-1 {
			run++
		}
		before, f.run = i, run
		facts = append(facts, f)
	}
	return facts
}

func named(kind string) bool {
	return kind == entities.Person || kind == entities.Place || kind == entities.Organisation
}

// ordinary reports whether a capitalised token is not a name: a number, a single letter, a month, a title, or a word
// that often begins a sentence.
func ordinary(t token) bool {
	return len(t.raw) == 1 || roman(t) > 0 || monthNames[t.raw] > 0 || numerals[t.key] != (numeral{}) ||
		beginners[t.key] && t.raw != strings.ToUpper(t.raw)
}

// beginners lists words that often begin a sentence, in English and German, in lower case and without accents.
var beginners = func() map[string]bool {
	all := map[string]bool{}
	for w := range strings.FieldsSeq(`dr prof mr mrs ms st herr herrn frau ad bc bce ce
		the a an of and in on at by for from with without to into upon about after again against all almost already also
		although among another any anyone apart are around as because been before behind being below beneath beside besides
		between beyond both but can could despite did do does due during each earlier either else elsewhere even every
		everyone few fewer first following former further had has have he hence her here hers him his how however i if
		indeed instead is it its itself just last later latter least less like many may me might more moreover most much my
		near nearly neither never nevertheless next no nobody none nor not nothing now nowadays off often once one only or
		other others otherwise our out over own people per perhaps rather recent same several shall she should since so some
		someone something sometimes soon still such than that their them then there therefore these they this those though
		through throughout thus till today together too toward towards under unless unlike until up us very was we well were
		what whatever when whenever where whereas whether which while who whoever whole whom whose why will within would yes
		yet you your yours
		der die das den dem des ein eine einen einem einer eines und oder aber im am an auf aus bei bis durch fur gegen mit
		nach ohne um unter von vor zu zum zur er sie es wir ihr ich man sein seine seinen seinem seiner ihre ihren ihrem
		ihrer dies diese dieser dieses diesem diesen jene jener jenes dort hier heute dann danach davor dabei dazu daher
		deshalb wahrend wenn als wie wo was wer warum weil da damit dass ob obwohl auch nur noch nicht kein keine keiner
		viele vielen einige mehrere alle allen jeder jede jedes beide beiden andere anderen seit zwischen neben uber`) {
		all[w] = true
	}
	return all
}()

// content holds the numbers, dates and names of a sentence of a passage.
type content struct {
	numbers map[float64]int
	units   map[float64][]string // "" of a number without one
	order   []float64            // of the numbers that were counted
	months  map[int]bool
	spans   map[date]bool // centuries, decades and days of the week
	keys    map[string]int
	names   []token // those with a capital that name something
	// capitals are what words with a capital may be met as, initial the first letters of those beside each other.
	capitals, initial map[string]bool
	pronoun           string // among the first words
}

// contentOf analyses a sentence of a passage.
func (x *checker) contentOf(text string, found []entities.Entity, c convention) *content {
	p := &content{numbers: map[float64]int{}, units: map[float64][]string{}, months: map[int]bool{},
		spans: map[date]bool{}, keys: map[string]int{}, initial: map[string]bool{},
		capitals: map[string]bool{}}
	list := tokens(text)
	for _, n := range numbersOf(text, list, c) {
		for i, v := range n.values {
			p.numbers[v]++
			if u := unitOf(entityAt(found, n.start)); len(p.units[v]) < 4 {
				p.units[v] = append(p.units[v], u)
			}
			if i == 0 && !(n.words && v == 1) {
				p.order = append(p.order, v)
			}
		}
	}
	for _, e := range found {
		if e.Kind == entities.Date {
			p.date(dateOf(e.Value))
		}
	}
	for i, t := range list {
		if v := counted(t.key); !math.IsNaN(v) {
			p.numbers[v]++
		}
		if m := monthNames[t.raw]; m > 0 {
			p.months[m] = true
		}
		for _, k := range nameKeys(t.key) {
			p.keys[k]++
			p.capitals[k] = p.capitals[k] || t.upper
		}
		if i < 12 && p.pronoun == "" && pronoun(t.key) {
			p.pronoun = t.key
		}
		if t.upper && !ordinary(t) && (i > 0 || x.capital[t.key]) &&
			(x.Language != "de" || named(entityAt(found, t.start).Kind)) {
			p.names = append(p.names, t)
		}
	}
	p.acronyms(text, list)
	return p
}

// date adds the parts of a date.
func (p *content) date(d date) {
	for _, v := range []int{d.year, d.day, d.decade, d.century} {
		if v > 0 && p.numbers[float64(v)] == 0 {
			p.numbers[float64(v)] = 1
		}
	}
	if d.month > 0 {
		p.months[d.month] = true
	}
	if d.century+d.decade > 0 || d.weekday != "" {
		p.spans[d] = true
	}
	if d.year > 0 {
		p.spans[date{century: (d.year + 99) / 100}] = true
		p.spans[date{decade: d.year / 10 * 10}] = true
	}
}

// monthNames maps names of months to their numbers.
var monthNames = func() map[string]int {
	all := map[string]int{}
	for i, names := range []string{"January Januar Jänner Jan", "February Februar Feb", "March März Mar", "April Apr",
		"May Mai", "June Juni Jun", "July Juli Jul", "August Aug", "September Sept Sep", "October Oktober Oct Okt",
		"November Nov", "December Dezember Dec Dez"} {
		for name := range strings.FieldsSeq(names) {
			all[name] = i + 1
		}
	}
	return all
}()

// acronyms adds the first letters of capitals that follow each other, of a whole run of them or at least three, with
// "of", "the" and the like between.
func (p *content) acronyms(text string, list []token) {
	letters, end := "", 0
	for i, t := range list {
		if !t.upper && (beginners[t.key] && len(t.key) <= 3) && letters != "" {
			continue
		}
		if letters != "" && (!t.upper || strings.ContainsAny(text[end:t.start], ".,;:()\"")) {
			letters = p.acronym(letters)
		}
		if t.upper && !(i == 0 && beginners[t.key]) {
			letters, end = letters+t.key[:1], t.end
		}
	}
	p.acronym(letters)
}

// acronym adds the first letters of a run.
func (p *content) acronym(letters string) string {
	if n := len(letters); n >= 2 && n <= 6 {
		p.initial[letters] = true
	}
	for n := 3; n <= 6; n++ {
		for i := 0; i+n <= len(letters); i++ {
			p.initial[letters[i:i+n]] = true
		}
	}
	return ""
}
