package entities

import (
	_ "embed"
	"regexp"
	"strings"

	"golang.org/x/text/language"
	"golang.org/x/text/language/display"
)

// What rules know of names besides their form: files of one name a line.
var (
	//go:embed data/first-names.txt
	firstNamesFile string
	//go:embed data/places.txt
	placesFile string
	//go:embed data/organisations.txt
	organisationsFile string
)

func lines(file string) []string {
	var list []string
	for line := range strings.Lines(file) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			list = append(list, line)
		}
	}
	return list
}

func firstNames() map[string]bool {
	set := map[string]bool{}
	for _, line := range lines(firstNamesFile) {
		for name := range strings.FieldsSeq(line) {
			set[name] = true
		}
	}
	return set
}

// gazetteer finds places and organisations by their names.
type gazetteer struct {
	country map[string]string // lower case, English or German → English name
	known   map[string]string // as written → kind
	longest int               // words of the longest name
	bytes   int               // of the longest name
}

// newGazetteer takes the countries of Unicode's CLDR, in English and German, and the lists of this package.
func newGazetteer() gazetteer {
	g := gazetteer{country: map[string]string{}, known: map[string]string{}}
	add := func(name, kind string) {
		g.known[name] = kind
		g.longest = max(g.longest, len(strings.Fields(name)))
		g.bytes = max(g.bytes, len(name))
	}
	english, german := display.English.Regions(), display.German.Regions()
	for a := 'A'; a <= 'Z'; a++ {
		for b := 'A'; b <= 'Z'; b++ {
			r, err := language.ParseRegion(string([]rune{a, b}))
			if err != nil || !r.IsCountry() || r.Canonicalize() != r {
				continue
			}
			name := english.Name(r)
			for _, form := range []string{name, german.Name(r)} {
				if form != "" && len(form) > 3 {
					add(form, Place)
					g.country[strings.ToLower(form)] = name
				}
			}
		}
	}
	for _, x := range []struct{ file, kind string }{{placesFile, Place}, {organisationsFile, Organisation}} {
		for _, line := range lines(x.file) {
			for name := range strings.SplitSeq(line, ",") {
				add(strings.TrimSpace(name), x.kind)
			}
		}
	}
	for form, name := range map[string]string{"USA": "United States", "UK": "United Kingdom", "U.S.": "United States",
		"England": "England", "America": "America"} {
		add(form, Place)
		g.country[strings.ToLower(form)] = name
	}
	return g
}

const (
	capital  = `\p{Lu}[\p{L}\p{M}'’]+(?:-\p{Lu}[\p{L}\p{M}]+)*`
	particle = `(?:van|von|de|der|den|di|da|del|la|le|zu|bin|al|del)`
	initial  = `\p{Lu}\.`
)

// namePatterns are forms of names with the kind of their group "n".
var namePatterns = []struct {
	kind string
	form *regexp.Regexp
}{
	{Person, regexp.MustCompile(`(?:\b(?:Dr|Prof|Mr|Mrs|Ms|Sir|Lord|Lady|Professor|President|Chancellor|Senator|Herrn?|` +
		`Frau|Präsident|Präsidentin|Kanzler|Kanzlerin|Minister|Ministerin|Sultan|Pope|Papst|King|Queen|Emperor|Empress|Prince|Princess|` +
		`Duke|Saint|General|Bishop|König|Königin|Kaiser|Kaiserin|Prinz|Herzog|Bischof)\.? )+(?P<n>(?:(?:` + capital +
		`|` + initial + `|` + particle + `) ){0,3}` + capital + `)`)},
	{Organisation, regexp.MustCompile(`(?P<n>(?:(?:` + capital + `|\p{Lu}+|&|and|und) ){1,4}` +
		`(?:Inc\.?|Corporation|Corp\.?|Ltd\.?|LLC|PLC|plc|GmbH(?: & Co\. KG)?|AG|SE|KG|OHG|Company|Group|Holdings?|` +
		`University|College|Institute|Foundation|Association|Council|Committee|Commission|Agency|Party|Court|Museum|` +
		`Academy|Society|Bank|Ministry|Airlines|Airways|Universität|Hochschule|Institut|Stiftung|Verband|Partei|Sachs))`)},
	{Organisation,
		regexp.MustCompile(`(?P<n>(?:(?:` + capital + ` ){0,3}(?:University|Institute|Ministry|Department|Bank|` +
			`College|Museum|Academy|Court|Bureau|Office|Council|House) (?:of|for) (?:the )?` + capital +
			`(?: (?:(?:and|of) )?` + capital + `){0,3}))`)},
	{Organisation,
		regexp.MustCompile(`(?P<n>(?:(?:Technische[nr]?|Freie[nr]?|Deutsche[nrs]?) )?(?:Universität|Hochschule|` +
			`Institut|Ministerium|Akademie|Museum|Verein|Amt) (?:(?:für|der|des|zu) )*` + capital + `(?: und ` +
			capital +
			`)*)`)},
	{Organisation,
		regexp.MustCompile(`(?P<n>(?:Statistische[ns]? )?Bundes(?:ministerium|amtes|amt|bank|gerichtshof|gericht|` +
			`agentur|tag|rat|wehr|regierung|polizei|verfassungsgericht)(?: (?:der|des|für) ` + capital + `)?)`)},
	{Organisation, regexp.MustCompile(`(?P<n>Deutsche[nr]? (?:Bank|Bahn|Post|Telekom|Bundestag))`)},
	{Place, regexp.MustCompile(`(?P<n>(?:Lake|Mount|Cape|Port|Fort|San|Santa|New|River|Gulf of|Bay of|Isle of) ` +
		capital +
		`)`)},
	{Place, regexp.MustCompile(`(?P<n>` + capital +
		` (?:River|Sea|Ocean|Mountains|Islands?|Valley|Desert|Street|Bay|Falls|` +
		`County|Peninsula|Canyon))`)},
}

// notNames are words with a capital at the beginning of a sentence that patterns take for a part of a name.
var notNames = regexp.MustCompile(`^(?:The|A|An|This|That|In|On|At|For|From|By|Its?|His|Her|Their|Our|Die|Der|Das|Den|Dem|` +
	`Ein|Eine|Im|Am|And|But|When|Since|Zur|Zum|Firma|Verein) `)

// rules finds names by what stands before, in or behind them, by first names, and by lists.
func (f *Finder) rules(text string) []Entity {
	var out []Entity
	for _, p := range namePatterns {
		for _, at := range p.form.FindAllStringSubmatchIndex(text, -1) {
			n := p.form.SubexpIndex("n")
			start, end := at[2*n], at[2*n+1]
			if skip := notNames.FindString(text[start:end]); skip != "" {
				start += len(skip)
			}
			if !isWhole(text, start, end) || !strings.Contains(text[start:end], " ") && p.kind == Organisation &&
				!strings.HasPrefix(text[start:], "Bundes") {
				continue
			}
			out = append(out, f.named(p.kind, text, start, end))
		}
	}
	out = append(append(out, f.people(text)...), f.rulers(text)...)
	return append(out, f.listed(text)...)
}

// fullName is a first name with what follows it.
var fullName = regexp.MustCompile(`(?P<first>` + capital + `)(?: (?:` + initial + `|` + capital + `|` + particle +
	`)){0,3} ` + capital)

// people finds names that begin with a first name.
func (f *Finder) people(text string) []Entity {
	var out []Entity
	for at := 0; ; {
		m := fullName.FindStringSubmatchIndex(text[at:])
		if m == nil {
			return out
		}
		start, end := at+m[0], at+m[1]
		first := text[at+m[2] : at+m[3]]
		if f.first[first] && isWhole(text, start, end) {
			out = append(out, f.named(Person, text, start, end))
			at = end
			continue
		}
		at += m[3]
	}
}

// epithet is a ruler's or saint's name: a first name with a number, a place, or "the" with a word.
var epithet = regexp.MustCompile(`(?P<first>` + capital + `) (?:[IVX]+|(?:of|the|von|der|die) ` + capital + `)`)

func (f *Finder) rulers(text string) (out []Entity) {
	for _, m := range epithet.FindAllStringSubmatchIndex(text, -1) {
		if f.first[text[m[2]:m[3]]] && isWhole(text, m[0], m[1]) {
			out = append(out, f.named(Person, text, m[0], m[1]))
		}
	}
	return out
}

var word = regexp.MustCompile(`\p{Lu}[\p{L}\p{M}.'’-]*`)

// listed finds the names of the lists.
func (f *Finder) listed(text string) []Entity {
	var out []Entity
	for _, at := range word.FindAllStringIndex(text, -1) {
		end := at[0]
		best, kind := 0, ""
		for range f.places.longest {
			most := min(len(text), at[0]+f.places.bytes+len("."))
			if end > most {
				break
			}
			n := strings.IndexAny(text[end:most], " ,;:!?)\n\"”“")
			if n < 0 && most < len(text) {
				break // no name is as long
			}
			if n < 0 {
				n = len(text) - end
			}
			end += n
			for _, stop := range []int{end, end - 1} { // "in Spain."
				if stop > at[0] && (stop == end || strings.HasSuffix(text[:end], ".")) {
					if k, ok := f.places.known[text[at[0]:stop]]; ok {
						best, kind = stop, k
						break
					}
				}
			}
			if end == len(text) || text[end] != ' ' {
				break
			}
			end++
		}
		if kind != "" && isWhole(text, at[0], best) {
			out = append(out, f.named(kind, text, at[0], best))
		}
	}
	return out
}
