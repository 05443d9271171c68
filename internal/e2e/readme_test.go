//go:build native

package e2e

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const repo = "../.."

var (
	shellBlock = regexp.MustCompile("(?ms)^```sh\n(.*?)^```")
	makeTarget = regexp.MustCompile(`\bmake ([a-z][a-z-]*)`)
)

// TestReadmeCommandsRun runs every bin/sluice line of README.md, in order, in one folder. The gate may
// say "closed" (exit code 3); nothing else but success will do.
func TestReadmeCommandsRun(t *testing.T) {
	binary(t)
	readme := read(t, "README.md")
	dir := t.TempDir()
	for _, name := range []string{"bin", "docs", "README.md"} {
		target, err := filepath.Abs(filepath.Join(repo, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	ran := 0
	for _, block := range shellBlock.FindAllStringSubmatch(readme, -1) {
		for _, line := range strings.Split(strings.ReplaceAll(block[1], "\\\n", " "), "\n") {
			if !strings.HasPrefix(line, "bin/sluice ") && !strings.HasPrefix(line, "echo ") {
				continue
			}
			ran++
			cmd := exec.CommandContext(t.Context(), "sh", "-c", line)
			cmd.Dir = dir
			out, err := cmd.CombinedOutput()
			var exit *exec.ExitError
			if errors.As(err, &exit) && exit.ExitCode() == 3 && strings.HasPrefix(line, "bin/sluice gate") {
				err = nil
			}
			if err != nil {
				t.Fatalf("README.md: %s\n%v\n%s", line, err, out)
			}
			if len(out) == 0 {
				t.Errorf("README.md: %s printed nothing", line)
			}
		}
	}
	if ran < 8 {
		t.Fatalf("only %d commands found in README.md: the test no longer reads it", ran)
	}
	t.Logf("%d commands", ran)
}

// TestReadmeMakeTargetsExist checks the make targets that the documents name.
func TestReadmeMakeTargetsExist(t *testing.T) {
	makefile := read(t, "Makefile")
	for _, doc := range []string{"README.md", "CONTRIBUTING.md", "third_party/README.md"} {
		for _, m := range makeTarget.FindAllStringSubmatch(codeOf(read(t, doc)), -1) {
			if !strings.Contains(makefile, "\n"+m[1]+":") {
				t.Errorf("%s names `make %s`, which the Makefile does not have", doc, m[1])
			}
		}
	}
}

// codeOf keeps the code of a Markdown text: fenced blocks and inline spans.
func codeOf(md string) string {
	return strings.Join(regexp.MustCompile("(?s)```.*?```|`[^`]*`").FindAllString(md, -1), "\n")
}

func read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(repo, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
