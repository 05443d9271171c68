package pipeline

import (
	"testing"
	"time"

	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/rag/gate"
)

func TestTmp(t *testing.T) {
	in := mixtureInput(40000, 120000)
	e := newEngine(t)
	d := engine.DistributionInput{Metric: kernels.Cosine, Contexts: in.Contexts, Queries: in.Queries, Owner: in.Owner,
		Quantiles: gate.Quantiles()}
	lap := func(what string, b time.Time) { t.Logf("%s %.2f", what, time.Since(b).Seconds()) }
	for range 2 {
		b := time.Now()
		out, err := e.Distribution(t.Context(), d)
		if err != nil {
			t.Fatal(err)
		}
		lap("local", b)
		t.Log(out.DType, out.Kept, out.Rechecked)
	}
	for range 2 {
		d := d
		d.Interval = true
		d.Sample = gate.NegativeSample
		b := time.Now()
		br, err := e.DistributionBrackets(t.Context(), d, 0)
		if err != nil {
			t.Fatal(err)
		}
		lap("brackets", b)
		t.Logf("%+v", br)
		d.Interval = false
		b = time.Now()
		p, err := e.DistributionPart(t.Context(), d, br, engine.Block{Contexts: [2]int{0, 40000}, Queries: [2]int{0, 120000}})
		if err != nil {
			t.Fatal(err)
		}
		lap("part", b)
		t.Log(p.Bytes())
		of := engine.Whole{Contexts: 40000, Queries: 120000, Digest: "x"}
		b = time.Now()
		x, err := e.PartialOfPart(t.Context(), d, of, br, br, p)
		if err != nil {
			t.Fatal(err)
		}
		lap("partial", b)
		b = time.Now()
		_, next, err := e.FinishDistribution(t.Context(), x, d.Quantiles)
		if err != nil {
			t.Fatal(err)
		}
		lap("finish", b)
		t.Logf("%+v", next)
		b = time.Now()
		x, err = e.PartialOfPart(t.Context(), d, of, br, next, p)
		if err != nil {
			t.Fatal(err)
		}
		lap("partial", b)
		t.Log(x.Bytes())
		b = time.Now()
		_, next, err = e.FinishDistribution(t.Context(), x, d.Quantiles)
		if err != nil {
			t.Fatal(err)
		}
		lap("finish", b)
	}
}
