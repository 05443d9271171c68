package main

import (
	"fmt"
	"strings"
	"testing"
)

// library returns a bench whose store has chunks of two topics, and two without a topic.
func library(t *testing.T) *bench {
	b := newBench(t)
	var lines strings.Builder
	for i := range 30 {
		fmt.Fprintf(&lines, `{"id":"g%d","topic":"go","text":"A deferred function number %d runs when the `, i, i)
		lines.WriteString(`surrounding function returns a channel or a slice."}` + "\n")
		fmt.Fprintf(&lines, `{"id":"s%d","topic":"sea","text":"Herring number %d swims in the northern sea, `, i, i)
		lines.WriteString(`where lighthouses warn ships of rocks."}` + "\n")
	}
	b.ok("ingest", "--no-chunk", b.file("library.jsonl", lines.String()))
	return b
}

func TestRouteTrainsAndSearchesDomains(t *testing.T) {
	b := library(t)
	plain := objects(t, b.ok("retrieve", "--json", "which ships does the herring see"))[0]
	if _, routed := plain["taken"].(map[string]any)["route"]; routed {
		t.Error("a store without a router is searched by one")
	}
	line := objects(t, b.ok("route", "train", "--json"))[0]
	if chunks, _ := line["chunks"].(map[string]any); chunks["go"] != 30. || chunks["sea"] != 30. {
		t.Errorf("%v", line)
	}
	found := objects(t,
		b.ok("retrieve", "--json",
			"Herring number 3 swims in the northern sea, where lighthouses warn ships of rocks."))[0]
	route, _ := found["taken"].(map[string]any)["route"].(map[string]any)
	if searched, _ := route["searched"].([]any); route["all"] != false || len(searched) != 1 || searched[0] != "sea" ||
		found["taken"].(map[string]any)["contexts"] != 30. {
		t.Errorf("%v", found["taken"])
	}
	given := objects(t, b.ok("retrieve", "--json", "--route", "go", "the herring"))[0]
	for _, r := range given["results"].([]any) {
		if r.(map[string]any)["topic"] != "go" {
			t.Errorf("%v is of another domain than the one that was asked for", r)
		}
	}
	off := objects(t, b.ok("retrieve", "--json", "--route", "off", "the herring"))[0]
	if off["taken"].(map[string]any)["contexts"] != 60. {
		t.Errorf("%v", off["taken"])
	}
	b.fails(exitUsage, `no domain "space"; there are go, sea`, "retrieve", "--route", "space", "x")
	strange := objects(t, b.ok("retrieve", "--json", "zebra quagga"))[0]
	route, _ = strange["taken"].(map[string]any)["route"].(map[string]any)
	if route["all"] != true || route["reason"] == nil {
		t.Errorf("an unlike query is not searched for everywhere: %v", route)
	}

	b.ok("ingest", "--no-chunk", b.file("more.jsonl", `{"id":"new","text":"Herring number 77 swims in the northern `+
		`sea, where lighthouses warn ships of rocks."}`+"\n"+`{"id":"odd","text":"zebra quagga okapi"}`+"\n"))
	topics := map[string]any{}
	for _, d := range objects(t, b.ok("docs", "list", "--json")) {
		topics[fmt.Sprint(d["id"])] = d["topic"]
	}
	if topics["new"] != "sea" || topics["odd"] != nil && topics["odd"] != "" {
		t.Errorf("topics of new documents: %v, %v", topics["new"], topics["odd"])
	}
	show := objects(t, b.ok("route", "show", "--json"))[0]
	if stale, _ := show["stale"].(map[string]any); stale["new"] != 2. || stale["chunks"] != 62. {
		t.Errorf("%v", show["stale"])
	}
	b.ok("route", "rm")
	b.fails(exitFailure, "has no router", "route", "show")
}

func TestRouteByClustersAndDescriptions(t *testing.T) {
	b := library(t)
	line := objects(t, b.ok("route", "train", "--by", "clusters", "--json"))[0]
	if chunks, _ := line["chunks"].(map[string]any); len(chunks) != 2 {
		t.Errorf("two kinds of chunks make the clusters %v", line["chunks"])
	}
	labels := b.file("labels.jsonl", `{"label":"code","description":"a deferred function, a channel, a slice"}`+"\n"+
		`{"label":"ocean","description":"herring, lighthouses, ships, northern sea"}`+"\n")
	line = objects(t, b.ok("route", "train", "--by", "labels", "--labels", labels, "--json"))[0]
	if chunks, _ := line["chunks"].(map[string]any); chunks["code"] != 30. || chunks["ocean"] != 30. {
		t.Errorf("%v", line["chunks"])
	}
	given := objects(t, b.ok("retrieve", "--json", "--route", "ocean", "a slice"))[0]
	if given["taken"].(map[string]any)["contexts"] != 30. {
		t.Errorf("%v", given["taken"])
	}
	b.fails(exitFailure, "two are the least", "route", "train", "--by", "meta.department")
	b.fails(exitUsage, "domains by", "route", "train", "--by", "moon")
	b.fails(exitUsage, "go together", "route", "train", "--by", "labels")
}

// TestRouterSettingsOfTheFile checks that each flag of a router has a setting, which the file sets and a flag
// overrides.
func TestRouterSettingsOfTheFile(t *testing.T) {
	b := library(t)
	file := b.file("sluice.yaml", "route:\n  by: clusters\n  clusters: 3\n  kind: mnb\n  keep: 0.9\n  seed: 7\n")
	train := func(more ...string) (settings map[string]any, by any) {
		line := objects(t, b.ok(append([]string{"route", "train", "--json", "--config", file}, more...)...))[0]
		router, _ := line["router"].(map[string]any)
		settings, _ = router["settings"].(map[string]any)
		data, _ := router["data"].(map[string]any)
		return settings, data["domains"]
	}
	s, by := train()
	if by != "clusters" || s["kind"] != "mnb" || s["features"] != "tfidf" || s["keep"] != .9 || s["seed"] != 7. {
		t.Errorf("domains by %v, %v", by, s)
	}
	s, by = train("--by", "topic", "--kind", "lr")
	if by != "topic" || s["kind"] != "lr" || s["features"] != "both" || s["seed"] != 7. {
		t.Errorf("with flags: domains by %v, %v", by, s)
	}
	b.fails(exitUsage, "route.cover: 2 is not between 0 and 1", "route", "train", "--cover", "2")
	b.fails(exitUsage, "kind \"distilbert\"", "route", "train", "--kind", "distilbert")
}
