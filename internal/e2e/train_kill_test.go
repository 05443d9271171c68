//go:build native

package e2e

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/internal/testmodels/checkpoint"
)

// TestKilledTrainingGoesOn kills `train classifier` with SIGKILL after its first epochs, and checks that the same
// command resumes and writes the same bits as an uninterrupted training.
func TestKilledTrainingGoesOn(t *testing.T) {
	bin := binary(t)
	dir := t.TempDir()
	from := filepath.Join(dir, "small")
	if err := os.Mkdir(from, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := checkpoint.Write(from, checkpoint.Spec{Family: "distilbert"}); err != nil {
		t.Fatal(err)
	}
	var lines strings.Builder
	for i := range 400 {
		fmt.Fprintf(&lines, `{"text":"the gate %d is near to a context %s","label":"%d"}`+"\n", i,
			strings.Repeat("knowledge ", i%9), i%3)
	}
	data := filepath.Join(dir, "data.jsonl")
	if err := os.WriteFile(data, []byte(lines.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	args := func(out string) []string {
		return []string{"train", "classifier", "--data", data, "--from", from, "--out", filepath.Join(dir, out),
			"--layers", "all", "--epochs", "8", "--batch", "4", "--patience", "0", "--json", "--quiet"}
	}
	run(t, bin, args("whole")...)
	for kills := 0; ; kills++ {
		cmd := exec.CommandContext(t.Context(), bin, args("killed")...)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		epochs := 0
		for s := bufio.NewScanner(out); s.Scan(); {
			if epochs++; epochs == 2 && kills < 3 {
				if err := cmd.Process.Kill(); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := cmd.Wait(); err == nil {
			if kills == 0 {
				t.Error("nothing was killed")
			}
			break
		} else if kills >= 3 {
			t.Fatal(err)
		}
	}
	weights := func(out string) []byte {
		raw, err := os.ReadFile(filepath.Join(dir, out, "model.safetensors"))
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	if !bytes.Equal(weights("whole"), weights("killed")) {
		t.Error("the killed training has other bits")
	}
}
