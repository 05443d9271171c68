package config

import (
	"reflect"
	"slices"
	"strings"

	"github.com/sluice-rag/sluice/internal/settings"
)

// Fields returns every setting in the order of Config, grouped by section.
func Fields() []settings.Field {
	list, first := settings.Fields(reflect.TypeFor[Config]()), map[string]int{}
	section := func(f settings.Field) string {
		name, _, nested := strings.Cut(f.Key, ".")
		if !nested {
			return ""
		}
		return name
	}
	for i, f := range list {
		if _, known := first[section(f)]; !known {
			first[section(f)] = i
		}
	}
	slices.SortStableFunc(list, func(a, b settings.Field) int { return first[section(a)] - first[section(b)] })
	return list
}

// Env returns the variable of a key.
func Env(key string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(key, ".", "_"))
}

// Nearest returns the candidate with the smallest edit distance, and that distance.
func Nearest(word string, candidates []string) (best string, distance int) {
	distance = len(word) + 1
	for _, c := range candidates {
		if d := editDistance(word, c); d < distance {
			best, distance = c, d
		}
	}
	return best, distance
}

// editDistance is Levenshtein's, over bytes: the names are ASCII.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
