package entities

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// units are the symbols of units with the words and forms that mean them. Those of one symbol are alternatives; a form
// of letters only in capitals or with few letters must be written so, words in any case.
const units = `
km: kilometres kilometers kilometre kilometer kilometern km
m: metres meters metre meter metern m
cm: centimetres centimeters centimetre centimeter zentimeter zentimetern cm
mm: millimetres millimeters millimetre millimeter millimetern mm
nm: nanometres nanometers nanometer nm
mi: miles mile meilen meile mi
ft: feet foot fuß ft
in: inches inch zoll
m²: m² m2 quadratmeter quadratmetern
km²: km² km2 quadratkilometer quadratkilometern
ha: hectares hectare hektar ha
m³: m³ m3 kubikmeter kubikmetern
l: litres liters litre liter litern l
ml: millilitres milliliters millilitre milliliter ml
kg: kilograms kilogrammes kilogram kilo kilogramm kg
g: grams grammes gram gramm g
mg: milligrams milligram milligramm mg
µg: micrograms microgram mikrogramm µg μg
t: tonnes tonne tons ton tonnen t
lb: pounds pound lbs lb
oz: ounces ounce unzen unze oz
s: seconds second sekunden sekunde s
ms: milliseconds millisecond millisekunden millisekunde ms
µs: microseconds microsecond mikrosekunden µs μs
min: minutes minute minuten min
h: hours hour stunden stunde h
d: days day tage tag tagen
wk: weeks week wochen woche
mo: months month monate monat monaten
yr: years year jahre jahr jahren
°C: °c °C
°F: °f °F
deg: degrees degree grad
K: kelvin K
bar: bar
mbar: mbar millibar
Pa: pascal Pa
hPa: hPa hektopascal
kPa: kPa kilopascal
MPa: MPa
V: volts volt V
A: amperes ampere amps A
W: watts watt W
kW: kilowatts kilowatt kW
MW: megawatts megawatt MW
GW: gigawatts gigawatt GW
kWh: kilowattstunden kWh
J: joules joule J
kJ: kJ
N: newtons newton N
Hz: hertz Hz
kHz: kHz
MHz: megahertz MHz
GHz: gigahertz GHz
B: bytes byte
KB: kilobytes kilobyte KB kB
MB: megabytes megabyte MB
GB: gigabytes gigabyte GB
TB: terabytes terabyte TB
KiB: KiB
MiB: MiB
GiB: GiB
km/h: km/h
m/s: m/s
mph: mph
%: % percent prozent
USD: dollars dollar USD $
EUR: euros euro EUR €
GBP: GBP £
JPY: yen JPY ¥
CHF: francs franken CHF
people: people persons inhabitants residents menschen einwohner einwohnern personen
employees: employees workers mitarbeiter mitarbeitern beschäftigte beschäftigten
soldiers: soldiers soldaten
students: students studenten studierende studierenden schüler
users: users nutzer nutzern
visitors: visitors besucher besuchern
pieces: pieces eggs stück eier
spoons: spoons spoon tablespoons teaspoons esslöffel teelöffel
cups: cups cup tassen tasse
`

const (
	digits = `[-−–]?(?:\d{1,3}(?:[.,]\d{3})+(?:[.,]\d+)?|\d+(?:[.,]\d+)?)`
	words  = `(?i:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|twenty|thirty|forty|fifty|hundred|` +
		`zwei|drei|vier|fünf|sechs|sieben|acht|neun|zehn|elf|zwölf|zwanzig|dreißig|hundert)`
	scales = `(?i:thousand|million|billion|trillion|tausend|millionen|milliarden|milliarde|billionen|mio\.?|mrd\.?)`
)

// quantityPatterns have the groups number, scale, unit and currency.
var quantityPatterns, unitSymbols = compileUnits()

func compileUnits() (patterns []*regexp.Regexp, symbols map[string]string) {
	symbols = map[string]string{}
	var forms []string
	for line := range strings.Lines(strings.TrimSpace(units)) {
		symbol, list, _ := strings.Cut(line, ":")
		for form := range strings.FieldsSeq(list) {
			symbols[form] = symbol
			exact := form != strings.ToLower(form) || len([]rune(form)) < 4
			if quoted := regexp.QuoteMeta(form); exact {
				forms = append(forms, quoted)
			} else {
				forms = append(forms, "(?i:"+quoted+")")
			}
		}
	}
	slices.SortStableFunc(forms, func(a, b string) int { return len(b) - len(a) })
	unit := `(?P<unit>` + strings.Join(forms, "|") + `)`
	scale := `(?:[ \x{a0}](?P<scale>` + scales + `))?`
	return compile(
		`(?P<number>`+digits+`)`+scale+`[ \x{a0}-]?`+unit,
		`(?P<number>`+words+`)`+scale+`[ \x{a0}-]`+unit,
		`(?P<currency>[$€£¥])[ \x{a0}]?(?P<number>`+digits+`)`+scale,
		`(?P<number>`+digits+`) (?P<scale>`+scales+`)`,
	), symbols
}

// quantities finds numbers with units.
func quantities(text string, german bool) (out []Entity) {
	for _, p := range quantityPatterns {
		for _, at := range p.FindAllStringSubmatchIndex(text, -1) {
			group := groups(p, text, at)
			if !isWhole(text, at[0], at[1]) {
				continue
			}
			symbol := group("unit") + group("currency")
			if s, ok := unitSymbols[symbol]; ok {
				symbol = s
			} else if s, ok := unitSymbols[strings.ToLower(symbol)]; ok {
				symbol = s
			}
			value := number(group("number"), german)
			if value *= scaleOf(group("scale")); value == 0 && group("number") == "" {
				continue
			}
			out = append(out, Entity{Quantity, text[at[0]:at[1]], at[0], at[1],
				strings.TrimSpace(strconv.FormatFloat(value, 'f', -1, 64) + " " + symbol)})
		}
	}
	return out
}

// number reads a number: in German texts a comma is the decimal sign, else a dot; the other one groups digits where
// three stand behind it.
func number(s string, german bool) float64 {
	for i, list := range []string{"", "one", "two zwei", "three drei", "four vier", "five fünf", "six sechs",
		"seven sieben",
		"eight acht", "nine neun", "ten zehn", "eleven elf", "twelve zwölf"} {
		if slices.Contains(strings.Fields(list), strings.ToLower(s)) {
			return float64(i)
		}
	}
	switch strings.ToLower(s) {
	case "twenty", "zwanzig":
		return 20
	case "thirty", "dreißig":
		return 30
	case "forty":
		return 40
	case "fifty":
		return 50
	case "hundred", "hundert":
		return 100
	}
	s = strings.NewReplacer("−", "-", "–", "-").Replace(s)
	point, group := ".", ","
	if german {
		point, group = group, point
	}
	if at := strings.LastIndex(s, group); at >= 0 && (len(s)-at != 4 || strings.Contains(s[at:], point)) &&
		!strings.Contains(s, point) { // "1,5 kg" in an English text
		point, group = group, point
	}
	x, _ := strconv.ParseFloat(strings.Replace(strings.ReplaceAll(s, group, ""), point, ".", 1), 64)
	return x
}

func scaleOf(s string) float64 {
	switch s = strings.TrimSuffix(strings.ToLower(s), "."); {
	case s == "thousand", s == "tausend":
		return 1e3
	case s == "million", s == "millionen", s == "mio":
		return 1e6
	case s == "billion", strings.HasPrefix(s, "milliarde"), s == "mrd":
		return 1e9
	case s == "trillion", s == "billionen":
		return 1e12
	}
	return 1
}
