package main

import (
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/sluice-rag/sluice"
	"github.com/sluice-rag/sluice/rag/retrieve"
)

// takenText returns how a list of contexts was made.
func takenText(t retrieve.Taken) string {
	text := t.Ranking
	if string(t.Mode) != t.Ranking {
		text = fmt.Sprintf("%s, taken by %s", t.Ranking, t.Mode)
	}
	var more []string
	add := func(format string, args ...any) { more = append(more, fmt.Sprintf(format, args...)) }
	if t.Metric != "" {
		add("vectors by %s", t.Metric)
	}
	if t.Sparse != "" && string(t.Sparse) != t.Ranking {
		add("words by %s", t.Sparse)
	}
	if t.K1 != nil {
		add("k1 %g, b %g", *t.K1, *t.B)
	}
	if t.Weight != nil {
		add("weight %g", *t.Weight)
	}
	if t.Fusion != "" {
		add("fusion %s", t.Fusion)
	}
	if t.TopN > 0 {
		add("of the first %d of each", t.TopN)
	}
	if t.Where != "" {
		add("only %s", t.Where)
	}
	add("%d contexts searched", t.Contexts)
	if t.Reranked > 0 {
		add("%d reranked", t.Reranked)
	}
	if t.MMR > 0 {
		add("mmr %g", t.MMR)
	}
	if t.Reason != "" {
		add("%s", t.Reason)
	}
	return text + ": " + strings.Join(more, ", ")
}

// partsColumns lists the columns of the table of --explain; columns without a value in any line are left out.
var partsColumns = [...]struct {
	name string
	of   func(*retrieve.Parts) string
}{
	{"dense", func(p *retrieve.Parts) string { return number(p.Dense) }},
	{"normalised", func(p *retrieve.Parts) string { return number(p.DenseNormalised) }},
	{"rank", func(p *retrieve.Parts) string { return rank(p.DenseRank) }},
	{"words", func(p *retrieve.Parts) string { return number(p.Sparse) }},
	{"normalised", func(p *retrieve.Parts) string { return number(p.SparseNormalised) }},
	{"rank", func(p *retrieve.Parts) string { return rank(p.SparseRank) }},
	{"cover", func(p *retrieve.Parts) string { return number(p.Cover) }},
	{"share", func(p *retrieve.Parts) string { return number(p.Share) }},
	{"fused", func(p *retrieve.Parts) string { return number(p.Fused) }},
	{"reranker", func(p *retrieve.Parts) string { return number(p.Reranker) }},
	{"relevance", func(p *retrieve.Parts) string { return number(p.Relevance) }},
	{"similarity", func(p *retrieve.Parts) string { return number(p.Similarity) }},
}

func number(x *float64) string {
	if x == nil {
		return ""
	}
	return fmt.Sprintf("%.4f", *x)
}

func rank(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(n)
}

// partsTable returns a table of the parts of the scores, with the weights of the query's words below.
func partsTable(found sluice.Found) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	cells := func(line func(column int) string) {
		for i, c := range partsColumns {
			for _, r := range found.Results {
				if r.Parts != nil && c.of(r.Parts) != "" {
					fmt.Fprintf(w, "\t%s", line(i))
					break
				}
			}
		}
	}
	fmt.Fprint(w, "    \tscore")
	cells(func(i int) string { return partsColumns[i].name })
	fmt.Fprintln(w, "\thas the words")
	for n, r := range found.Results {
		fmt.Fprintf(w, "    %2d\t%.4f", n+1, r.Score)
		p := r.Parts
		if p == nil {
			p = &retrieve.Parts{}
		}
		cells(func(i int) string { return partsColumns[i].of(p) })
		var words []string
		for _, t := range p.Terms {
			words = append(words, t.Text)
		}
		fmt.Fprintf(w, "\t%s\n", short(strings.Join(words, " "), 60))
	}
	_ = w.Flush() // a strings.Builder does not fail
	if len(found.Taken.Terms) > 0 {
		fmt.Fprintln(&b)
		w = tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
		fmt.Fprintln(w, "    word of the query\tcontexts\tidf")
		for _, t := range found.Taken.Terms {
			fmt.Fprintf(w, "    %s\t%d\t%.3f\n", short(t.Text, 40), t.DF, t.IDF)
		}
		_ = w.Flush()
	}
	return b.String()
}
