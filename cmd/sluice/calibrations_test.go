package main

import (
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
		{"--rank-limit", "2"}, {"--slots", "2"}} {
		b.fails(exitUsage, flags[0]+" has no effect with --reuse",
			append([]string{"calibrate", "--reuse"}, flags...)...)
		b.fails(exitUsage, flags[0]+" has no effect with --show", append([]string{"calibrate", "--show"}, flags...)...)
	}
	b.fails(exitUsage, "--policy has no effect with --show", "calibrate", "--show", "--policy", "min")
	b.fails(exitUsage, "unknown command", "calibrate", "lst")
}
