package check

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// number is a number of a text, in digits or in words.
type number struct {
	start, end int
	values     []float64 // two where "1,500" can be read in two ways
	words      bool
}

// convention says what a text takes for the decimal sign: '.', ',' or 0 where nothing tells.
type convention byte

// conventionOf looks at the numbers that can be read in one way only, else at the language.
func conventionOf(text, language string) convention {
	point, comma := 0, 0
	for at := 0; at < len(text); {
		start, end := digitsFrom(text, at)
		if start < 0 {
			break
		}
		s := text[start:end]
		switch i := strings.LastIndexAny(s, ".,"); {
		case i < 0:
		case strings.ContainsAny(s[:i], ".,") && s[i] != s[strings.IndexAny(s, ".,")], !threeBehind(s):
			if s[i] == '.' {
				point++
			} else {
				comma++
			}
		case strings.Count(s, s[i:i+1]) > 1 && s[i] == '.':
			comma++
		case strings.Count(s, s[i:i+1]) > 1:
			point++
		}
		at = end
	}
	switch {
	case point > 0 && comma == 0:
		return '.'
	case comma > 0 && point == 0:
		return ','
	case point > 0:
		return 0
	case language == "en":
		return '.'
	case language == "de":
		return ','
	}
	return 0
}

// digitsFrom finds the next number in digits: groups of digits separated by '.', ',', an apostrophe or a no-break
// space. It returns -1, -1 if there is no number.
func digitsFrom(text string, at int) (start, end int) {
	isDigit := func(i int) bool { return i < len(text) && text[i] >= '0' && text[i] <= '9' }
	for start = at; start < len(text) && !isDigit(start); start++ {
	}
	if start >= len(text) {
		return -1, -1
	}
	end = start
	for {
		for isDigit(end) {
			end++
		}
		r, n := utf8.DecodeRuneInString(text[end:])
		if !isDigit(end + n) {
			return start, end
		}
		group := isDigit(end+n) && isDigit(end+n+1) && isDigit(end+n+2) && !isDigit(end+n+3)
		switch r {
		case '.', ',':
		case ' ', '\'', '’', '\u00a0', '\u202f': // 1 500, but not "in 1914 300 men" and "9 11"
			if !group || end-start > 3 && !strings.ContainsRune(text[start:end], r) {
				return start, end
			}
		default:
			return start, end
		}
		end += n
	}
}

// threeBehind reports whether three digits stand behind each separator, and one to three before the first.
func threeBehind(s string) bool {
	first := true
	for group := range strings.FieldsFuncSeq(s, func(r rune) bool { return !unicode.IsDigit(r) }) {
		if first && (len(group) > 3 || group[0] == '0') || !first && len(group) != 3 {
			return false
		}
		first = false
	}
	return true
}

// read gives the values that digits can have.
func (c convention) read(s string) []float64 {
	plain := func(point string) []float64 {
		clean := strings.Map(func(r rune) rune {
			if unicode.IsDigit(r) {
				return r
			}
			if string(r) == point {
				return '.'
			}
			return -1
		}, s)
		x, err := strconv.ParseFloat(clean, 64)
		if err != nil {
			return nil
		}
		return []float64{x}
	}
	i := strings.LastIndexAny(s, ".,")
	if i < 0 {
		return plain("")
	}
	last := s[i : i+1]
	switch many := strings.Count(s, last) > 1; {
	case many && threeBehind(s):
		return plain("")
	case many: // 1.2.3: a version, a list
		var values []float64
		for part := range strings.FieldsFuncSeq(s, func(r rune) bool { return !unicode.IsDigit(r) }) {
			x, _ := strconv.ParseFloat(part, 64)
			values = append(values, x)
		}
		return values[len(values)-1:]
	case strings.ContainsAny(s[:i], ".,"), !threeBehind(s):
		return plain(last)
	case c == 0:
		return append(plain(""), plain(last)...)
	case string(rune(c)) == last:
		return plain(last)
	}
	return plain("")
}

// numbersOf finds a text's numbers, in digits and in words.
func numbersOf(text string, list []token, c convention) (numbers []number) {
	for at := 0; ; {
		start, end := digitsFrom(text, at)
		if start < 0 {
			break
		}
		numbers = append(numbers, number{start: start, end: end, values: c.read(text[start:end])})
		at = end
	}
	numbers = append(numbers, wordNumbers(text, list)...)
	slices.SortStableFunc(numbers, func(a, b number) int { return a.start - b.start })
	scaled(text, list, numbers)
	for i := 1; i < len(numbers); i++ {
		numbers[i].follow(text, numbers[i-1])
	}
	return numbers
}

// follow reads 18 as 1918, too, behind "1914–".
func (n *number) follow(text string, before number) {
	gap := text[min(before.end, n.start):n.start]
	if n.end-n.start == 2 && before.end-before.start == 4 && (gap == "–" || gap == "-" || gap == "/") &&
		len(n.values) == 1 && len(before.values) == 1 && !n.words {
		n.values = append(n.values, math.Floor(before.values[0]/100)*100+n.values[0])
	}
}

// scaled multiplies numbers in digits that a word such as "million" follows.
func scaled(text string, list []token, numbers []number) {
	i := 0
	for n := range numbers {
		x := &numbers[n]
		for i < len(list) && list[i].start < x.end {
			i++
		}
		if i == len(list) || x.words {
			continue
		}
		factor := scale(list[i].key)
		if gap := text[x.end:list[i].start]; factor > 0 && (gap == " " || gap == "-" || gap == "\u00a0") {
			for k := range x.values {
				x.values[k] *= factor
			}
			x.end = list[i].end
		}
	}
}

// scale returns the factor of a word that multiplies a number, 0 for other words.
func scale(key string) float64 {
	switch key {
	case "thousand", "tausend":
		return 1e3
	case "million", "millions", "millionen", "mio":
		return 1e6
	case "billion", "billions", "milliarde", "milliarden", "mrd":
		return 1e9
	case "trillion", "trillions", "billionen":
		return 1e12
	}
	return 0
}

// numeral returns the value of a number word.
type numeral struct {
	value   float64
	ordinal bool
}

// numerals are the words of numbers up to ninety, in English and German, without accents.
var numerals = func() map[string]numeral {
	all := map[string]numeral{}
	add := func(from, step int, ordinal bool, forms ...string) {
		for i, list := range forms {
			for form := range strings.FieldsSeq(list) {
				all[form] = numeral{float64(from + step*i), ordinal}
			}
		}
	}
	add(0, 1, false, "zero null", "one eins", "two zwei zwo", "three drei", "four vier", "five funf", "six sechs",
		"seven sieben", "eight acht", "nine neun", "ten zehn", "eleven elf", "twelve zwolf", "thirteen dreizehn",
		"fourteen vierzehn", "fifteen funfzehn", "sixteen sechzehn", "seventeen siebzehn", "eighteen achtzehn",
		"nineteen neunzehn")
	add(20, 10, false, "twenty zwanzig", "thirty dreissig", "forty vierzig", "fifty funfzig", "sixty sechzig",
		"seventy siebzig", "eighty achtzig", "ninety neunzig")
	add(1, 1, true, "first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth",
		"eleventh", "twelfth", "thirteenth", "fourteenth", "fifteenth", "sixteenth", "seventeenth", "eighteenth",
		"nineteenth")
	add(20, 10, true, "twentieth", "thirtieth", "fortieth", "fiftieth", "sixtieth", "seventieth", "eightieth",
		"ninetieth")
	for i, stem := range []string{"erst", "zweit", "dritt", "viert", "funft", "sechst", "siebt", "acht", "neunt",
		"zehnt",
		"elft", "zwolft"} {
		for _, end := range []string{"e", "en", "er", "es", "em"} {
			all[stem+end] = numeral{float64(i + 1), true}
		}
	}
	return all
}()

// simple returns the value of a numeral, -1 of other words.
func simple(key string) (value float64, ordinal bool) {
	if n, ok := numerals[key]; ok {
		return n.value, n.ordinal
	}
	return -1, false
}

// german parses a German number that is written as one word without umlauts: "zweihundertfunfzig". It returns -1 if key
// is not a number.
func german(key string) float64 {
	if len(key) > 80 {
		return -1
	}
	for _, x := range []struct {
		word  string
		value float64
	}{{"tausend", 1000}, {"hundert", 100}} {
		before, after, ok := strings.Cut(key, x.word)
		if !ok {
			continue
		}
		a, b := 1., 0.
		if before != "" && before != "ein" {
			a = german(before)
		}
		if after = strings.TrimPrefix(after, "und"); after != "" {
			b = german(after)
		}
		if a < 0 || b < 0 {
			return -1
		}
		return a*x.value + b
	}
	if ones, tens, ok := strings.Cut(key, "und"); ok {
		a, _ := simple(ones)
		if ones == "ein" {
			a = 1
		}
		b, _ := simple(tens)
		if a < 1 || a > 9 || b < 20 {
			return -1
		}
		return a + b
	}
	v, ordinal := simple(key)
	if ordinal {
		return -1
	}
	return v
}

// ordinalStem takes the ending of a long German ordinal off: "zwanzigste" is zwanzig.
func ordinalStem(key string) (string, bool) {
	for _, end := range []string{"ste", "sten", "ster", "stes", "stem"} {
		if s, ok := strings.CutSuffix(key, end); ok {
			return s, true
		}
	}
	return key, false
}

// wordNumbers finds numbers in words: "two hundred and fifty", "twenty-first", "fünfundzwanzig", "World War II".
func wordNumbers(text string, list []token) (numbers []number) {
	for i := 0; i < len(list); i++ {
		if v := roman(list[i]); v > 0 {
			numbers = append(numbers, number{list[i].start, list[i].end, []float64{v}, true})
			continue
		}
		if n, used := wordNumber(text, list[i:]); used > 0 {
			numbers = append(numbers, n)
			i += used - 1
		}
	}
	return numbers
}

// roman returns the value of a Roman numeral from II to XXXIX, and 0 for other tokens and for single letters.
func roman(t token) float64 {
	if len(t.raw) < 2 || len(t.raw) > 6 || strings.Trim(t.raw, "IVX") != "" {
		return 0
	}
	value := map[byte]int{'I': 1, 'V': 5, 'X': 10}
	sum := 0
	for i := range len(t.raw) {
		v := value[t.raw[i]]
		if i+1 < len(t.raw) && value[t.raw[i+1]] > v {
			v = -v
		}
		sum += v
	}
	return float64(sum)
}

// wordNumber reads the number that the tokens begin with, and how many of them it takes.
func wordNumber(text string, list []token) (n number, used int) {
	total, current, last := 0., 0., 0.
	ended := false
	for k := 0; k < len(list) && !ended; k++ {
		t := list[k]
		if k > 0 {
			if gap := text[list[k-1].end:t.start]; gap != " " && gap != "-" && gap != "\u00a0" {
				break
			}
		}
		v, ordinal := simple(t.key)
		if v < 0 && len(t.key) > 3 {
			if stem, ok := ordinalStem(t.key); ok && german(stem) >= 0 {
				v, ordinal = german(stem), true
			} else {
				v = german(t.key)
			}
		}
		switch factor := scale(t.key); {
		case factor > 0 && used > 0:
			total, current, last = total+max(current, 1)*factor, 0, factor
		case (t.key == "hundred" || t.key == "hundredth") && used > 0:
			current, last = max(current, 1)*100, 100
		case t.key == "and" && last >= 100 && k+1 < len(list):
			continue
		case v >= 0 && (used == 0 || last >= 100 || last >= 20 && v > 0 && v < 10):
			current, last, ended = current+v, max(v, 1), ordinal
		default:
			ended = true
			continue
		}
		used = k + 1
	}
	if used == 0 {
		return n, 0
	}
	return number{list[0].start, list[used-1].end, []float64{total + current}, true}, used
}

// counted are numbers that words mean without being numbers: they back one, and need not be backed.
func counted(key string) float64 {
	switch key {
	case "half", "halfway", "halfte", "halb":
		return 50 // per cent
	case "both", "pair", "couple", "twice", "double", "beide", "beiden", "paar", "zweimal", "doppelt":
		return 2
	case "thrice", "triple", "dreimal":
		return 3
	case "quarter", "viertel":
		return 25
	case "dozen", "dutzend":
		return 12
	case "decade", "jahrzehnt":
		return 10
	case "century", "jahrhundert", "hundred", "hundert":
		return 100
	case "thousand", "tausend", "millennium":
		return 1000
	case "single", "einzige", "einziger", "einziges", "einzigen":
		return 1
	}
	return math.NaN()
}
