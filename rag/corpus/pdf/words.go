package pdf

import (
	"math"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/klippa-app/go-pdfium"
	"github.com/klippa-app/go-pdfium/references"
	"github.com/klippa-app/go-pdfium/requests"

	"github.com/sluice-rag/sluice/rag/corpus/doc"
)

// box is a rectangle of a page, in points; its top is above its bottom.
type box struct{ left, right, bottom, top float64 }

func (b box) height() float64 { return b.top - b.bottom }
func (b box) width() float64  { return b.right - b.left }

// over is how much of the lower one's height two boxes share.
func (b box) over(c box) float64 {
	return (min(b.top, c.top) - max(b.bottom, c.bottom)) / max(min(b.height(), c.height()), .01)
}

func (b box) union(c box) box {
	return box{min(b.left, c.left), max(b.right, c.right), min(b.bottom, c.bottom), max(b.top, c.top)}
}

// pdfWord is a run of characters without white space. Its box reaches from where the first character begins to where
// the next one would: what a letter's ink leaves empty belongs to it.
type pdfWord struct {
	box
	text    string
	size    float64 // of its letters, in points
	advance float64 // from a letter to the next, in sizes, if it is monospaced; else 0
	begins  bool    // PDFium begins a line with it
	spaced  bool    // white space stands before it
}

// The marks that PDFium puts in the place of a hyphen and the line's end behind it.
const pdfHyphens = "\u0002\ufffe"

// pdfText is the text of a page.
type pdfText struct {
	pdfium.Pdfium
	page  references.FPDF_TEXTPAGE
	sizes map[float64]float64 // of letters, by the heights of their boxes
}

// pdfPage reads the lines of a page. A call into the sandbox takes microseconds, so the text comes in one piece, and
// places for the first and the last character of each word only.
func pdfPage(in pdfium.Pdfium, page requests.Page) (pdfLines, error) {
	loaded, err := in.FPDFText_LoadPage(&requests.FPDFText_LoadPage{Page: page})
	if err != nil {
		return nil, err
	}
	p := pdfText{Pdfium: in, page: loaded.TextPage, sizes: map[float64]float64{}}
	defer in.FPDFText_ClosePage(&requests.FPDFText_ClosePage{TextPage: p.page}) //nolint:errcheck // memory
	chars, err := p.chars()
	if err != nil {
		return nil, err
	}
	var words []pdfWord
	var starts []int
	begins, spaced := true, false
	for from := 0; from < len(chars); {
		r := chars[from]
		if isBlank(r) {
			begins, spaced = begins || r == '\n', spaced || r != '\n' && r != '\r' && r != 0
			from++
			continue
		}
		to := from + 1
		for to < len(chars) && !isBlank(chars[to]) && !strings.ContainsRune(pdfHyphens, chars[to-1]) {
			to++
		}
		w := pdfWord{text: doc.Clean(string(chars[from:to])), begins: begins, spaced: spaced}
		if err := p.place(&w, from, to); err != nil {
			return nil, err
		}
		words, starts = append(words, w), append(starts, from)
		begins, spaced = strings.ContainsRune(pdfHyphens, chars[to-1]), false
		from = to
	}
	var lines pdfLines
	for _, w := range p.joined(words, starts) {
		lines.add(w)
	}
	return lines, nil
}

// A gap is no space if it is narrower than a share of the width that spaces have on the page.
const (
	pdfJoined = .1 // the share, between two words
	pdfLetter = .4 // the share, where one of the two is a single character
	pdfSpaces = 80 // gaps that are looked at to find that width
	fewSpaces = 8  // among them fewer spaces of the file do not tell it
)

// joined puts words together where PDFium sees a space that is not in the file, and that is much narrower than those
// that are in it: recognised text, whose letters are spread to the width of the picture, often has such gaps before
// the last letters of words. starts are the words' first characters.
func (p pdfText) joined(words []pdfWord, starts []int) []pdfWord {
	gap := func(i int) (width float64, ok bool) {
		w, before := words[i], words[i-1]
		width = (w.left - before.right) / w.size
		last, _ := utf8.DecodeLastRuneInString(before.text)
		return width, w.spaced && !w.begins && w.size > 0 && w.size == before.size && w.over(before.box) > .5 &&
			(unicode.IsLetter(last) || unicode.IsDigit(last))
	}
	inFile := func(i int) bool {
		g, err := p.FPDFText_IsGenerated(&requests.FPDFText_IsGenerated{TextPage: p.page, Index: starts[i] - 1})
		return err != nil || !g.IsGenerated
	}
	var spaces []float64
	for i, asked := 1, 0; i < len(words) && asked < pdfSpaces; i++ {
		if width, ok := gap(i); ok && width > 0 && width < 1 {
			if asked++; inFile(i) {
				spaces = append(spaces, width)
			}
		}
	}
	if len(spaces) < fewSpaces {
		return words
	}
	slices.Sort(spaces)
	space := spaces[len(spaces)/2]
	out := words[:1]
	for i := 1; i < len(words); i++ {
		narrow := pdfJoined * space
		if utf8.RuneCountInString(words[i].text) == 1 || utf8.RuneCountInString(words[i-1].text) == 1 {
			narrow = pdfLetter * space
		}
		if width, ok := gap(i); ok && width > -narrow && width < narrow && !inFile(i) {
			last := &out[len(out)-1]
			last.text, last.box = last.text+words[i].text, last.union(words[i].box)
			continue
		}
		out = append(out, words[i])
	}
	return out
}

func isBlank(r rune) bool { return unicode.IsSpace(r) || r == 0 }

// chars are the characters of the page by their indices.
func (p pdfText) chars() ([]rune, error) {
	n, err := p.FPDFText_CountChars(&requests.FPDFText_CountChars{TextPage: p.page})
	if err != nil || n.Count <= 0 {
		return nil, err
	}
	text, err := p.FPDFText_GetText(&requests.FPDFText_GetText{TextPage: p.page, Count: n.Count})
	if err != nil {
		return nil, err
	}
	chars := []rune(strings.TrimSuffix(text.Text, "\x00"))
	if len(chars) == n.Count {
		return chars, nil
	}
	chars = make([]rune, n.Count) // the text has fewer than the page: they are asked for one by one
	for i := range chars {
		c, err := p.FPDFText_GetUnicode(&requests.FPDFText_GetUnicode{TextPage: p.page, Index: i})
		if err != nil {
			return nil, err
		}
		if chars[i] = rune(c.Unicode); chars[i] == 2 { // a hyphen at the end of a line
			chars[i] = '\ufffe'
		}
	}
	return chars, nil
}

// place finds the box of the characters from … to−1 and the size of the first one.
func (p pdfText) place(w *pdfWord, from, to int) error {
	first, ok, err := p.charBox(from)
	if err != nil || !ok {
		return err
	}
	w.box = first
	last := first
	if to-1 > from {
		at, ok, err := p.charBox(to - 1)
		if err != nil {
			return err
		}
		if !ok || at.over(first) <= 0 { // it is the mark of a hyphen, whose place is the next line's
			if at, ok, err = p.charBox(max(to-2, from)); err != nil {
				return err
			}
		}
		if ok && at.over(first) > 0 {
			w.box, last = w.union(at), at
		}
	}
	if w.size, err = p.size(from, first.height()); err != nil || w.size <= 0 {
		return err
	}
	each := w.width() / float64(to-from)
	if math.Abs(first.width()-each) < pdfEven*each && math.Abs(last.width()-each) < pdfEven*each {
		w.advance = each / w.size
	}
	return nil
}

// pdfEven is how much the boxes of monospaced letters may differ: the ink of some is wider than their advance.
const pdfEven = .03

// charBox is where a character stands and the next one would begin; false where PDFium does not know.
func (p pdfText) charBox(i int) (box, bool, error) {
	at, err := p.FPDFText_GetLooseCharBox(&requests.FPDFText_GetLooseCharBox{TextPage: p.page, Index: i})
	if err != nil {
		_, gone := p.FPDFText_CountChars(&requests.FPDFText_CountChars{TextPage: p.page})
		if gone == nil { // the sandbox still answers
			return box{}, false, nil
		}
		return box{}, false, err
	}
	r := at.Rect
	b := box{float64(min(r.Left, r.Right)), float64(max(r.Left, r.Right)), float64(min(r.Bottom, r.Top)),
		float64(max(r.Bottom, r.Top))}
	sum := b.left + b.right + b.bottom + b.top
	return b, !math.IsNaN(sum) && !math.IsInf(sum, 0), nil
}

// size returns the size of a letter as it is shown: the font's size, scaled by the matrix. Letters in boxes of one
// height share it, so that PDFium is seldom asked.
func (p pdfText) size(i int, height float64) (float64, error) {
	height = math.Round(100*height) / 100
	if size, ok := p.sizes[height]; ok {
		return size, nil
	}
	said, err := p.FPDFText_GetFontSize(&requests.FPDFText_GetFontSize{TextPage: p.page, Index: i})
	if err != nil {
		return 0, err
	}
	size := said.FontSize
	if m, err := p.FPDFText_GetMatrix(&requests.FPDFText_GetMatrix{TextPage: p.page, Index: i}); err == nil {
		if scale := math.Hypot(float64(m.Matrix.C), float64(m.Matrix.D)); scale > 0 {
			size *= scale
		}
	}
	if !(size > height/4 && size < 4*height) && height > 0 { // NaN is as wrong
		size = height
	}
	p.sizes[height] = size
	return size, nil
}
