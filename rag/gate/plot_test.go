package gate

import (
	"encoding/xml"
	"errors"
	"image"
	_ "image/png"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/kernels"
)

func TestPlot(t *testing.T) {
	dir := t.TempDir()
	for _, m := range []kernels.Metric{kernels.Cosine, kernels.L2} {
		in := input(40, 3, 4, 8)
		in.Metric = m
		c, positive, err := Calibrate(t.Context(), newEngine(t), in)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, m.String()+".png")
		if err := Plot(path, c, positive, c.MaximumScores()); err != nil {
			t.Fatal(err)
		}
		checkPicture(t, path)
		if c, err = c.WithPolicy("median", .05); err != nil {
			t.Fatal(err)
		}
		path = filepath.Join(dir, m.String()+".svg")
		if err := Plot(path, c, positive, nil); err != nil {
			t.Fatal(err)
		}
		labels := svgTexts(t, path)
		for _, want := range []string{"40 contexts, 120 pseudo-queries", "(median), T = 0.05", "cut-off ",
			"D+ own context (n = 120)", "D− other contexts (all, n = 4,680)"} {
			if !strings.Contains(labels, want) {
				t.Errorf("%s: no label %q among %q", m, want, labels)
			}
		}
		if strings.Contains(labels, "maximum over") {
			t.Errorf("%s: a legend for a distribution that was not given", m)
		}
	}
}

// checkPicture decodes the PNG and finds the colours of each distribution and of the lines in it.
func checkPicture(t *testing.T, path string) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	img, _, err := image.Decode(f)
	if err != nil {
		t.Fatal(err)
	}
	if b := img.Bounds(); b.Dx() != 1520 || b.Dy() != 880 {
		t.Errorf("%s: %v", path, b)
	}
	seen := map[string]int{}
	for y := img.Bounds().Min.Y; y < img.Bounds().Max.Y; y++ {
		for x := img.Bounds().Min.X; x < img.Bounds().Max.X; x++ {
			r, g, b, _ := img.At(x, y).RGBA()
			r, g, b = r>>8, g>>8, b>>8
			switch {
			case r > 200 && b < 20:
				seen["maximum"]++
			case b > 200 && r < 140:
				seen["D+"]++
			case r > 180 && r < 200 && b > r && b < 210:
				seen["D−"]++
			case r < 40 && g < 40 && b < 40:
				seen["lines"]++
			}
		}
	}
	for what, least := range map[string]int{"maximum": 1000, "D+": 5000, "D−": 5000, "lines": 1000} {
		if seen[what] < least {
			t.Errorf("%s: %d pixels of %s, want at least %d", path, seen[what], what, least)
		}
	}
}

func svgTexts(t *testing.T, path string) string {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var texts strings.Builder
	for d := xml.NewDecoder(f); ; {
		token, err := d.Token()
		if err == io.EOF {
			return texts.String()
		}
		if err != nil {
			t.Fatal(err)
		}
		if s, ok := token.(xml.CharData); ok {
			texts.Write(s)
		}
	}
}

func TestPlotOddCases(t *testing.T) {
	dir := t.TempDir()
	one := []float64{.5}
	c := withCutoff(kernels.Cosine, .5, one)
	if err := Plot(filepath.Join(dir, "one.PNG"), c, one, one); err != nil {
		t.Errorf("a single score: %v", err)
	}
	if err := Plot(filepath.Join(dir, "a.pdf"), c, one, one); !errors.Is(err, ErrPlot) {
		t.Errorf("pdf: %v", err)
	}
	if err := Plot(filepath.Join(dir, "a.png"), c, nil, one); err == nil {
		t.Error("no D+ was plotted")
	}
	if err := Plot(filepath.Join(dir, "absent", "a.png"), c, one, nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("folder absent: %v", err)
	}
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", 1229370: "1,229,370", -1234: "-1,234"} {
		if got := grouped(n); got != want {
			t.Errorf("%d: %q", n, got)
		}
	}
	for _, span := range [][2]float64{{0, 1}, {-.31, .88}, {0, 7.2}, {1e-9, 2e-9}, {-5, 5e6}} {
		if n := len(ticks(span[0], span[1])); n < 4 || n > 10 {
			t.Errorf("%v: %d ticks", span, n)
		}
	}
}
