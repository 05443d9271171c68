package report

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sluice-rag/sluice/eval/experiment"
)

// warnings returns what a reader of a table must know of values that a language model has given: how often its verdicts
// are right, as far as that was measured, and which measures have the same value in all cells.
func (r *Report) warnings(g grid) (list []string) {
	var measures []string
	cells := map[string][]string{}
	for _, row := range slices.Concat(g.rows...) {
		if row == nil || !experiment.Judged(row.Measure) {
			continue
		}
		if !slices.Contains(measures, row.Measure) {
			measures = append(measures, row.Measure)
		}
		if row.N > 0 {
			cells[row.Measure] = append(cells[row.Measure], number(row.Mean))
		}
	}
	if len(measures) == 0 {
		return nil
	}
	list = append(list, r.accuracy(measures))
	for _, m := range measures {
		if a, ok := r.People[m]; ok {
			list = append(list, fmt.Sprintf("In %s, this judge agrees with %s.", m, a))
		}
		if all := slices.Compact(slices.Sorted(slices.Values(cells[m]))); len(all) == 1 && len(cells[m]) > 1 {
			list = append(list, fmt.Sprintf("All %d values of %s are %s: the judge does not tell the lines apart.",
				len(cells[m]), m, all[0]))
		}
	}
	return list
}

// accuracy says how often the judge's verdicts are right.
func (r *Report) accuracy(measures []string) string {
	text := fmt.Sprintf("A language model, %s, judged here (%s).", r.Judge, strings.Join(measures, ", "))
	e := r.Examined
	if e == nil {
		return text + " It has not been examined ('sluice models check'): nothing is known of its accuracy."
	}
	text += fmt.Sprintf(" In the examination of %s, the share of right verdicts in the nearest task is", e.Model)
	var parts []string
	passes := false
	for _, m := range measures {
		var of []string
		for _, language := range slices.Sorted(maps.Keys(e.Verdicts[m])) {
			v := e.Verdicts[m][language]
			passes = passes || v.Passes()
			of = append(of, fmt.Sprintf("%.3f (%s, at least %.3f)", v.Balanced, language, v.Low))
		}
		parts = append(parts, fmt.Sprintf("%s for %s", strings.Join(of, " and "), m))
	}
	text += " " + strings.Join(parts, ", ") + "; chance is 0.500, and the limits bound 95 % intervals."
	if !passes {
		text += " Such verdicts are no better than chance, and these values say nothing about what they are given to."
	}
	return text
}
