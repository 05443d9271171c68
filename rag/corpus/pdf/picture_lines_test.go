package pdf

import (
	"context"
	"errors"
	"image"
	"image/color"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-rag/sluice/rag/corpus/doc"
)

// finding is a PictureReader that finds the same lines in every picture.
type finding []PictureLine

func (r finding) ReadPicture(context.Context, image.Image) ([]PictureLine, error) {
	return slices.Clone(r), nil
}

func (finding) Name() string { return "double" }

func lineAt(x, y float64, text string) PictureLine {
	return PictureLine{Left: x, Top: y, Right: x + 10*float64(len(text)), Bottom: y + 20, Text: text, Confidence: 1}
}

// TestPictureLayout: columns are read one after the other below a line across both, rows of a table are rows, larger
// letters are headings, and a hyphen at the end of a line goes.
func TestPictureLayout(t *testing.T) {
	page := func(lines ...PictureLine) string {
		x := Pictures{Reader: finding(lines), Pulse: &doc.Pulse{Ctx: t.Context()}, More: func(time.Duration) {}}
		got, err := x.read(1, image.NewGray(image.Rect(0, 0, 10, 10)), .5)
		if err != nil {
			t.Fatal(err)
		}
		pages := [][]pdfLine{got}
		evenSizes(pages, nil)
		var d doc.Document
		writePDF(&d, pages, &x, nil)
		var b strings.Builder
		for _, s := range d.Sections {
			if len(s.Heading) > 0 {
				b.WriteString("# " + s.Heading[len(s.Heading)-1] + "\n")
			}
			if text := strings.TrimSpace(d.Text[s.Start:s.End]); text != "" {
				b.WriteString(text + "\n")
			}
		}
		return b.String()
	}
	var columns []PictureLine
	for i, words := range []string{"the first column of text", "goes on for some lines be-", "fore it ends down here"} {
		y := 100 + 28*float64(i)
		columns = append(columns, lineAt(300, y+3, "and "+words), lineAt(0, y, words))
	}
	title := PictureLine{Left: 0, Top: 20, Right: 560, Bottom: 60, Text: "A title across both", Confidence: 1}
	got := page(append(columns, title)...)
	want := "# A title across both\n" +
		"the first column of text goes on for some lines before it ends down here\n\n" +
		"and the first column of text and goes on for some lines beand fore it ends down here\n"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("columns (-want +got):\n%s", diff)
	}
	var table []PictureLine
	for i, row := range [][3]string{{"Pump", "Bar", "Year"}, {"North 1", "3.5", "1998"}, {"South 2", "", "2004"},
		{"West 3", "7", "2011"}} {
		for j, cell := range row {
			if cell != "" {
				table = append(table, lineAt(150*float64(j), 30*float64(i)+float64(j), cell))
			}
		}
	}
	if diff := cmp.Diff("Pump | Bar | Year\nNorth 1 | 3.5 | 1998\nSouth 2 |  | 2004\nWest 3 | 7 | 2011\n",
		strings.ReplaceAll(page(table...), "South 2 | | ", "South 2 |  | ")); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}
}

// FuzzPictures checks that decoding ends, soon and with a picture of a bounded size or an error.
func FuzzPictures(f *testing.F) {
	files, _ := filepath.Glob("../testdata/pictures/*")
	endings := strings.Fields(" .png .jpg .jpeg .tif .tiff .webp ")
	for _, path := range files {
		content, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(content, uint8(max(slices.Index(endings, filepath.Ext(path)), 0)))
	}
	f.Fuzz(func(t *testing.T, content []byte, kind uint8) {
		ending := endings[int(kind)%len(endings)]
		if len(content) > 1<<20 {
			return
		}
		err := eachPicture(string(content), ending, &doc.Pulse{Ctx: t.Context()}, func(p image.Image) error {
			if b := p.Bounds(); b.Dx()*b.Dy() > maxPixels {
				t.Errorf("a picture of %v", b)
			}
			_ = color.GrayModel.Convert(p.At(p.Bounds().Min.X, p.Bounds().Min.Y))
			return nil
		})
		if err != nil && !errors.Is(err, doc.ErrFormat) && !errors.Is(err, doc.ErrTooLarge) {
			t.Errorf("%v", err)
		}
	})
}
