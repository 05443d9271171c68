package main

import (
	"strings"
	"testing"
)

// TestExplain checks the parts of the scores, for people and as JSON.
func TestExplain(t *testing.T) {
	b := calibrated(t)
	text := b.ok("retrieve", "--explain", "--k", "2", "In which order do deferred functions run?")
	for _, want := range []string{"cosine+cover+share, taken by auto: vectors by cosine, k1 1.5, b 0.75, weight 0.5, ",
		"contexts searched\n", "score   dense", "cover   share", "has the words\n", "word of the query", "order"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	text = b.ok("retrieve", "--explain", "--text", "none", "--mode", "hybrid", "--fusion", "rrf", "--weight", "0.2",
		"deferred functions")
	if !strings.Contains(text, "fusion rrf, of the first 100 of each") || !strings.Contains(text, "rank") ||
		strings.Contains(text, "weight") || strings.Contains(text, "normalised") {
		t.Error(text)
	}
	line := objects(t, b.ok("retrieve", "--json", "--explain", "--mode", "hybrid", "--metric", "l2", "--weight", "0",
		"deferred functions"))[0]
	taken := line["taken"].(map[string]any)
	parts := line["results"].([]any)[0].(map[string]any)["parts"].(map[string]any)
	if taken["metric"] != "l2" || taken["weight"] != 0.0 || taken["fusion"] != "min-max" || parts["weight"] != 0.0 ||
		parts["sparse_normalised"] != 1.0 {
		t.Errorf("%v, %v", taken, parts)
	}
	sameKeys(t, "parts", parts, "dense", "dense_normalised", "sparse", "sparse_normalised", "weight", "rule", "terms")
	sameKeys(t, "a term", parts["terms"].([]any)[0].(map[string]any), "term", "df", "idf")
	line = objects(t, b.ok("retrieve", "--json", "deferred functions"))[0]
	if _, there := line["results"].([]any)[0].(map[string]any)["parts"]; there {
		t.Error("parts that nobody asked for")
	}
}

// TestWhere checks that a filter selects contexts before they are scored, and that one without matches says so.
func TestWhere(t *testing.T) {
	b := calibrated(t)
	all := objects(t, b.ok("retrieve", "--json", "--k", "100", "functions"))[0]["results"].([]any)
	topic := all[0].(map[string]any)["topic"].(string)
	for _, mode := range []string{"auto", "dense", "hybrid"} {
		some := objects(t, b.ok("retrieve", "--json", "--k", "100", "--mode", mode, "--where", "topic="+topic,
			"functions"))[0]["results"].([]any)
		if len(some) == 0 || len(some) >= len(all) {
			t.Errorf("%s: %d of %d contexts have the topic", mode, len(some), len(all))
		}
		for _, r := range some {
			if r.(map[string]any)["topic"] != topic {
				t.Errorf("%s: %v", mode, r)
			}
		}
	}
	if text := b.ok("retrieve", "--where", "topic=nowhere", "functions"); !strings.Contains(text,
		"only topic=nowhere, 0 contexts searched, there are no contexts to search") {
		t.Error(text)
	}
}
