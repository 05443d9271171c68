// Package number writes the values of cells in the number formats of spreadsheets.
package number

import (
	"fmt"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Format is a number format of a spreadsheet (ECMA-376, 18.8.30): how a cell shows its value. Without sections it
// is General.
type Format struct{ sections []formatSection }

// formatSection describes how some of the values are shown.
type formatSection struct {
	parts    []formatPart
	when     string // "<", ">=" and so on; "": by the section's place
	limit    float64
	date     bool
	elapsed  bool // [h], [m] or [s] count beyond a day, an hour, a minute
	percents int
	scale    int // commas behind the digits: each divides by a thousand
	thousand bool
	decimals int
	exponent bool
	fraction bool
	point    int // the index of the part that is the decimal point; -1: no point
}

// formatPart is a literal text, or a placeholder: a digit "0", "#" or "?", ".", "E", "@", "General", or of a date
// "yyyy", "m", "[h]", "AM/PM" and so on.
type formatPart struct {
	text    string
	literal bool
}

// Limits of a format, which are Excel's own.
const (
	maxFormat   = 255
	maxDecimals = 30
)

// Builtin returns the codes of the format numbers that need no declaration. Codes that depend on the country are
// as in the standard's text, and dates of East Asia are ISO 8601.
func Builtin() map[string]string {
	known := map[string]string{"1": "0", "2": "0.00", "3": "#,##0", "4": "#,##0.00", "9": "0%", "10": "0.00%",
		"11": "0.00E+00", "14": "yyyy-mm-dd", "15": "d-mmm-yy", "16": "d-mmm", "17": "mmm-yy", "18": "h:mm AM/PM",
		"19": "h:mm:ss AM/PM", "20": "h:mm", "21": "h:mm:ss", "22": "yyyy-mm-dd h:mm", "37": "#,##0;(#,##0)",
		"38": "#,##0;(#,##0)", "39": "#,##0.00;(#,##0.00)", "40": "#,##0.00;(#,##0.00)", "41": `#,##0;(#,##0);"-"`,
		"42": `$#,##0;($#,##0);"-"`, "43": `#,##0.00;(#,##0.00);"-"`, "44": `$#,##0.00;($#,##0.00);"-"`, "45": "mm:ss",
		"46": "[h]:mm:ss", "47": "mm:ss.0", "48": "##0.0E+0"}
	for _, id := range []int{27, 28, 29, 30, 31, 36, 50, 51, 52, 53, 54, 57, 58} {
		known[strconv.Itoa(id)] = "yyyy-mm-dd"
	}
	return known
}

// New parses a format; an invalid one is General.
func New(code string) *Format {
	f := &Format{}
	if len(code) > maxFormat {
		return f
	}
	s := formatSection{point: -1}
	for code != "" {
		n := s.read(code)
		if n == 0 {
			s.finish()
			f.sections, s, n = append(f.sections, s), formatSection{point: -1}, 1
		}
		code = code[n:]
	}
	s.finish()
	if f.sections = append(f.sections, s); len(f.sections) == 1 && len(s.parts) == 0 {
		f.sections = nil
	}
	return f
}

// read parses the next part of a section from a code and returns its length; 0 at the end of the section.
func (s *formatSection) read(code string) int {
	literal := func(text string) { s.parts = append(s.parts, formatPart{text, true}) }
	_, size := utf8.DecodeRuneInString(code)
	switch c := code[0]; {
	case c == ';':
		return 0
	case c == '"':
		text, _, closed := strings.Cut(code[1:], `"`)
		if literal(text); closed {
			return len(text) + 2
		}
		return len(code)
	case c == '\\' || c == '_' || c == '*':
		_, next := utf8.DecodeRuneInString(code[1:])
		if c == '\\' {
			literal(code[1 : 1+next])
		} else if c == '_' {
			literal(" ")
		}
		return 1 + next
	case c == '[':
		inner, _, closed := strings.Cut(code[1:], "]")
		if !closed {
			return len(code)
		}
		s.bracket(inner)
		return len(inner) + 2
	case len(code) >= 7 && strings.EqualFold(code[:7], "general"):
		s.parts = append(s.parts, formatPart{text: "General"})
		return 7
	case len(code) >= 5 && strings.EqualFold(code[:5], "am/pm"):
		s.parts = append(s.parts, formatPart{text: "AM/PM"})
		return 5
	case (c == 'E' || c == 'e') && len(code) > 1 && (code[1] == '+' || code[1] == '-'):
		s.parts = append(s.parts, formatPart{text: "E" + code[1:2]})
		return 2
	case strings.IndexByte("ymdhsYMDHS", c) >= 0:
		n := 1
		for n < len(code) && code[n]|0x20 == c|0x20 {
			n++
		}
		s.parts = append(s.parts, formatPart{text: strings.ToLower(code[:n])})
		s.date = true
		return n
	case strings.IndexByte("0#?.,%@/", c) >= 0:
		s.parts = append(s.parts, formatPart{text: code[:1]})
		return 1
	}
	literal(code[:size])
	return size
}

// bracket parses the content of brackets: a currency, a condition, an elapsed time. Colours are ignored.
func (s *formatSection) bracket(inner string) {
	lower := strings.ToLower(inner)
	switch {
	case strings.HasPrefix(inner, "$"):
		currency, _, _ := strings.Cut(inner[1:], "-")
		s.parts = append(s.parts, formatPart{currency, true})
	case lower != "" && strings.Trim(lower, lower[:1]) == "" && strings.Contains("hms", lower[:1]):
		s.parts = append(s.parts, formatPart{text: "[" + lower + "]"})
		s.date, s.elapsed = true, true
	case strings.HasPrefix(inner, "<") || strings.HasPrefix(inner, ">") || strings.HasPrefix(inner, "="):
		number := strings.TrimLeft(inner, "<>=")
		if limit, err := strconv.ParseFloat(number, 64); err == nil {
			s.when, s.limit = inner[:len(inner)-len(number)], limit
		}
	}
}

// finish derives from all the parts the digits on both sides of the point, the commas and the percents. An "m" beside
// hours or seconds is minutes, not months.
func (s *formatSection) finish() {
	digits, last := false, -1
	for i := range s.parts {
		p := &s.parts[i]
		if p.literal {
			continue
		}
		switch c := p.text[0]; {
		case s.date && c == 'm' && len(p.text) < 3:
			if s.minutes(i) {
				p.text = strings.Replace(p.text, "m", "M", 2)
			}
		case s.date && strings.IndexByte(",%@/", c) >= 0:
			p.literal = true
		case s.date && c != '.':
		case c == '0' || c == '#' || c == '?':
			if digits, last = true, i; s.point >= 0 && !s.exponent {
				s.decimals = min(s.decimals+1, maxDecimals)
			}
		case c == '.':
			if s.point < 0 {
				s.point = i
			} else {
				p.literal = true
			}
		case c == ',':
			if p.literal = true; digits {
				p.text = ""
				s.scale++
			}
		case c == '%':
			p.literal = true
			s.percents++
		case c == 'E':
			s.exponent = true
		case c == '/':
			s.fraction, p.literal = digits, true
		}
		if s.scale > 0 && last == i { // commas before a digit separate thousands
			s.scale, s.thousand = 0, true
		}
	}
}

// minutes reports whether the "m" at index i stands behind hours or before seconds.
func (s *formatSection) minutes(i int) bool {
	for j := i - 1; j >= 0; j-- {
		if p := s.parts[j]; !p.literal {
			if strings.Contains(p.text, "h") {
				return true
			}
			break
		}
	}
	for j := i + 1; j < len(s.parts); j++ {
		if p := s.parts[j]; !p.literal {
			return strings.Contains(p.text, "s")
		}
	}
	return false
}

// section returns the section for a number, and whether it shows the sign itself.
func (f *Format) section(x float64) (s *formatSection, signed bool) {
	numbers := f.sections[:min(len(f.sections), 3)]
	if slices.ContainsFunc(numbers, func(s formatSection) bool { return s.when != "" }) {
		for i := range numbers {
			if s := &numbers[i]; s.when == "" || s.holds(x) {
				return s, i > 0 && s.when != "" && x < 0
			}
		}
		return nil, false
	}
	switch {
	case x < 0 && len(numbers) > 1:
		return &numbers[1], true
	case x == 0 && len(numbers) > 2:
		return &numbers[2], false
	}
	return &numbers[0], false
}

func (s *formatSection) holds(x float64) bool {
	switch s.when {
	case "<":
		return x < s.limit
	case "<=":
		return x <= s.limit
	case ">":
		return x > s.limit
	case ">=":
		return x >= s.limit
	case "<>":
		return x != s.limit
	}
	return x == s.limit
}

// Number returns a number as the format shows it.
func (f *Format) Number(x float64, from1904 bool) string {
	if len(f.sections) == 0 {
		return General(x)
	}
	s, signed := f.section(x)
	switch {
	case s == nil || s.fraction:
		return General(x)
	case s.date && (x < 0 && !s.elapsed || x >= 2958466): // 9999-12-31
		return General(x)
	case s.date:
		return strings.TrimSpace(s.when1900(x, from1904))
	}
	text := s.digits(math.Abs(x))
	if x < 0 && !signed && strings.ContainsAny(text, "123456789") {
		text = "-" + text
	}
	return strings.TrimSpace(text)
}

// Text returns a text as the format shows it.
func (f *Format) Text(value string) string {
	if len(f.sections) == 0 {
		return value
	}
	s := f.sections[len(f.sections)-1]
	if !slices.ContainsFunc(s.parts, func(p formatPart) bool { return !p.literal && p.text == "@" }) {
		return value
	}
	var out strings.Builder
	for _, p := range s.parts {
		switch {
		case p.literal:
			out.WriteString(p.text)
		case p.text == "@":
			out.WriteString(value)
		}
	}
	return strings.TrimSpace(out.String())
}

// General returns a number without a format, with at most 15 digits as in Excel: 0.30000000000000004 is 0.3.
func General(x float64) string {
	if a := math.Abs(x); a != 0 && (a >= 1e21 || a < 1e-9) {
		return strconv.FormatFloat(x, 'g', 15, 64)
	}
	return decimal(x, -1)
}

// decimal returns a number with the given number of digits behind the point, halves rounded up; -1: as many as it has.
func decimal(x float64, places int) string {
	if math.Abs(x) >= 1e15 {
		return strconv.FormatFloat(x, 'f', max(places, 0), 64)
	}
	exact, ok := new(big.Rat).SetString(strconv.FormatFloat(x, 'g', 15, 64))
	switch {
	case !ok:
		return strconv.FormatFloat(x, 'g', 15, 64)
	case places >= 0:
		return exact.FloatString(places)
	}
	text := exact.FloatString(24)
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
}

// digits writes a number that is not negative into the section's placeholders.
func (s *formatSection) digits(x float64) string {
	for range s.percents {
		x *= 100
	}
	for range s.scale {
		x /= 1000
	}
	power := 0
	if s.exponent && x != 0 {
		power = int(math.Floor(math.Log10(x)))
		if wide := s.wide(); wide > 1 {
			power -= ((power % wide) + wide) % wide
		}
		if x /= math.Pow10(power); math.IsInf(x, 0) || math.IsNaN(x) {
			return General(x)
		}
	}
	whole, rest, _ := strings.Cut(decimal(x, s.decimals), ".")
	whole = strings.TrimLeft(whole, "0")
	if s.thousand {
		whole = grouped(whole)
	}
	parts := slices.Clone(s.parts)
	s.fillWhole(parts, whole)
	s.fillRest(parts, rest, power)
	var out strings.Builder
	for _, p := range parts {
		switch {
		case p.literal:
			out.WriteString(p.text)
		case p.text == "General" || p.text == "@":
			out.WriteString(General(x))
		}
	}
	return out.String()
}

// wide returns the number of digit placeholders before the point.
func (s *formatSection) wide() (n int) {
	for i, p := range s.parts {
		if i == s.point || !p.literal && p.text[0] == 'E' {
			break
		}
		if !p.literal && strings.Contains("0#?", p.text) {
			n++
		}
	}
	return n
}

// fillWhole puts the digits before the point into their placeholders, from the last one; the first one gets all that
// remain.
func (s *formatSection) fillWhole(parts []formatPart, whole string) {
	end := len(parts)
	for i, p := range parts {
		if i == s.point || !p.literal && p.text[0] == 'E' {
			end = i
			break
		}
	}
	first := slices.IndexFunc(parts[:end], func(p formatPart) bool {
		return !p.literal && strings.Contains("0#?", p.text)
	})
	for i := end - 1; i >= 0 && first >= 0; i-- {
		p := &parts[i]
		if p.literal || !strings.Contains("0#?", p.text) {
			continue
		}
		digit := ""
		switch {
		case i == first:
			digit, whole = whole, ""
		case whole != "":
			n := len(whole) - 1
			if n > 0 && whole[n-1] == ',' {
				n--
			}
			digit, whole = whole[n:], whole[:n]
		}
		if digit == "" && p.text == "0" {
			digit = "0"
		}
		*p = formatPart{digit, true}
	}
}

// fillRest puts the digits behind the point and the exponent into their placeholders. Trailing zeros are shown only in
// placeholders "0".
func (s *formatSection) fillRest(parts []formatPart, rest string, power int) {
	point, behind := s.point, false
	for i := range parts {
		p := &parts[i]
		switch {
		case i == s.point:
			behind = true
			*p = formatPart{".", true}
		case p.literal || p.text == "General" || p.text == "@":
		case p.text[0] == 'E':
			sign := map[bool]string{true: "-", false: strings.TrimSuffix(p.text[1:], "-")}[power < 0]
			zeros := 0
			for j := i + 1; j < len(parts); j++ {
				if !parts[j].literal && strings.Contains("0#?", parts[j].text) {
					zeros++
					parts[j] = formatPart{"", true}
				}
			}
			power = max(power, -power)
			*p = formatPart{fmt.Sprintf("E%s%0*d", sign, zeros, power), true}
			return
		case behind && rest != "":
			digit := rest[:1]
			if rest = rest[1:]; p.text != "0" && digit == "0" && strings.Trim(rest, "0") == "" && !s.zeroBehind(i) {
				digit = ""
			} else {
				point = -1
			}
			*p = formatPart{digit, true}
		}
	}
	if point >= 0 && s.decimals > 0 { // no digit after the point
		parts[point] = formatPart{"", true}
	}
}

// zeroBehind reports whether a placeholder "0" follows the one at i.
func (s *formatSection) zeroBehind(i int) bool {
	return slices.ContainsFunc(s.parts[i+1:], func(p formatPart) bool { return !p.literal && p.text == "0" })
}

// grouped returns whole with a comma before each three digits.
func grouped(whole string) string {
	var out strings.Builder
	for i, c := range whole {
		if i > 0 && (len(whole)-i)%3 == 0 {
			out.WriteByte(',')
		}
		out.WriteRune(c)
	}
	return out.String()
}
