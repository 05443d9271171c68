package main

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestClusterPlan: with given rates a plan says the same everywhere; the numbers of its JSON fit together.
func TestClusterPlan(t *testing.T) {
	b := newBench(t)
	rates := []string{"--rate", "2.6e9", "--score-rate", "3e7", "--word-rate", "2e7"}
	args := append([]string{"cluster", "plan", "--contexts", "1e9", "--questions", "1e5"}, rates...)
	golden(t, "cluster_plan", b.ok(args...))
	var r clusterReport
	if err := json.Unmarshal([]byte(b.ok(append(args, "--json", "--exact")...)), &r); err != nil {
		t.Fatal(err)
	}
	if len(r.Passes) != 3 || len(r.Runs) != 3 || r.Runs[0].Hours < r.Runs[2].Hours || r.Rates.Products != 384*2.6e9 {
		t.Errorf("%+v", r)
	}
	for _, bad := range [][]string{{"--contexts", "0"}, {"--questions", "-3"}, {"--workers", "0"}, {"--rate", "-1"},
		{"--memory", "100"}, {"--transfer", "0"}, {"--block", "0.1"}, {"--spread", "9"}} {
		b.fails(exitUsage, "see 'sluice cluster plan --help'", append(args, bad...)...)
	}
}

// TestClusterRates: what is not given is measured.
func TestClusterRates(t *testing.T) {
	b := newBench(t)
	var r clusterReport
	out := b.ok("cluster", "plan", "--contexts", "1e6", "--questions", "1e3", "--dim", "32", "--rate", "1e9",
		"--word-rate", "1e7", "--json")
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatal(err)
	}
	if r.Rates.Products != 32e9 || !(r.Rates.Scores > 0) || !strings.Contains(r.Rates.From, "measured here") {
		t.Errorf("%+v", r.Rates)
	}
}
