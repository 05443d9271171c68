package ocr

import (
	"math"

	"github.com/sluice-rag/sluice/rag/corpus"
)

// upright turns the boxes of lines until the text runs to the right, by the direction in which most of it runs, and
// moves them to (0, 0).
func upright(lines []line) []corpus.PictureLine {
	var along point
	for _, l := range lines {
		along.x += l.box[1].x - l.box[0].x + l.box[2].x - l.box[3].x
		along.y += l.box[1].y - l.box[0].y + l.box[2].y - l.box[3].y
	}
	length := math.Hypot(along.x, along.y)
	if length == 0 {
		along, length = point{1, 0}, 1
	}
	cos, sin := along.x/length, along.y/length
	all := make([]corpus.PictureLine, len(lines))
	left, top := math.Inf(1), math.Inf(1)
	for i, l := range lines {
		w, h := l.box.size()
		c := l.box.at(.5, .5)
		x, y := c.x*cos+c.y*sin, c.y*cos-c.x*sin
		all[i] = corpus.PictureLine{Left: x - w/2, Right: x + w/2, Top: y - h/2, Bottom: y + h/2, Text: l.text,
			Confidence: l.confidence}
		left, top = min(left, x-w/2), min(top, y-h/2)
	}
	for i := range all {
		all[i].Left -= left
		all[i].Right -= left
		all[i].Top -= top
		all[i].Bottom -= top
	}
	return all
}
