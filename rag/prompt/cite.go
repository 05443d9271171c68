package prompt

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
)

var (
	// A citation: numbers and ranges in brackets, after "passage" or "source" if the model likes.
	brackets = regexp.MustCompile(`[\[【]\s*(?i:(?:passages?|sources?|quellen?|texte?)\s*)?(\d{1,4}(?:\s*(?:[,;&–-]|and|und)\s*\d{1,4})*)\s*[\]】]`)
	citedOne = regexp.MustCompile(`(\d+)(?:\s*[–-]\s*(\d+))?`)
	code     = regexp.MustCompile("(?s)```.*?(?:```|$)|`[^`\n]*`")
)

// Citations are passages as they can be cited, numbered from 1.
func Citations(passages []Passage) []Citation {
	list := make([]Citation, len(passages))
	for i, p := range passages {
		c := p.Chunk
		list[i] = Citation{Number: i + 1, ID: c.ID, Document: c.Document, Source: c.Source, Heading: c.Heading,
			Anchor: c.Anchor, Start: c.Start, End: c.End, Score: p.Score, Web: p.Web, Copies: p.Copies}
	}
	return list
}

// Cite returns a copy of c in which Cited reports whether the answer mentions the number: [1], [1, 2], [1][3], [1-3],
// [passage 2]. Brackets in code are not citations, and numbers that were not shown are ignored.
func Cite(answer string, c []Citation) []Citation {
	cited := map[int]bool{}
	for _, m := range Marks(answer, c) {
		cited[m.Citation.Number] = true
	}
	out := slices.Clone(c)
	for i := range out {
		out[i].Cited = cited[out[i].Number]
	}
	return out
}

// ranges returns the numbers of a citation, such as "1, 3-5", as ranges with their first and last number.
func ranges(numbers string) (all [][2]int) {
	for _, r := range citedOne.FindAllStringSubmatch(numbers, -1) {
		from, _ := strconv.Atoi(r[1]) // at most four digits
		to, _ := strconv.Atoi(cmp.Or(r[2], r[1]))
		all = append(all, [2]int{from, to})
	}
	return all
}

// BlankCitations returns an answer of the same length in which citations are spaces, but for those in code.
func BlankCitations(answer string) string {
	inCode := code.FindAllStringIndex(answer, -1)
	out := []byte(answer)
	for _, at := range brackets.FindAllStringIndex(answer, -1) {
		for len(inCode) > 0 && inCode[0][1] <= at[0] {
			inCode = inCode[1:]
		}
		if len(inCode) > 0 && inCode[0][0] < at[1] {
			continue
		}
		for i := at[0]; i < at[1]; i++ {
			out[i] = ' '
		}
	}
	return string(out)
}

// Mark is a place of an answer that cites a passage.
type Mark struct {
	Citation   Citation
	Start, End int // bytes of the answer
}

// Marks returns the places that cite passages, in order, with one Mark for each passage that a place names. Brackets in
// code are not citations, and numbers that were not shown are ignored, as in Cite.
func Marks(answer string, c []Citation) (marks []Mark) {
	blank := BlankCitations(answer)
	for _, m := range brackets.FindAllStringSubmatchIndex(answer, -1) {
		if blank[m[0]] != ' ' { // in code
			continue
		}
		for _, r := range ranges(answer[m[2]:m[3]]) {
			for _, x := range c {
				if r[0] <= x.Number && x.Number <= r[1] {
					marks = append(marks, Mark{x, m[0], m[1]})
				}
			}
		}
	}
	return marks
}
