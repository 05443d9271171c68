package ocr

import (
	"errors"
	"image"
	"image/color"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/sluice-rag/sluice/embed"
)

func TestDecode(t *testing.T) {
	characters := []string{"", "a", "b", " "}
	var steps []float32
	for _, class := range []int{0, 1, 1, 0, 1, 2, 3, 3, 2} {
		row := []float32{.1, .1, .1, .1}
		row[class] = .7
		steps = append(steps, row...)
	}
	if text, sure := decode(steps, characters); text != "aab b" || math.Abs(sure-.7) > 1e-6 {
		t.Errorf("%q, %v", text, sure)
	}
	if text, sure := decode([]float32{1, 0, 0, 0}, characters); text != "" || sure != 0 {
		t.Errorf("nothing was read as %q, %v", text, sure)
	}
}

// TestBoxes checks that a slanted bar of probable pixels gives one box around it, wider by what the model leaves out,
// and that a bar of improbable pixels gives no box.
func TestBlank(t *testing.T) {
	p := image.NewRGBA(image.Rect(0, 0, 40, 30))
	for i := range p.Pix {
		p.Pix[i] = 240 + uint8(i%7)
	}
	if !isBlank(p) || !isBlank(image.NewRGBA(image.Rectangle{})) {
		t.Error("a page without ink is not blank")
	}
	p.Pix[4*(29*40+39)] = 200
	if isBlank(p) {
		t.Error("a page with a dot is blank")
	}
}

func TestBoxes(t *testing.T) {
	m := probabilities{make([]float32, 200*100), 200, 100}
	const slope = .1
	for x := 20; x < 180; x++ {
		for dy := range 10 {
			m.of[(30+int(slope*float64(x))+dy)*200+x] = .9
		}
	}
	for x := 20; x < 100; x++ {
		m.of[80*200+x], m.of[81*200+x], m.of[82*200+x], m.of[83*200+x] = .35, .35, .35, .35
	}
	boxes := m.boxes(2, 2, 400, 200)
	if len(boxes) != 1 {
		t.Fatalf("%d boxes: %v", len(boxes), boxes)
	}
	w, h := boxes[0].size()
	angle := math.Atan2(boxes[0][1].y-boxes[0][0].y, boxes[0][1].x-boxes[0][0].x)
	if grown := 1.6 * 160 * 11 / (2 * 171); math.Abs(w-2*(161+2*grown)) > 6 || math.Abs(h-2*(11+2*grown)) > 6 ||
		math.Abs(angle-math.Atan(slope)) > .02 {
		t.Errorf("%v: %.0f × %.0f at %.3f", boxes[0], w, h, angle)
	}
}

// TestSmallest: points of a rectangle have it around them, whichever way it is turned.
func TestSmallest(t *testing.T) {
	for _, angle := range []float64{0, .3, .8, 1.5} {
		sin, cos := math.Sincos(angle)
		var points []point
		for i := range 40 {
			x, y := float64(i%8)*5, float64(i/8)*3
			points = append(points, point{x*cos - y*sin, x*sin + y*cos})
		}
		q := smallest(points)
		w, h := q.size()
		if math.Abs(max(w, h)-35) > 1e-6 || math.Abs(min(w, h)-12) > 1e-6 {
			t.Errorf("at %v: %v × %v", angle, w, h)
		}
	}
	if w, h := smallest([]point{{3, 4}}).size(); w != 0 || h != 0 {
		t.Errorf("a point: %v × %v", w, h)
	}
}

// TestUpright: lines of a page turned by two degrees have the boxes of the straight page, from (0, 0).
func TestUpright(t *testing.T) {
	sin, cos := math.Sincos(2 * math.Pi / 180)
	var lines []line
	for i := range 3 {
		var l line
		for j, p := range []point{{100, 0}, {900, 0}, {900, 30}, {100, 30}} {
			y := p.y + 50*float64(i)
			l.box[j] = point{p.x*cos - y*sin, p.x*sin + y*cos}
		}
		lines = append(lines, l)
	}
	for i, l := range upright(lines) {
		if math.Abs(l.Left) > 1e-6 || math.Abs(l.Right-800) > 1e-6 || math.Abs(l.Top-50*float64(i)) > 1e-6 ||
			math.Abs(l.Bottom-l.Top-30) > 1e-6 {
			t.Errorf("line %d: %+v", i, l)
		}
	}
	if got := upright(nil); len(got) != 0 {
		t.Error(got)
	}
}

// TestCrop: a box is scaled to a line of its own, its first corner to the top left.
func TestCrop(t *testing.T) {
	page := image.NewRGBA(image.Rect(0, 0, 100, 100))
	for i := range page.Pix {
		page.Pix[i] = 255
	}
	for y := 40; y < 50; y++ {
		for x := 10; x < 30; x++ {
			page.Set(x, y, color.Black)
		}
	}
	box := quad{{10, 40}, {50, 40}, {50, 50}, {10, 50}}
	for turns, dark := range map[int]int{0: 20, 2: 140} {
		got := crop(page, box.turned(turns), 160, 40)
		if got.RGBAAt(dark, 20).R != 0 || got.RGBAAt(160-dark, 20).R != 255 {
			t.Errorf("turned %d times: %v and %v", turns, got.RGBAAt(dark, 20), got.RGBAAt(160-dark, 20))
		}
	}
	if w := box.widthAt(48, 4800); w != 192 {
		t.Errorf("width %d", w)
	}
}

func TestOpenRefusesOtherFiles(t *testing.T) {
	dir := t.TempDir()
	for _, file := range []string{detection, direction, recognition} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte("no graph"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want := embed.ErrUnavailable
	if embed.Available {
		want = ErrModel
	}
	if _, err := Open(dir, Options{}); !errors.Is(err, want) {
		t.Error(err)
	}
}
