package html

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// formula collects a formula of MathML in one pass: as the TeX source if the page has it, else in one line with its
// fractions, powers and roots.
type formula struct {
	place   int // index of its open element; -1: no formula is open
	from    int // where it begins in the source
	text    strings.Builder
	tex     strings.Builder
	alt     string
	open    []mathElement
	long    bool // the last token was a word or a number of several digits
	unshown int  // number of open elements whose text is not part of the formula
	inTeX   bool
}

// mathElement is an open element of MathML.
type mathElement struct {
	name     string
	children int
	closing  string // to be written at its end
	unshown  bool
}

// maxFormula bounds a formula, in bytes.
const maxFormula = 16 << 10

func (f *formula) begin(place, from int, alt string) {
	*f = formula{place: place, from: from, alt: alt, open: []mathElement{{name: "math"}}}
}

// start begins an element of the formula.
func (f *formula) start(name, encoding string) {
	e := mathElement{name: name}
	parent := &f.open[len(f.open)-1]
	if parent.children++; f.unshown == 0 {
		if n := min(parent.children, 3) - 1; n > 0 {
			f.write(map[string][3]string{"msup": {1: "^"}, "mover": {1: "^"}, "msub": {1: "_"}, "munder": {1: "_"},
				"mfrac": {1: "/"}, "msubsup": {1: "_", 2: "^"}, "munderover": {1: "_", 2: "^"}, "mroot": {1: "^(1/"},
				"mtable": {1: "; ", 2: "; "}, "mtr": {1: ", ", 2: ", "}}[parent.name][n])
			if parent.name == "mroot" {
				parent.closing = ")"
			}
		}
		switch {
		case name == "mrow" && slices.Contains([]string{"msup", "msub", "mfrac", "msubsup", "mroot"}, parent.name):
			f.write("(")
			e.closing = ")"
		case name == "msqrt":
			f.write("√(")
			e.closing = ")"
		case name == "mspace":
			f.write(" ")
		}
	}
	switch name {
	case "annotation":
		f.inTeX = f.unshown == 0 && strings.Contains(strings.ToLower(encoding), "tex")
		e.unshown = true
	case "annotation-xml", "mphantom":
		e.unshown = true
	}
	if e.unshown {
		f.unshown++
	}
	f.open = append(f.open, e)
}

// end ends the innermost element of the formula.
func (f *formula) end() {
	n := len(f.open) - 1
	if n <= 0 {
		return
	}
	e := f.open[n]
	f.open = f.open[:n]
	if e.unshown {
		f.unshown--
		f.inTeX = false
	}
	if f.unshown == 0 {
		f.write(e.closing)
	}
}

func (f *formula) write(s string) {
	if f.text.Len() < maxFormula && s != "" {
		f.text.WriteString(s)
		f.long = false
	}
}

// token adds the text of an element: identifiers, numbers and operators without spaces, words with spaces.
func (f *formula) token(text string) {
	s := strings.Join(strings.Fields(strings.Map(func(r rune) rune {
		switch r {
		case '\u2061': // the application of a function
			return ' '
		case '\u2062', '\u2063', '\u2064': // invisible times, comma and plus
			return -1
		}
		return r
	}, text)), " ")
	switch {
	case f.inTeX:
		if f.tex.Len() < maxFormula {
			f.tex.WriteString(s)
		}
	case f.unshown == 0 && s != "":
		first, _ := utf8.DecodeRuneInString(s)
		long := isMathWord(first) && utf8.RuneCountInString(s) > 1
		before, _ := utf8.DecodeLastRuneInString(f.text.String())
		if isMathWord(first) && isMathWord(before) && (f.long || long) {
			f.write(" ")
		}
		f.write(s)
		f.long = long
	}
}

func isMathWord(r rune) bool {
	return r != utf8.RuneError && (unicode.IsLetter(r) || unicode.IsDigit(r))
}

// said returns the formula as text.
func (f *formula) said() string {
	for _, s := range []string{f.tex.String(), f.alt} {
		if s = plainTeX(s); s != "" {
			return s
		}
	}
	return plainTeX(f.text.String())
}

// plainTeX returns TeX on one line without the commands for its size.
func plainTeX(s string) string {
	s = strings.Join(strings.Fields(strings.ToValidUTF8(s, "\ufffd")), " ")
	if inner, ok := strings.CutPrefix(s, `{\displaystyle `); ok {
		s = strings.TrimSuffix(inner, "}")
	}
	return norm.NFC.String(strings.ReplaceAll(strings.TrimPrefix(s, `\displaystyle `), "\x00", ""))
}

// endFormula writes the formula, which ends before source at.
func (r *htmlReader) endFormula(at int) {
	from, text := r.formula.from, r.formula.said()
	r.formula = formula{place: -1}
	r.formulaText(text, from, at)
}

// formulaText adds a formula that stands at source [from, to).
func (r *htmlReader) formulaText(text string, from, to int) {
	if text == "" {
		return
	}
	if r.level > 0 {
		r.head.WriteString(text)
	} else {
		r.inCell(text)
		r.b.Atom(text, from, to-from)
	}
	r.formulaRead = true
}
