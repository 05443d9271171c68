package pdf

import (
	"cmp"
	"math"
	"slices"
	"unicode/utf8"
)

// pictureLines puts what was read in a picture into the order of reading, columns one after the other, and makes lines
// of the rows: what stands beside each other in a table are cells of one line. points is the size of a pixel.
func pictureLines(all []PictureLine, points float64) []pdfLine {
	for i := range all {
		l := &all[i]
		l.Left, l.Right, l.Top, l.Bottom = l.Left*points, l.Right*points, l.Top*points, l.Bottom*points
	}
	slices.SortStableFunc(all, func(a, b PictureLine) int { return cmp.Compare(a.Top+a.Bottom, b.Top+b.Bottom) })
	lines := pictureRows(nil, all, 0)
	lines.end()
	return lines
}

// What running text is, as opposed to the cells of a table.
const (
	columnLines   = 3  // of each column at least
	columnLetters = 12 // of its lines, on average
	columnFull    = .6 // of its width, most lines take
	mostSplits    = 8  // of a page into columns within each other
)

// pictureRows appends lines that stand from top to bottom, the left one of two columns first.
func pictureRows(to pdfLines, all []PictureLine, depth int) pdfLines {
	at, ok := gutter(all)
	if !ok || depth == mostSplits {
		return appendRows(to, all)
	}
	var left, right, across []PictureLine
	flush := func() {
		to = appendRows(to, across)
		to = pictureRows(to, left, depth+1)
		to = pictureRows(to, right, depth+1)
		left, right, across = nil, nil, nil
	}
	for _, l := range all {
		switch {
		case l.Right <= at:
			left = append(left, l)
		case l.Left >= at:
			right = append(right, l)
		default:
			if len(left)+len(right) > 0 {
				flush()
			}
			across = append(across, l)
		}
	}
	flush()
	return to
}

// gutter finds the place between two columns of running text, which few lines cross.
func gutter(all []PictureLine) (at float64, ok bool) {
	best, widest := len(all)/3+1, 0.
	for _, candidate := range all {
		x := candidate.Left
		var left, right []PictureLine
		crossing, edge := 0, math.Inf(-1)
		for _, l := range all {
			switch {
			case l.Right <= x:
				left = append(left, l)
				edge = max(edge, l.Right)
			case l.Left >= x:
				right = append(right, l)
			default:
				crossing++
			}
		}
		if crossing > best || crossing == best && x-edge <= widest || !isRunning(left) || !isRunning(right) {
			continue
		}
		best, widest, at, ok = crossing, x-edge, x, true
	}
	return at, ok
}

// isRunning reports whether lines make a column of running text.
func isRunning(lines []PictureLine) bool {
	if len(lines) < columnLines {
		return false
	}
	left, right, letters := math.Inf(1), math.Inf(-1), 0
	for _, l := range lines {
		left, right = min(left, l.Left), max(right, l.Right)
		letters += utf8.RuneCountInString(l.Text)
	}
	full := 0
	for _, l := range lines {
		if l.Right-l.Left >= columnFull*(right-left) {
			full++
		}
	}
	return letters >= columnLetters*len(lines) && 2*full >= len(lines)
}

// appendRows appends a line for each row.
func appendRows(to pdfLines, all []PictureLine) pdfLines {
	for len(all) > 0 {
		row := box{bottom: -all[0].Bottom, top: -all[0].Top}
		n := 1
		for n < len(all) && n < maxPDFCells && row.over(box{bottom: -all[n].Bottom, top: -all[n].Top}) > .5 {
			n++
		}
		cells := slices.Clone(all[:n])
		all = all[n:]
		slices.SortStableFunc(cells, func(a, b PictureLine) int { return cmp.Compare(a.Left, b.Left) })
		var x pdfLine
		for i, c := range cells {
			b := box{c.Left, c.Right, -c.Bottom, -c.Top}
			cell := pdfCell{left: c.Left, right: c.Right, whole: []byte(c.Text)}
			if i == 0 {
				x.box = b
			} else {
				cell.gap = (c.Left - cells[i-1].Right) / max(letterSize*b.height(), 1)
				x.box = x.union(b)
			}
			x.size = max(x.size, letterSize*b.height())
			x.cells = append(x.cells, cell)
		}
		x.main = x.box
		to = append(to, x)
	}
	return to
}

const (
	letterSize = .85 // of the letters of a line, over the height of its box
	sizeStep   = 1.4 // letters count as larger than those of most lines when they are so many times as large
	pictureSet = 11. // points: the size that letters of most lines count as, where the document has no text to say
)

// evenSizes gives the lines of pages that were read in pictures the sizes of letters that the document has elsewhere:
// a line's box is higher by a quarter if it has letters such as "g", so a size is one of few, by its ratio to that of
// most lines. isRead reports whether a page is such a one; nil: all are.
func evenSizes(pages [][]pdfLine, isRead func(page int) bool) {
	var read, others []float64
	for i, lines := range pages {
		for _, l := range lines {
			if isRead == nil || isRead(i) {
				read = append(read, l.size)
			} else {
				others = append(others, l.size)
			}
		}
	}
	if len(read) == 0 {
		return
	}
	slices.Sort(read)
	body, most := pictureSet, read[len(read)/2]
	if len(others) > 0 {
		slices.Sort(others)
		body = others[len(others)/2]
	}
	for i, lines := range pages {
		if isRead != nil && !isRead(i) {
			continue
		}
		for j := range lines {
			steps := math.Trunc(math.Log(lines[j].size/max(most, .01)) / math.Log(sizeStep))
			lines[j].size = body * math.Pow(sizeStep, min(max(steps, -3), 6))
		}
	}
}
