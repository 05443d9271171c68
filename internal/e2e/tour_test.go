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

	"github.com/sluice-rag/sluice/internal/fetch"
)

const repo = "../.."

var (
	codeBlock   = regexp.MustCompile("(?ms)^```(sh|console)\n(.*?)^```")
	makeTarget  = regexp.MustCompile(`\bmake ([a-z][a-z-]*)`)
	progressed  = regexp.MustCompile(`^[a-z-]+: \d+(/\d+ \w+ \(\d+ %\)(, \d.*)?| \w+(, \S+)?)$`)
	doubted     = regexp.MustCompile(`^sluice: warning: the (gate|cut-off) `) // depends on what the model wrote
	hexadecimal = regexp.MustCompile(`\b[0-9a-f]{8,}\b`)
	numeral     = regexp.MustCompile(`-?\d[\d.,]*(e-?\d+)?`)
	blanks      = regexp.MustCompile(`  +`)
)

// step is a command of a document, with the output that the document shows; silent if it shows none.
type step struct {
	command string
	shown   []string
	silent  bool
}

// steps returns the commands of a document's blocks: each line of a block marked sh, and each line that starts with "$
// " of a block marked console, with the lines that follow.
func steps(text string) (all []step) {
	for _, block := range codeBlock.FindAllStringSubmatch(text, -1) {
		for line := range strings.Lines(strings.ReplaceAll(block[2], "\\\n", " ")) {
			line = strings.TrimSuffix(line, "\n")
			command, prompt := strings.CutPrefix(line, "$ ")
			switch {
			case block[1] == "sh" && strings.TrimSpace(line) != "" && !strings.HasPrefix(line, "#"):
				all = append(all, step{command: line, silent: true})
			case prompt:
				all = append(all, step{command: command})
			case block[1] == "console" && len(all) > 0:
				all[len(all)-1].shown = append(all[len(all)-1].shown, line)
			}
		}
	}
	return all
}

// masked returns a line without what may differ between machines and days: numbers, hexadecimal ids, and the widths of
// table columns.
func masked(line string) string {
	line = hexadecimal.ReplaceAllString(line, "H")
	return strings.TrimSpace(blanks.ReplaceAllString(numeral.ReplaceAllString(line, "N"), " "))
}

// same reports whether a line matches the shown one, which may end with an ellipsis in place of the rest.
func same(shown, line string) bool {
	if beginning, ok := strings.CutSuffix(shown, "…"); ok && beginning != "" {
		return strings.HasPrefix(masked(line), masked(beginning))
	}
	return masked(shown) == masked(line)
}

// missing returns the first shown line that was not printed, in order. A line "…" stands for any number of lines;
// without it, no line may come in between.
func missing(shown, printed []string) (line string, ok bool) {
	for i, want := range shown {
		if want == "…" {
			for rest := printed; ; rest = rest[1:] {
				if _, bad := missing(shown[i+1:], rest); !bad {
					return "", false
				}
				if len(rest) == 0 {
					return missing(shown[i+1:], printed)
				}
			}
		}
		if len(printed) == 0 || !same(want, printed[0]) {
			return want, true
		}
		printed = printed[1:]
	}
	if len(printed) > 0 {
		return "nothing more, but there is: " + printed[0], true
	}
	return "", false
}

// TestTourRuns runs the commands of docs/tour.md's blocks, in order, in a clean home with a copy of this project's
// docs, and compares their output with what the blocks show. The gate may say "closed" (exit code 3); any other exit
// code except 0 is an error.
func TestTourRuns(t *testing.T) {
	bin := binary(t)
	tour := read(t, "docs/tour.md")
	dir, home := t.TempDir(), t.TempDir()
	environment := cleanHome(t, dir, home, filepath.Dir(bin))
	ran := 0
	for _, s := range steps(tour) {
		ran++
		cmd := exec.CommandContext(t.Context(), "sh", "-c", s.command)
		cmd.Dir, cmd.Env = dir, environment
		out, err := cmd.CombinedOutput()
		var exit *exec.ExitError
		if errors.As(err, &exit) && exit.ExitCode() == 3 && strings.HasPrefix(s.command, "bin/sluice gate") {
			err = nil
		}
		if err != nil {
			t.Fatalf("docs/tour.md: %s\n%v\n%s", s.command, err, out)
		}
		if len(out) == 0 {
			t.Errorf("docs/tour.md: %s printed nothing", s.command)
		}
		var printed []string
		for line := range strings.Lines(string(out)) {
			line = strings.TrimSuffix(line, "\n")
			if !progressed.MatchString(line) && !doubted.MatchString(line) {
				printed = append(printed, line)
			}
		}
		t.Logf("$ %s\n%s", s.command, strings.Join(printed, "\n"))
		if line, bad := missing(s.shown, printed); bad && !s.silent {
			t.Errorf("docs/tour.md: %s\ndoes not print, at its place: %s\nbut\n%s", s.command, line, out)
		}
	}
	if ran < 12 {
		t.Fatalf("only %d commands found in docs/tour.md: the test no longer reads it", ran)
	}
	t.Logf("%d commands", ran)
}

// cleanHome fills dir with the files that the commands read, and returns an environment without this user's settings
// and cache, except for the models in the cache.
func cleanHome(t *testing.T, dir, home, bin string) []string {
	t.Helper()
	cache, err := fetch.Open("")
	if err != nil {
		t.Fatal(err)
	}
	for _, link := range [][2]string{{bin, filepath.Join(dir, "bin")}, {cache.Path("models"),
		filepath.Join(home, "models")}} {
		if err := os.Symlink(link[0], link[1]); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.CopyFS(filepath.Join(dir, "docs"), os.DirFS(filepath.Join(repo, "docs"))); err != nil {
		t.Fatal(err)
	}
	return []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "SLUICE_CACHE=" + home, "LANG=C.UTF-8",
		"SLUICE_INGEST_OCR=off"} // the pictures of docs would take long
}

func TestShownIsPrinted(t *testing.T) {
	for _, c := range []struct {
		shown, printed string
		want           bool
	}{
		{"a 1.5 s\nb", "a 27 s\nb", true},
		{"a", "a\nb", false},
		{"a\n…", "a\nb\nc", true},
		{"…\nc", "a\nb\nc", true},
		{"…\nb\n…", "a\nc", false},
		{"open  score 0.5 (best x-0123456789abcdef)", "open  score 0.61 (best x-fedcba9876543210)", true},
		{"open …", "open  score", true},
		{"open …", "closed  score", false},
		{"name  1  text", "name      123  text", true},
		{"a", "", false},
	} {
		newline := func(r rune) bool { return r == '\n' }
		_, bad := missing(strings.Split(c.shown, "\n"), strings.FieldsFunc(c.printed, newline))
		if bad == c.want {
			t.Errorf("%q of %q: %v", c.shown, c.printed, !bad)
		}
	}
}

// TestMakeTargetsOfDocumentsExist checks the make targets that the documents name.
func TestMakeTargetsOfDocumentsExist(t *testing.T) {
	makefile := read(t, "Makefile")
	for _, doc := range []string{"README.md", "CONTRIBUTING.md", "docs/tour.md", "docs/install.md",
		"third_party/README.md"} {
		for _, m := range makeTarget.FindAllStringSubmatch(codeOf(read(t, doc)), -1) {
			if !strings.Contains(makefile, "\n"+m[1]+":") {
				t.Errorf("%s names `make %s`, which the Makefile does not have", doc, m[1])
			}
		}
	}
}

// codeOf returns the code of a Markdown text: fenced blocks and inline spans.
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
