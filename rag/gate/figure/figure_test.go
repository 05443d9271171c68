package figure

import (
	"encoding/xml"
	"errors"
	"fmt"
	"image"
	_ "image/png"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gonum.org/v1/plot/vg"

	"github.com/sluice-rag/sluice/embed/identity"
	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/rag/gate"
)

func newEngine(t *testing.T) *engine.Engine {
	t.Helper()
	e, err := engine.New(engine.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	return e
}

// input returns contexts around one axis for each topic, and questions near them.
func input(contexts, perContext, topics int) gate.Input {
	const dim = 8
	rng := rand.New(rand.NewPCG(7, 7))
	in := gate.Input{Contexts: engine.Vectors{Rows: contexts, Dim: dim},
		Queries: engine.Vectors{Rows: contexts * perContext, Dim: dim}, Seed: 11, Holdout: .25,
		Encoder:    identity.Encoder{Name: "tiny", Digest: "sha256:e1", TokenizerDigest: "sha256:t1", Dim: dim},
		Provenance: gate.Provenance{Kind: "file", Source: "q.jsonl", PerContext: perContext}}
	for i := range contexts {
		in.ContextIDs = append(in.ContextIDs, fmt.Sprint(i))
		in.TextDigests = append(in.TextDigests, fmt.Sprintf("%064x", i))
		in.Groups = append(in.Groups, int32(i%topics))
		var context [dim]float32
		for k := range context {
			context[k] = float32(.35 * rng.NormFloat64())
		}
		context[i%topics]++
		in.Contexts.Data = append(in.Contexts.Data, context[:]...)
		for range perContext {
			for _, x := range context {
				in.Queries.Data = append(in.Queries.Data, x+float32(.3*rng.NormFloat64()))
			}
			in.Owner = append(in.Owner, int32(i))
		}
	}
	return in
}

func TestPlot(t *testing.T) {
	dir := t.TempDir()
	for _, m := range []kernels.Metric{kernels.Cosine, kernels.L2} {
		in := input(40, 3, 4)
		in.Metric, in.Topics = m, true
		c, positive, err := gate.Calibrate(t.Context(), newEngine(t), in)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, m.String()+".png")
		if err := Write(path, c, positive); err != nil {
			t.Fatal(err)
		}
		checkImage(t, path)
		if c, err = c.WithPolicy("median", "", .05); err != nil {
			t.Fatal(err)
		}
		path = filepath.Join(dir, m.String()+".svg")
		if err := Write(path, c, positive); err != nil {
			t.Fatal(err)
		}
		opens := func(scores []float64) (n int) {
			for _, x := range scores {
				if m.Better(x, c.Cutoff) {
					n++
				}
			}
			return n
		}
		asked := c.Groups(positive)
		own, other := opens(asked.Own), opens(asked.Others)
		labels := svgTexts(t, path)
		for _, want := range []string{
			fmt.Sprintf("This gate: keeps out %d of 120 questions of other topics, opens for", 120-other),
			fmt.Sprintf("this one: %.0f %% of its own, %.0f %% of the others", float64(own)/1.2, float64(other)/1.2),
			"questions this base answers: 120, about 40 passages", "questions about other topics: the same 120",
			fmt.Sprintf("How close they come: cut-off %.3f (in grey its 95 %% interval: ", c.Cutoff),
			"gate open", "gate closed", fmt.Sprintf("n = %d held out", c.Holdout.Contexts),
		} {
			if !strings.Contains(labels, want) {
				t.Errorf("%s: no label %q among %q", m, want, labels)
			}
		}
	}
}

// TestPlotOfOneTopic: without questions about other topics that is said, and nothing is made up.
func TestPlotOfOneTopic(t *testing.T) {
	c, positive, err := gate.Calibrate(t.Context(), newEngine(t), input(12, 2, 1))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "one.svg")
	if err := Write(path, c, positive); err != nil {
		t.Fatal(err)
	}
	if labels := svgTexts(t, path); !strings.Contains(labels, "no questions about other topics") ||
		strings.Contains(labels, "of the others") {
		t.Error(labels)
	}
}

// TestPlotFitsWiderFonts: with a reader's font that is a sixth wider than ours no line leaves the drawing.
func TestPlotFitsWiderFonts(t *testing.T) {
	c, positive, err := gate.Calibrate(t.Context(), newEngine(t), input(12, 2, 4))
	if err != nil {
		t.Fatal(err)
	}
	d, err := newDrawing(c, positive)
	if err != nil {
		t.Fatal(err)
	}
	million := make([]float64, 1_229_370)
	d.groups = []group{{scores: million}, {scores: million}}
	d.histograms()
	d.curves()
	lines := map[string]float64{d.title: 15, d.titles[0]: 11.5, d.titles[1]: 11.5}
	for _, s := range d.sentence() {
		lines[s] = 12
	}
	for _, k := range d.key {
		lines[k.text] = 12
	}
	for line, size := range lines {
		width := textStyle(size, d.key[0].colour).Width(line)
		if room := plotWidth - .6*vg.Inch; width*7/6 > room {
			t.Errorf("%q takes %.0f points of %.0f", line, width*7/6, room)
		}
	}
}

// checkImage decodes the PNG and finds the colours of each distribution and of the lines in it.
func checkImage(t *testing.T, path string) {
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
	if b := img.Bounds(); b.Dx() != 1520 || b.Dy() != 1120 {
		t.Errorf("%s: %v", path, b)
	}
	seen := map[string]int{}
	for y := img.Bounds().Min.Y; y < img.Bounds().Max.Y; y++ {
		for x := img.Bounds().Min.X; x < img.Bounds().Max.X; x++ {
			r, g, b, _ := img.At(x, y).RGBA()
			r, g, b = r>>8, g>>8, b>>8
			switch {
			case r > 200 && g < 110 && b < 20:
				seen["other topics"]++
			case b > 150 && r < 40 && g < 140:
				seen["own"]++
			case r < 40 && g < 40 && b < 40:
				seen["lines"]++
			case r == g && g == b && r > 200 && r < 235:
				seen["interval"]++
			}
		}
	}
	for what, least := range map[string]int{"other topics": 2000, "own": 2000, "lines": 1000, "interval": 3000} {
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
	c := &gate.Calibration{Schema: gate.Schema, Metric: kernels.Cosine, Cutoff: .5}
	if err := Write(filepath.Join(dir, "one.PNG"), c, one); err != nil {
		t.Errorf("a single score: %v", err)
	}
	if err := Write(filepath.Join(dir, "a.pdf"), c, one); !errors.Is(err, ErrFormat) {
		t.Errorf("pdf: %v", err)
	}
	if err := Write(filepath.Join(dir, "a.png"), c, nil); err == nil {
		t.Error("no D+ was plotted")
	}
	if err := Write(filepath.Join(dir, "absent", "a.png"), c, one); !errors.Is(err, os.ErrNotExist) {
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

// TestPlotOfTheSecondQuestion: a third panel has its scores, its cut-off and its promise.
func TestPlotOfTheSecondQuestion(t *testing.T) {
	c, positive, err := gate.Calibrate(t.Context(), newEngine(t), input(40, 3, 4))
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(7, 1))
	var asked []gate.Asked
	for range 60 {
		asked = append(asked, gate.Asked{With: gate.Features{Evidence: 2 + rng.NormFloat64()},
			Without: gate.Features{Evidence: rng.NormFloat64()}, Found: true})
	}
	if c.Second, err = gate.NewSecond("conformal:0.1", 1, asked); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "x.svg")
	if err := Write(path, c, positive); err != nil {
		t.Fatal(err)
	}
	labels := svgTexts(t, path)
	title := fmt.Sprintf("Cut-off %.3f: topic only for %.0f %% of these", c.Second.Cutoff, 100*c.Second.Caught)
	for _, want := range []string{"Do the passages answer?", title, "topic only ←", "→ answers", "α = 0.1, n = 40",
		"log odds that the passages answer", "gate open", "gate closed"} {
		if !strings.Contains(labels, want) {
			t.Errorf("no label %q among %q", want, labels)
		}
	}
	d, err := newDrawing(c, positive)
	if err != nil {
		t.Fatal(err)
	}
	if width := textStyle(11.5, d.key[0].colour).Width(d.second().title); width*7/6 > plotWidth-.6*vg.Inch {
		t.Errorf("the panel's title takes %.0f points", width)
	}
}
