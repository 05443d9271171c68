package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/internal/testmodels/doubles"
)

// TestDecisionLog checks the way from decisions to a calibration: questions are logged, users give feedback, and the
// threshold follows.
func TestDecisionLog(t *testing.T) {
	b := calibrated(t)
	b.model = doubles.NewModel("It says so [1].")
	file := filepath.Join(b.dir, "decisions.jsonl")
	b.fails(exitFailure, "no log is kept", "log", "report")
	b.fails(exitFailure, "no log is kept", "feedback", "daaaaaaaaaaaaaaaa", "up")
	b.env = append(b.env, "SLUICE_LOG_DECISIONS="+file, "SLUICE_LOG_SHADOW_POLICY=maximum:max")
	o := b.run("gate", "herring plankton", "--explain")
	for _, want := range []string{"shadow      policy maximum:max with T = 0 would be closed", "logged      as d"} {
		if !strings.Contains(o.stdout, want) {
			t.Errorf("%q does not say %q", o.stdout, want)
		}
	}
	if !strings.Contains(o.stderr, "decisions are written to "+file) {
		t.Errorf("the log is not announced: %q", o.stderr)
	}
	b.stdin = "When does a deferred function run, in which order?\n/down\n/up\n"
	if out := b.ok("chat"); strings.Count(out, "noted") != 2 {
		t.Errorf("%s", out)
	}
	b.stdin = ""
	b.fails(exitFailure, "too few questions with feedback: 1 questions", "calibrate", "--from-log", file)
	// Questions that the gate wrongly keeps out, and others that it rightly keeps out.
	in, out := []string{"herring", "plankton", "lighthouses", "rocks", "channel", "panic", "deferred", "function"},
		[]string{"violin", "tax", "moon", "pizza", "goal", "bread", "piano", "castle"}
	for i := range 16 {
		a, c := in[i%8], in[(i+1+i/8)%8]
		thumb(t, b, fmt.Sprintf("%s %s?", a, c), true)
		thumb(t, b, fmt.Sprintf("%s %s?", out[i%8], out[(i+1+i/8)%8]), false)
	}
	report := b.ok("log", "report")
	for _, want := range []string{"decisions  34 in 1 file", "17 questions in scope, 16 out of scope",
		"shadow     maximum:max, T = 0: decides otherwise in "} {
		if !strings.Contains(report, want) {
			t.Errorf("%q does not say %q", report, want)
		}
	}
	b.fails(exitUsage, "no effect with --from-log", "calibrate", "--from-log", file, "--policy", "p5")
	text := b.ok("calibrate", "--from-log", file, "--name", "fed")
	for _, want := range []string{"33 with feedback, 33 of them scored anew", "held out", "not in force"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q does not say %q", text, want)
		}
	}
	r := objects(t, b.ok("calibrate", "--from-log", file, "--name", "fed", "--use", "--json"))[0]
	before, after := r["holdout_before"].(map[string]any), r["holdout_after"].(map[string]any)
	if r["changed"] != true || after["balanced_accuracy"].(float64) <= before["balanced_accuracy"].(float64) {
		t.Errorf("%v", r)
	}
	if _, err := os.Stat(filepath.Join(b.store, "calibration", "fed.log.json")); err != nil {
		t.Error(err)
	}
	if d := objects(t, b.run("gate", "--json", "herring plankton?").stdout)[0]; d["retrieve"] != true {
		t.Errorf("after the calibration the gate says %v", d)
	}
}

// thumb asks the gate and gives feedback on whether the store should be used for the question.
func thumb(t *testing.T, b *bench, question string, inScope bool) {
	t.Helper()
	d := objects(t, b.run("gate", "--json", question).stdout)[0]
	word := "down"
	if d["retrieve"] == inScope {
		word = "up"
	}
	b.ok("feedback", d["log_id"].(string), word)
}

func TestLogOfDigests(t *testing.T) {
	b := calibrated(t)
	file := filepath.Join(b.dir, "decisions.jsonl")
	b.env = append(b.env, "SLUICE_LOG_DECISIONS="+file, "SLUICE_LOG_TEXT=digest")
	b.run("gate", "a secret question")
	text, err := os.ReadFile(file)
	if err != nil || strings.Contains(string(text), "secret") || !strings.Contains(string(text), "query_sha256") {
		t.Errorf("%s, %v", text, err)
	}
	b.env = append(b.env, "SLUICE_LOG_SHADOW_POLICY=best")
	b.fails(exitUsage, `shadow policy: gate: unknown policy: "best"`, "gate", "q")
}
