//go:build native

package route

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/sluice-rag/sluice/rag/route/learn"
)

var peers = flag.String("peers", "", "a Python with scikit-learn, whose training is timed beside ours; minutes")

// TestTrainingBesideScikitLearn shows the seconds of training on CLINC150's domains, of both programs in turns.
func TestTrainingBesideScikitLearn(t *testing.T) {
	if *peers == "" {
		t.Skip("SKIP: go test -tags native ./rag/route -run Beside -peers PYTHON -v")
	}
	enc := openMiniLM(t)
	train, test := clinc(t)
	for i := len(test.texts) - 1; i >= 0; i-- {
		if test.labels[i] == "oos" {
			test.texts, test.labels = slices.Delete(test.texts, i, i+1), slices.Delete(test.labels, i, i+1)
		}
	}
	train, test = embedded(t, enc, train), embedded(t, enc, test)
	learnThere := scikitLearn(t, train, test)
	const rounds = 5
	for _, c := range []struct {
		kind     learn.Kind
		features Features
	}{{learn.MultinomialNB, TFIDF}, {learn.GaussianNB, TFIDF}, {learn.LogisticRegression, TFIDF},
		{learn.LinearSVC, TFIDF}, {learn.LinearSVC, Embedding}, {learn.LinearSVC, Both},
		{learn.LogisticRegression, Both}} {
		var ours, theirs []float64
		var here, there float64
		for range rounds {
			var seconds float64
			here, _, seconds = scored(t, Plain(c.kind, c.features), train, test)
			ours = append(ours, seconds)
			seconds, there = learnThere(c.kind, c.features)
			theirs = append(theirs, seconds)
		}
		slices.Sort(ours)
		slices.Sort(theirs)
		t.Logf("%s, %s: %.3f s (%.3f to %.3f), accuracy %.4f; scikit-learn %.3f s (%.3f to %.3f), %.4f; %.2f ×", c.kind,
			c.features, ours[rounds/2], ours[0], ours[rounds-1], here, theirs[rounds/2], theirs[0], theirs[rounds-1],
			there, theirs[rounds/2]/ours[rounds/2])
		if math.Abs(here-there) > .005 {
			t.Errorf("%s, %s: accuracy %.4f, scikit-learn has %.4f", c.kind, c.features, here, there)
		}
	}
}

// scikitLearn starts a Python that trains on request.
func scikitLearn(t *testing.T, train, test labelled) func(learn.Kind, Features) (seconds, accuracy float64) {
	dir := t.TempDir()
	for name, l := range map[string]labelled{"train": train, "test": test} {
		text, err := json.Marshal(map[string]any{"texts": l.texts, "labels": l.labels})
		if err != nil {
			t.Fatal(err)
		}
		vectors, err := binary.Append(nil, binary.LittleEndian, l.vectors.Data)
		if err != nil {
			t.Fatal(err)
		}
		for ext, content := range map[string][]byte{".json": text, ".f32": vectors} {
			if err := os.WriteFile(filepath.Join(dir, name+ext), content, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	cmd := exec.CommandContext(t.Context(), *peers, "testdata/peers.py", dir)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close(); _ = cmd.Wait() })
	lines := bufio.NewScanner(out)
	if !lines.Scan() {
		t.Fatal("scikit-learn does not start")
	}
	t.Log("scikit-learn", lines.Text())
	return func(kind learn.Kind, features Features) (seconds, accuracy float64) {
		if _, err := fmt.Fprintln(in, kind, features); err != nil {
			t.Fatal(err)
		}
		var r struct{ Seconds, Accuracy float64 }
		if !lines.Scan() {
			t.Fatalf("scikit-learn ended: %v", lines.Err())
		}
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			t.Fatal(err)
		}
		return r.Seconds, r.Accuracy
	}
}
