//go:build native

package sluice_test

import (
	"encoding/json"
	"flag"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice"
	"github.com/sluice-rag/sluice/internal/testmodels/datasets"
	"github.com/sluice-rag/sluice/rag/calibrate"
	"github.com/sluice-rag/sluice/rag/decisions"
	"github.com/sluice-rag/sluice/rag/ingest"
)

var figures = flag.Bool("figures", false, "print figures of docs/adr; about a minute each")

// TestFeedbackMovesTheCutoff builds a store of half of squad16's topics with a wrong threshold, gives true feedback on
// 100 of its questions and 100 of the other topics, and evaluates the calibration from the log on further questions.
func TestFeedbackMovesTheCutoff(t *testing.T) {
	if !*figures {
		t.Skip("SKIP: a minute; go test . -run FeedbackMoves -figures -v prints the figures")
	}
	contexts, all := datasets.Lines(t, "squad16/contexts.jsonl"), datasets.Lines(t, "squad16/queries.jsonl")
	r := rand.New(rand.NewPCG(7, 0))
	r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	var topics []string
	for _, c := range contexts {
		topics = append(topics, c.Topic)
	}
	slices.Sort(topics)
	topics = slices.Compact(topics)[:8]
	var lines, pseudo strings.Builder
	for _, c := range contexts {
		if slices.Contains(topics, c.Topic) {
			_ = json.NewEncoder(&lines).Encode(map[string]string{"id": c.ID, "topic": c.Topic, "text": c.Text})
		}
	}
	var in, out []string
	for _, q := range all {
		switch mine := slices.Contains(topics, q.Topic); {
		case !mine:
			out = append(out, q.Text)
		case q.Answerable && strings.Count(pseudo.String(), "\n") < 900:
			_ = json.NewEncoder(&pseudo).Encode(map[string]string{"context_id": q.ContextID, "text": q.Text})
		case q.Answerable:
			in = append(in, q.Text)
		}
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "contexts.jsonl")
	if err := os.WriteFile(file, []byte(lines.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, threshold := range []float64{0, -.15, .2} {
		log := filepath.Join(dir, "decisions.jsonl")
		_ = os.Remove(log)
		s, err := sluice.Open(t.Context(), sluice.Config{Store: filepath.Join(dir, "store"),
			Decisions: decisions.Options{File: log}, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
		if err != nil {
			t.Fatal(err)
		}
		if _, err = s.Ingest(t.Context(), []string{file}, ingest.Options{NoChunk: true}); err == nil {
			_, err = s.Calibrate(t.Context(), calibrate.Options{Queries: strings.NewReader(pseudo.String()),
				Source: "squad16", Threshold: threshold, Seed: 1})
		}
		if err != nil {
			t.Fatal(err)
		}
		before := balanced(t, s, in[100:], out[100:600])
		feedback(t, s, in[:100], true)
		feedback(t, s, out[:100], false)
		f, err := s.Calibrations().FromLog(t.Context(), sluice.FromLogOptions{Seed: 1})
		if err != nil {
			t.Fatal(err)
		}
		after := balanced(t, s, in[100:], out[100:600])
		t.Logf("T = %g: balanced accuracy on %d other questions %.4f, after %.4f; on those held out %.4f, after "+
			"%.4f; %s, "+
			"T = %.4f", threshold, len(in)-100+500, before, after, f.HoldoutBefore.Balanced, f.HoldoutAfter.Balanced,
			f.After.Policy, f.After.Threshold)
		if after < before-.01 || threshold != 0 && after < before+.02 {
			t.Errorf("T = %g: %.4f before, %.4f after", threshold, before, after)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// feedback asks the gate and gives the true feedback on each question.
func feedback(t *testing.T, s *sluice.Sluice, questions []string, inScope bool) {
	t.Helper()
	found, err := s.Gate(t.Context(), questions)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range found {
		if err := s.Decisions().Feedback(t.Context(), d.LogID, d.Retrieve == inScope); err != nil {
			t.Fatal(err)
		}
	}
}

func balanced(t *testing.T, s *sluice.Sluice, in, out []string) float64 {
	t.Helper()
	right := func(questions []string, open bool) float64 {
		found, err := s.Gate(sluice.WithoutLog(t.Context()), questions)
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, d := range found {
			if d.Retrieve == open {
				n++
			}
		}
		return float64(n) / float64(len(questions))
	}
	return (right(in, true) + right(out, false)) / 2
}
