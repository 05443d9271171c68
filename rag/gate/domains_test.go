package gate

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/rag/retrieve"
)

// mixed is a calibration with a question of each of n contexts of three domains of 60, 30 and 10 %. The scores of the
// second domain are a standard deviation lower.
func mixed(n int, r *rand.Rand) *Calibration {
	c := &Calibration{Metric: kernels.Cosine, Score: "cosine",
		Domains: &Domains{Router: "sha256:r", Names: []string{"a", "b", "c"}}}
	for i := range n {
		score, domain := mixedScore(r)
		c.scores.maximum, c.scores.domain = append(c.scores.maximum, score), append(c.scores.domain, domain)
		c.scores.owner = append(c.scores.owner, int32(i))
	}
	return c
}

func mixedScore(r *rand.Rand) (score float64, domain int32) {
	switch u := r.Float64(); {
	case u < .1:
		domain = 2
	case u < .4:
		domain = 1
	}
	score = r.NormFloat64()
	if domain == 1 {
		score--
	}
	return score, domain
}

// TestDomains: where one domain's scores are lower, the cut-off of all keeps its promise on the whole and breaks it in
// that domain; cut-offs by domain keep it in each, also in those that have too few contexts by themselves.
func TestDomains(t *testing.T) {
	const draws, asked, level = 1000, 300, .1
	p, err := ParsePolicy(fmt.Sprintf("conformal:%g", level))
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{300, 80} { // of 80 the third domain has about eight, and nine are needed
		r := rand.New(rand.NewPCG(46, uint64(n)))
		var all, own [4]struct{ mean, squares, draws float64 } // of each domain, and of all questions
		for range draws {
			c := mixed(n, r)
			cut, _, err := c.promise(*p.promised)
			if err != nil {
				t.Fatal(err)
			}
			d := c.byDomain(p)
			var closedAll, closedOwn, count [4]float64
			for range asked {
				score, domain := mixedScore(r)
				by := cut
				if x := d.find(d.Names[domain]); x != nil {
					by = x.Cutoff
				}
				for _, k := range []int{int(domain), 3} {
					count[k]++
					closedAll[k] += number(score <= cut)
					closedOwn[k] += number(score <= by)
				}
			}
			for k := range count {
				if count[k] > 0 {
					x, y := closedAll[k]/count[k], closedOwn[k]/count[k]
					all[k].mean, all[k].squares, all[k].draws = all[k].mean+x, all[k].squares+x*x, all[k].draws+1
					own[k].mean, own[k].squares, own[k].draws = own[k].mean+y, own[k].squares+y*y, own[k].draws+1
				}
			}
		}
		over := func(s struct{ mean, squares, draws float64 }) (mean float64, holds bool) {
			mean = s.mean / s.draws
			return mean, mean <= level+3*math.Sqrt((s.squares/s.draws-mean*mean)/s.draws)
		}
		for k, name := range []string{"a", "b", "c", "all"} {
			mean, holds := over(all[k])
			if holds != (k != 1) {
				t.Errorf("n %d, %s by the cut-off of all: kept out %.4f", n, name, mean)
			}
			if mean, holds = over(own[k]); !holds || mean < level-.06 {
				t.Errorf("n %d, %s by its own cut-off: kept out %.4f", n, name, mean)
			}
		}
	}
}

func number(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// TestDomainsTooFew: a domain with one context too few is of the others; one with just enough counts for both.
func TestDomainsTooFew(t *testing.T) {
	c := &Calibration{Metric: kernels.Cosine, Score: "cosine",
		Domains: &Domains{Router: "sha256:r", Names: []string{"few", "just", "many", "none"}}}
	for domain, n := range []int{18, 19, 20} {
		for range n {
			i := len(c.scores.maximum)
			c.scores.maximum = append(c.scores.maximum, float64(domain)+float64(i)/100)
			c.scores.owner, c.scores.domain = append(c.scores.owner, int32(i)), append(c.scores.domain, int32(domain))
		}
	}
	policy := func(s string) *Domains {
		p, err := ParsePolicy(s)
		if err != nil {
			t.Fatal(err)
		}
		return c.byDomain(p)
	}
	d := policy("conformal:0.05")
	if len(d.Of) != 2 || d.Of[0].Name != "just" || d.Of[1].Name != "many" || d.Rest == nil || d.Rest.Closed.Of != 37 ||
		d.Rest.Closed.Rank != 1 || math.Nextafter(d.Rest.Cutoff, 1) != 0 || math.Nextafter(d.Of[0].Cutoff, 2) != 1.18 {
		t.Errorf("%+v", d)
	}
	for name, want := range map[string]*Domain{"just": &d.Of[0], "few": d.Rest, "none": d.Rest, "another": nil} {
		if got := d.find(name); got != want {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if s := d.sentence(); s != "the same holds in each of 2 domains alone, by a cut-off of its own (19 to 20 "+
		"contexts), and in 2 other domains together (37 contexts)" {
		t.Error(s)
	}
	for _, s := range []string{"maximum:p5", "conformal:/0.1", "conformal:0.05/0.1", "conformal:0.01"} {
		if d := policy(s); len(d.Of) > 0 || d.Rest != nil || d.sentence() != "" || len(d.Names) != 4 {
			t.Errorf("%s: %+v", s, d)
		}
	}
}

// TestDomainDecisions: decisions go by the cut-off of their domain, which is kept in the artifact and follows from it.
func TestDomainDecisions(t *testing.T) {
	in := input(120, 2, 3, 8)
	in.Policy, in.Score, in.Resamples = "conformal:0.1", "cosine", -1
	in.Domains = &Domains{Router: "sha256:r", Names: []string{"x", "y", "z"}}
	for _, o := range in.Owner {
		in.Domain = append(in.Domain, o%3)
	}
	c, positive, err := Calibrate(t.Context(), newEngine(t), in)
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Domains.Of) != 3 || c.Domains.Of[0].Closed.Of != 40 || c.Domains.Rest != nil {
		t.Fatalf("%+v", c.Domains)
	}
	path := filepath.Join(t.TempDir(), "x.cal.json")
	if err := c.Save(path, positive); err != nil {
		t.Fatal(err)
	}
	if c, positive, err = Load(path); err != nil {
		t.Fatal(err)
	}
	g, err := New(c, positive, Use{Encoder: in.Encoder, Metric: in.Metric})
	if err != nil || g.Router() != "sha256:r" {
		t.Fatalf("%q %v", g.Router(), err)
	}
	y := c.Domains.Of[1]
	for _, score := range []float64{y.Cutoff, math.Nextafter(y.Cutoff, 2)} {
		d := Decision{Score: score, Cutoff: c.Cutoff, Retrieve: score > c.Cutoff}
		g.In(&d, "y")
		if d.Retrieve != (score > y.Cutoff) || d.Cutoff != y.Cutoff || d.Domain.Of != "y" ||
			*d.Domain.Closed != y.Closed || *d.PIn != float64(y.Closed.Rank+int(number(score > y.Cutoff)))/41 {
			t.Errorf("%v of %v: %+v %v %v", score, y, d, *d.PIn, *d.Domain)
		}
	}
	d := Decision{Score: 1, Retrieve: true, Cutoff: c.Cutoff}
	if g.In(&d, "another"); d.Cutoff != c.Cutoff || d.Domain.Of != "all" || d.Domain.Closed != nil || !d.Retrieve {
		t.Errorf("%+v", d)
	}
	if g.WithoutRouter(&d); !strings.Contains(d.Warning, "router is not that of the calibration") ||
		d.Domain.Name != "" {
		t.Errorf("%+v", d)
	}
	if open := g.OpenReference(); len(open) != 120-3*(y.Closed.Rank-1) {
		t.Errorf("%d of the calibration's questions open the gate", len(open))
	}
	if n, err := c.WithPolicy("maximum:p5", "", 0); err != nil || len(n.Domains.Of) > 0 {
		t.Errorf("%+v %v", n.Domains, err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	changed := strings.Replace(string(text), `"name": "y",`, `"name": "x",`, 1)
	if err := os.WriteFile(path, []byte(changed), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Load(path); !errors.Is(err, ErrArtifact) || changed == string(text) {
		t.Errorf("a changed name: %v", err)
	}
}

// BenchmarkFound is what a decision costs beside embedding and search, with 500 contexts in the calibration; by a
// domain's cut-off as well, without the router.
func BenchmarkFound(b *testing.B) {
	r := rand.New(rand.NewPCG(46, 5))
	c := mixed(500, r)
	p, err := ParsePolicy("conformal:0.1")
	if err != nil {
		b.Fatal(err)
	}
	c.Policy, c.Domains = p.Name, c.byDomain(p)
	g := &Gate{c: c, positive: sorted(c.scores.maximum), own: c.ownScores()}
	for _, by := range []string{"all", "domain"} {
		b.Run(by, func(b *testing.B) {
			for b.Loop() {
				d, err := g.Found(retrieve.Result{ID: "x", Score: r.NormFloat64()})
				if err != nil {
					b.Fatal(err)
				}
				if by == "domain" {
					g.In(&d, "b")
				}
			}
		})
	}
}
