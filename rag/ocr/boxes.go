package ocr

import (
	"cmp"
	"image"
	"math"
	"slices"
)

// point is a place in a picture, in pixels.
type point struct{ x, y float64 }

func (p point) to(q point) float64 { return math.Hypot(q.x-p.x, q.y-p.y) }

// quad is a box: its top left, top right, bottom right and bottom left corners.
type quad [4]point

// size returns the width and the height, each the longer of two opposite sides.
func (q quad) size() (w, h float64) {
	return max(q[0].to(q[1]), q[2].to(q[3])), max(q[0].to(q[3]), q[1].to(q[2]))
}

// turned returns the box whose text runs upwards (1) or stands on its head (2) by the corners of that text.
func (q quad) turned(quarters int) quad {
	return quad{q[quarters], q[(quarters+1)%4], q[(quarters+2)%4], q[(quarters+3)%4]}
}

// widthAt returns its width in pixels where it is scaled to a height.
func (q quad) widthAt(height, most int) int {
	w, h := q.size()
	return min(max(int(math.Ceil(float64(height)*math.Floor(w)/max(math.Floor(h), 1))), 1), most)
}

// largest returns the widest boxes.
func largest(boxes []quad, most int) []quad {
	sorted := slices.SortedStableFunc(slices.Values(boxes), func(a, b quad) int {
		x, _ := a.size()
		y, _ := b.size()
		return cmp.Compare(y, x)
	})
	return sorted[:min(most, len(sorted))]
}

// probabilities is the model's answer: of each pixel that it belongs to a line of text.
type probabilities struct {
	of   []float32
	w, h int
}

// What makes a box of probabilities.
const (
	isText     = .3  // a pixel above it is of a line
	boxIsText  = .5  // mean of a box that is kept
	widening   = 1.6 // the model finds the middle of lines: boxes grow by this × area / circumference
	leastSide  = 3   // pixels, before they grow; 2 more thereafter
	mostBoxes  = 1000
	leastSideP = 3 // pixels of the picture
)

// boxes returns the boxes of lines in a picture of wide × high pixels that is so many times as large.
func (m probabilities) boxes(scaleX, scaleY float64, wide, high int) (list []quad) {
	for _, outline := range m.outlines() {
		q := smallest(outline)
		w, h := q[0].to(q[1]), q[0].to(q[3])
		if min(w, h) < leastSide || m.mean(q) < boxIsText {
			continue
		}
		q = q.grown(widening * w * h / (2 * (w + h)))
		if min(q[0].to(q[1]), q[0].to(q[3])) < leastSide+2 {
			continue
		}
		for i := range q {
			q[i].x = min(max(math.RoundToEven(q[i].x*scaleX), 0), float64(wide-1))
			q[i].y = min(max(math.RoundToEven(q[i].y*scaleY), 0), float64(high-1))
		}
		q = q.clockwise()
		if math.Floor(q[0].to(q[1])) <= leastSideP || math.Floor(q[0].to(q[3])) <= leastSideP {
			continue
		}
		if list = append(list, q); len(list) == mostBoxes {
			break
		}
	}
	return list
}

// outlines returns the first and last pixels in each row of each connected set of pixels of text. The sets are grown by
// one pixel to the right and down first.
func (m probabilities) outlines() (all [][]point) {
	text := make([]bool, m.w*m.h)
	for i, p := range m.of {
		if p <= isText {
			continue
		}
		x, y := i%m.w, i/m.w
		for dy := range min(2, m.h-y) {
			for dx := range min(2, m.w-x) {
				text[(y+dy)*m.w+x+dx] = true
			}
		}
	}
	var stack []int
	for start := range text {
		if !text[start] {
			continue
		}
		rows := map[int][2]int{}
		text[start] = false
		for stack = append(stack[:0], start); len(stack) > 0; {
			at := stack[len(stack)-1]
			stack = stack[:len(stack)-1]
			x, y := at%m.w, at/m.w
			if row, seen := rows[y]; seen {
				rows[y] = [2]int{min(row[0], x), max(row[1], x)}
			} else {
				rows[y] = [2]int{x, x}
			}
			for ny := max(y-1, 0); ny <= min(y+1, m.h-1); ny++ {
				for nx := max(x-1, 0); nx <= min(x+1, m.w-1); nx++ {
					if next := ny*m.w + nx; text[next] {
						text[next] = false
						stack = append(stack, next)
					}
				}
			}
		}
		outline := make([]point, 0, 2*len(rows))
		for y, row := range rows {
			outline = append(outline, point{float64(row[0]), float64(y)}, point{float64(row[1]), float64(y)})
		}
		all = append(all, outline)
	}
	return all
}

// hull returns the convex hull of points, in order.
func hull(points []point) []point {
	slices.SortFunc(points, func(a, b point) int { return cmp.Or(cmp.Compare(a.x, b.x), cmp.Compare(a.y, b.y)) })
	points = slices.Compact(points)
	if len(points) < 3 {
		return points
	}
	var out []point
	half := func() {
		floor := len(out)
		for _, p := range points {
			for len(out) >= floor+2 {
				a, b := out[len(out)-2], out[len(out)-1]
				if (b.x-a.x)*(p.y-a.y)-(b.y-a.y)*(p.x-a.x) > 0 {
					break
				}
				out = out[:len(out)-1]
			}
			out = append(out, p)
		}
		out = out[:len(out)-1]
	}
	half()
	slices.Reverse(points)
	half()
	return out
}

// smallest returns the rectangle of the smallest area around points. One of its sides lies on the hull.
func smallest(points []point) (best quad) {
	around := hull(points)
	least := math.Inf(1)
	for i, a := range around {
		b := around[(i+1)%len(around)]
		length := max(a.to(b), 1e-9)
		if a == b {
			b, length = point{a.x + 1, a.y}, 1
		}
		u := point{(b.x - a.x) / length, (b.y - a.y) / length}
		lowU, highU, lowV, highV := math.Inf(1), math.Inf(-1), math.Inf(1), math.Inf(-1)
		for _, p := range around {
			along, across := p.x*u.x+p.y*u.y, p.y*u.x-p.x*u.y
			lowU, highU = min(lowU, along), max(highU, along)
			lowV, highV = min(lowV, across), max(highV, across)
		}
		if area := (highU - lowU) * (highV - lowV); area < least {
			least = area
			corner := func(along, across float64) point {
				return point{along*u.x - across*u.y, along*u.y + across*u.x}
			}
			best = quad{corner(lowU, lowV), corner(highU, lowV), corner(highU, highV), corner(lowU, highV)}
		}
	}
	return best
}

// grown returns a rectangle whose sides lie further out by a distance.
func (q quad) grown(by float64) quad {
	w, h := max(q[0].to(q[1]), 1e-9), max(q[0].to(q[3]), 1e-9)
	along := point{(q[1].x - q[0].x) / w * by, (q[1].y - q[0].y) / w * by}
	down := point{(q[3].x - q[0].x) / h * by, (q[3].y - q[0].y) / h * by}
	for i, sign := range [4]point{{-1, -1}, {1, -1}, {1, 1}, {-1, 1}} {
		q[i].x += sign.x*along.x + sign.y*down.x
		q[i].y += sign.x*along.y + sign.y*down.y
	}
	return q
}

// clockwise returns the box by the corners as the eye has them: the upper one of the two left ones first.
func (q quad) clockwise() quad {
	p := q[:]
	slices.SortStableFunc(p, func(a, b point) int { return cmp.Compare(a.x, b.x) })
	byY := func(a, b point) int { return cmp.Compare(a.y, b.y) }
	slices.SortStableFunc(p[:2], byY)
	slices.SortStableFunc(p[2:], byY)
	return quad{p[0], p[2], p[3], p[1]}
}

// mean returns the mean probability inside a box.
func (m probabilities) mean(q quad) float64 {
	top, bottom := math.Inf(1), math.Inf(-1)
	for _, p := range q {
		top, bottom = min(top, p.y), max(bottom, p.y)
	}
	sum, n := 0., 0
	for y := max(int(top), 0); y <= min(int(bottom), m.h-1); y++ {
		left, right := math.Inf(1), math.Inf(-1)
		for i, a := range q {
			b := q[(i+1)%4]
			if lo, hi := min(a.y, b.y), max(a.y, b.y); float64(y) < math.Floor(lo) || float64(y) > math.Ceil(hi) {
				continue
			}
			x := a.x
			if a.y != b.y {
				x += (b.x - a.x) * min(max((float64(y)-a.y)/(b.y-a.y), 0), 1)
			} else {
				left, right = min(left, b.x), max(right, b.x)
			}
			left, right = min(left, x), max(right, x)
		}
		for x := max(int(left), 0); x <= min(int(right), m.w-1); x++ {
			sum += float64(m.of[y*m.w+x])
			n++
		}
	}
	return sum / float64(max(n, 1))
}

// crop returns the picture of what is inside a box, w × h pixels. Each pixel is the mean of as many samples as the box
// is larger.
func crop(page *image.RGBA, box quad, w, h int) *image.RGBA {
	to := image.NewRGBA(image.Rect(0, 0, w, h))
	wide, high := box.size()
	nx, ny := samples(wide/float64(w)), samples(high/float64(h))
	for y := range h {
		for x := range w {
			var sum [3]float64
			for sy := range ny {
				v := (float64(y) + (float64(sy)+.5)/float64(ny)) / float64(h)
				for sx := range nx {
					u := (float64(x) + (float64(sx)+.5)/float64(nx)) / float64(w)
					c := sample(page, box.at(u, v))
					for i := range sum {
						sum[i] += c[i]
					}
				}
			}
			px := to.Pix[y*to.Stride+4*x:]
			for i := range sum {
				px[i] = uint8(min(max(sum[i]/float64(nx*ny)+.5, 0), 255))
			}
			px[3] = 255
		}
	}
	return to
}

// samples is how many samples a pixel takes along one side.
func samples(scale float64) int { return min(max(int(math.Round(scale)), 1), 8) }

// at returns the place of a share of the width and one of the height.
func (q quad) at(u, v float64) point {
	mix := func(a, b, c, d float64) float64 { return (1-v)*((1-u)*a+u*b) + v*((1-u)*d+u*c) }
	return point{mix(q[0].x, q[1].x, q[2].x, q[3].x), mix(q[0].y, q[1].y, q[2].y, q[3].y)}
}

// sample interpolates the colour at a place between the four pixels around it; the edge of the picture goes on outside.
func sample(page *image.RGBA, at point) (c [3]float64) {
	x, y := at.x-.5, at.y-.5
	x0, y0 := math.Floor(x), math.Floor(y)
	fx, fy := x-x0, y-y0
	for dy := range 2 {
		for dx := range 2 {
			px := min(max(int(x0)+dx, 0), page.Rect.Dx()-1)
			py := min(max(int(y0)+dy, 0), page.Rect.Dy()-1)
			weight := (1 - fx + float64(dx)*(2*fx-1)) * (1 - fy + float64(dy)*(2*fy-1))
			p := page.Pix[py*page.Stride+4*px:]
			for i := range c {
				c[i] += weight * float64(p[i])
			}
		}
	}
	return c
}
