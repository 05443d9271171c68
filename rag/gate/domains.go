package gate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
)

// Domains are cut-offs by domain, each of which keeps the promise of the policy for the questions of that domain alone
// (Mondrian conformal prediction: Vovk, Gammerman, Shafer, Algorithmic Learning in a Random World, 2005, section 4.5).
// The domain of a question is the verdict of the store's router, its most probable label. The router was trained on the
// contexts and has not seen the calibration's questions, so that it treats these and new ones alike.
type Domains struct {
	Router string   `json:"router"` // digest of the router
	Names  []string `json:"names"`  // its labels
	// Of are the domains with as many contexts as the policy needs, in the order of Names. Only conformal:A and
	// conformal:A:D give some.
	Of []Domain `json:"of,omitempty"`
	// Rest is of the other domains together; nil where these, too, have too few contexts. Questions of theirs then have
	// the cut-off of all.
	Rest *Domain `json:"rest,omitempty"`
}

// Domain is the cut-off of a domain and what it promises.
type Domain struct {
	Name   string  `json:"name"`
	Cutoff float64 `json:"cutoff"`
	Closed Bound   `json:"closed"`
	own    []float64
}

// The values of InDomain.Of that are not names of domains.
const (
	otherDomains = "other domains"
	allDomains   = "all"
)

// InDomain says whose cut-off a decision was made by, where the calibration has cut-offs by domain.
type InDomain struct {
	Name   string `json:"name,omitempty"` // the router's verdict on the query; "" without the calibration's router
	Of     string `json:"cutoff_of"`      // Name, "other domains" or "all"
	Closed *Bound `json:"closed,omitempty"`
}

// byDomain returns the domains with what a policy gives each of them; nil if the calibration knows no domains.
//
// Which domains have too few contexts must not depend on whether a question is new: with a new question, its own domain
// has one more. A domain with just as many contexts as are needed therefore has its own cut-off, and counts for the
// others' as well.
func (c *Calibration) byDomain(p Policy) *Domains {
	if c.Domains == nil {
		return nil
	}
	d := &Domains{Router: c.Domains.Router, Names: c.Domains.Names}
	lists, seed := c.lists(), c.Bootstrap.Seed
	if p.promised == nil || p.promised.open > 0 || lists.owner == nil || lists.domain == nil || lists.maximum == nil {
		return d
	}
	own, of := oneEach(lists.maximum, lists.owner, seed), oneEach(lists.domain, lists.owner, seed)
	scores := make([][]float64, len(d.Names))
	for i, x := range own {
		scores[of[i]] = append(scores[of[i]], x)
	}
	least := needed(p.promised.closed, p.promised.delta)
	var rest []float64
	for k, name := range d.Names {
		if len(scores[k]) <= least {
			rest = append(rest, scores[k]...)
		}
		if x := c.domain(name, *p.promised, scores[k]); x != nil {
			d.Of = append(d.Of, *x)
		}
	}
	if len(d.Of) > 0 {
		d.Rest = c.domain(otherDomains, *p.promised, rest)
	}
	return d
}

// domain returns the cut-off that scores of a domain give; nil if these are too few.
func (c *Calibration) domain(name string, p promised, scores []float64) *Domain {
	sign := 1.
	if c.Metric.Ascending() {
		sign = -1
	}
	b, at, err := bounded(p.closed, p.delta, side{scores, "calibration's in " + name, ""}, sign)
	if err != nil {
		return nil
	}
	return &Domain{Name: name, Cutoff: math.Nextafter(at, math.Inf(-int(sign))), Closed: *b,
		own: farthestFirst(c.Metric, scores)}
}

// find returns the domain whose cut-off counts for questions with a verdict of the router, or nil if the cut-off of all
// domains together counts.
func (d *Domains) find(name string) *Domain {
	for i := range d.Of {
		if d.Of[i].Name == name {
			return &d.Of[i]
		}
	}
	if slices.Contains(d.Names, name) {
		return d.Rest
	}
	return nil
}

// sentence says what holds by domain; "" if nothing does.
func (d *Domains) sentence() string {
	if d == nil || len(d.Of) == 0 {
		return ""
	}
	few, most := d.Of[0].Closed.Of, d.Of[0].Closed.Of
	for _, x := range d.Of {
		few, most = min(few, x.Closed.Of), max(most, x.Closed.Of)
	}
	s := fmt.Sprintf("the same holds in each of %s alone, by a cut-off of its own (%d to %d contexts)",
		plural(len(d.Of), "domain"), few, most)
	switch others := len(d.Names) - len(d.Of); {
	case others == 0:
		return s
	case d.Rest != nil:
		return fmt.Sprintf("%s, and in %s together (%d contexts)", s, plural(others, "other domain"), d.Rest.Closed.Of)
	default:
		return fmt.Sprintf("%s; %s too few contexts and the cut-off of all, which promises nothing about %s alone", s,
			map[bool]string{true: "1 other has", false: fmt.Sprintf("%d others have", others)}[others == 1],
			map[bool]string{true: "it", false: "them"}[others == 1])
	}
}

// check refuses domains that byDomain does not make.
func (d *Domains) check() error {
	if d == nil {
		return nil
	}
	if len(d.Names) == 0 || slices.Contains(d.Names, "") || !slices.IsSorted(d.Names) ||
		len(slices.Compact(slices.Clone(d.Names))) != len(d.Names) {
		return fmt.Errorf("domains: the %d names are not sorted, each once", len(d.Names))
	}
	return nil
}

// followDomains checks that the cut-offs by domain follow from the distributions.
func (c *Calibration) followDomains(p Policy) error {
	if c.Domains == nil {
		return nil
	}
	lists := []*scores{&c.scores}
	for _, k := range c.kept() {
		lists = append(lists, &k.scores)
	}
	for _, s := range lists {
		for _, k := range s.domain {
			if int(k) >= len(c.Domains.Names) {
				return fmt.Errorf("a question is of domain %d of %d", k, len(c.Domains.Names))
			}
		}
	}
	d := c.byDomain(p)
	want, err := json.Marshal(c.Domains)
	if err != nil {
		return err
	}
	if got, err := json.Marshal(d); err != nil || !bytes.Equal(want, got) {
		return fmt.Errorf("policy %s gives the domains other cut-offs than the artifact says", c.Policy)
	}
	c.Domains = d
	return nil
}

// Router returns the digest of the router whose verdicts choose among the calibration's cut-offs; "" where it has a
// single one.
func (g *Gate) Router() string {
	if d := g.c.Domains; d != nil && len(d.Of) > 0 {
		return d.Router
	}
	return ""
}

// In decides again by the cut-off of the domain that the router of Router finds.
func (g *Gate) In(d *Decision, name string) {
	d.Domain = &InDomain{Name: name, Of: allDomains}
	x := g.c.Domains.find(name)
	if x == nil {
		return
	}
	if d.Domain.Of = x.Name; g.stale+g.gone == 0 { // else the promise has lapsed
		d.Domain.Closed = &x.Closed
	}
	d.Cutoff, d.PolicyValue = x.Cutoff, x.Cutoff
	d.PIn = new(pValue(g.c.Metric, x.own, d.Score))
	if d.Reason == "" {
		d.Retrieve = g.c.Metric.Better(d.Score, d.Cutoff)
	}
}

// WithoutRouter says of a decision that it was made by the cut-off of all, because the router is not the calibration's.
func (g *Gate) WithoutRouter(d *Decision) {
	d.Domain = &InDomain{Of: allDomains}
	if d.Warning != "" {
		d.Warning += "; "
	}
	d.Warning += "the cut-offs by domain are not used, because the store's router is not that of the calibration any " +
		"more; calibrate again"
}

// Verdict returns the decision without its score.
func (d *Decision) Verdict() Verdict {
	v := Verdict{Retrieve: d.Retrieve, Reason: d.Reason, Cutoff: d.Cutoff, Stale: d.Stale, Gone: d.Gone,
		Warning: d.Warning}
	if d.Retrieve {
		v.ContextID = d.ContextID
	}
	return v
}
