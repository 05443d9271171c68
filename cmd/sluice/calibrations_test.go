package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// inForce returns the name of the calibration in force.
func inForce(t *testing.T, b *bench) string {
	t.Helper()
	for line := range strings.Lines(b.ok("calibrate", "list")) {
		if name, ok := strings.CutPrefix(line, "* "); ok {
			return strings.Fields(name)[0]
		}
	}
	t.Fatal("no calibration is in force")
	return ""
}

// TestCalibrationsByName checks that a second calibration does not go in force by itself, that --reuse makes the named
// one, and that list, show, use and rm take names.
func TestCalibrationsByName(t *testing.T) {
	b := calibrated(t)
	file := b.file("questions.jsonl", questions)
	text := b.ok("calibrate", "--queries", file, "--name", "strict", "--policy", "max")
	if !strings.Contains(text, "in force   default, not this one: 'sluice calibrate use strict'") ||
		inForce(t, b) != "default" {
		t.Errorf("a second one: %s", text)
	}
	before := b.ok("calibrate", "show", "default")
	b.ok("calibrate", "--reuse", "--name", "other", "--policy", "mean")
	if inForce(t, b) != "default" || b.ok("calibrate", "show") != before ||
		!strings.Contains(b.ok("calibrate", "show", "other"), "policy     mean") ||
		!strings.Contains(b.ok("calibrate", "--show", "--name", "other"), "policy     mean") {
		t.Error("--reuse --name other changed what is in force, or did not make other")
	}
	if text := b.ok("calibrate", "use", "strict"); !strings.HasPrefix(text, "strict is in force: max = ") {
		t.Error(text)
	}
	b.ok("calibrate", "--reuse", "--policy", "min") // based on the one in force
	if inForce(t, b) != "strict" || !strings.Contains(b.ok("calibrate", "show"), "policy     min") {
		t.Error("--reuse without a name is not of the one in force")
	}
	b.ok("calibrate", "--reuse", "--name", "other", "--use")
	if inForce(t, b) != "other" {
		t.Error("--use does nothing")
	}
	b.fails(exitUsage, `"other" is in force`, "calibrate", "rm", "other")
	b.ok("calibrate", "rm", "default")
	left, err := filepath.Glob(filepath.Join(b.dir, "store", "calibration", "default*"))
	if err != nil || len(left) > 0 {
		t.Errorf("of default is left %v %v", left, err)
	}
	for _, args := range [][]string{{"use", "nothing"}, {"show", "nothing"}, {"rm", "default"}} {
		b.fails(exitFailure, "there is no calibration", append([]string{"calibrate"}, args...)...)
	}
	if err := os.WriteFile(filepath.Join(b.dir, "store", "calibration", "broken.cal.json"), []byte("{"),
		0o600); err != nil {
		t.Fatal(err)
	}
	if o := b.run("calibrate", "list", "--json"); o.code != exitOK || len(objects(t, o.stdout)) != 2 ||
		!strings.Contains(o.stderr, "calibration broken") {
		t.Errorf("%+v", o)
	}
	b.fails(exitFailure, "unreadable calibration", "calibrate", "use", "broken")
}

// TestCalibrateRefusesWhatItWouldIgnore checks that options without an effect are usage errors.
func TestCalibrateRefusesWhatItWouldIgnore(t *testing.T) {
	b := calibrated(t)
	for _, flags := range [][]string{{"--negatives", "all"}, {"--holdout", ".5"}, {"--seed", "2"}, {"--sample", "1"},
		{"--per-context", "1"}, {"--queries", "-"}, {"--keep-mb", "1"}, {"--resamples", "9"}, {"--strict"},
		{"--rank-limit", "2"}, {"--slots", "2"}, {"--second-model"}} {
		b.fails(exitUsage, flags[0]+" has no effect with --reuse",
			append([]string{"calibrate", "--reuse"}, flags...)...)
		b.fails(exitUsage, flags[0]+" has no effect with --show", append([]string{"calibrate", "--show"}, flags...)...)
	}
	b.fails(exitUsage, "--policy has no effect with --show", "calibrate", "--show", "--policy", "min")
	b.fails(exitUsage, "unknown command", "calibrate", "lst")
}

// TestCalibrateByDomain: with a router, each domain has a cut-off that its decisions name, until the router is another
// one.
func TestCalibrateByDomain(t *testing.T) {
	b := newBench(t)
	var contexts, questions strings.Builder
	for i := range 30 {
		topic, text := "bread", fmt.Sprintf("dough number%d rises in the warm oven as loaf%d", i, i*7)
		if i >= 20 {
			topic, text = "ships", fmt.Sprintf("vessel number%d sails over the cold sea to port%d", i, i*7)
		}
		fmt.Fprintf(&contexts, `{"id":"c%d","topic":%q,"text":%q}`+"\n", i, topic, text)
		fmt.Fprintf(&questions, `{"context_id":"c%d","text":%q}`+"\n", i, text+" when")
	}
	b.ok("ingest", "--no-chunk", b.file("contexts.jsonl", contexts.String()))
	b.ok("route", "train")
	file := b.file("questions.jsonl", questions.String())
	said := b.ok("calibrate", "--queries", file, "--policy", "conformal:0.1", "--second", "off")
	for _, want := range []string{"domain     bread: cut-off ", "(rank 2 of 20)\n", "domain     ships: cut-off ",
		"(rank 1 of 10)\n", "the same holds in each of 2 domains alone"} {
		if !strings.Contains(said, want) {
			t.Errorf("%q is not in\n%s", want, said)
		}
	}
	query := "vessel number25 sails over the cold sea to port175 when"
	line := objects(t, b.ok("gate", "--json", "--explain", query))[0]
	explain, _ := line["explain"].(map[string]any)
	domain, _ := explain["domain"].(map[string]any)
	if domain["name"] != "ships" || domain["cutoff_of"] != "ships" || domain["closed"] == nil {
		t.Errorf("%v", line)
	}
	if said := b.ok("gate", "--explain", query); !strings.Contains(said, "domain      ships, by the router; cut-off "+
		"of ships: at most 10 % of the calibration's in ships are kept out (10 contexts)") {
		t.Error(said)
	}
	if open := objects(t, b.ok("gate", "--no-score", "--json", query))[0]; open["cutoff"] != explain["cutoff"] {
		t.Errorf("%v, %v", open, explain)
	}
	said = b.ok("calibrate", "--reuse", "--policy", "maximum:p5")
	if strings.Contains(said, "domain ") {
		t.Error(said)
	}
	b.ok("calibrate", "--reuse", "--policy", "conformal:0.1")
	b.ok("calibrate", "--reuse", "--second", "off", "--score", "cosine")
	b.ok("route", "train", "--seed", "7")
	line = objects(t, b.ok("gate", "--json", "--explain", query))[0]
	explain, _ = line["explain"].(map[string]any)
	if domain, _ = explain["domain"].(map[string]any); domain["cutoff_of"] != "all" ||
		!strings.Contains(fmt.Sprint(line["warning"]), "router is not that of the calibration") {
		t.Errorf("%v", line)
	}
	said = b.ok("calibrate", "--queries", file, "--policy", "conformal:0.1", "--second", "off", "--domains", "off")
	if strings.Contains(said, "domain ") {
		t.Error(said)
	}
}
