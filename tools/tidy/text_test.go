package tidy

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// forbidden returns what must not be committed. The words are put together here so that this file does not match
// itself.
func forbidden() map[string]*regexp.Regexp {
	return map[string]*regexp.Regexp{
		"an unfinished mark": regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|X` + `XX)\b`),
		"a machine's path":   regexp.MustCompile(`(/ho` + `me/[a-z]|/ro` + `ot/|/wo` + `rk/)`),
		"a registry's host": regexp.MustCompile(`(files\.python` + `hosted|pypi\.` + `org|proxy\.go` +
			`lang\.org|static\.cra` +
			`tes\.io|registry\.npm` + `js)`),
	}
}

// TestNothingUnfinishedOrMachineSpecific looks through every text file that is committed.
func TestNothingUnfinishedOrMachineSpecific(t *testing.T) {
	words := forbidden()
	walk(t, func(file string) {
		switch path.Ext(file) {
		case ".go", ".c", ".h", ".inc", ".cpp", ".py", ".sh", ".md", ".yaml", ".yml", ".tmpl", ".json", "":
		default:
			return
		}
		for i, line := range strings.Split(read(t, file), "\n") {
			for what, re := range words {
				if m := re.FindString(line); m != "" {
					t.Errorf("%s:%d holds %s: %q", file, i+1, what, m)
				}
			}
		}
	})
}

// TestCommentsAreLiteral refuses turns of phrase that make a reader guess what is meant: "x are those of y", "y is
// none".
func TestCommentsAreLiteral(t *testing.T) {
	riddle := regexp.MustCompile(`//.*\b((are|is) (those|that) of|[^e] (is|are) none([.,;:)]|$))`)
	walk(t, func(file string) {
		if !isGo(file) && !strings.HasPrefix(file, "kernels/cpu/") {
			return
		}
		for i, line := range strings.Split(read(t, file), "\n") {
			if m := riddle.FindString(line); m != "" && !strings.Contains(m, `"`) {
				t.Errorf("%s:%d: say it literally: %q", file, i+1, strings.TrimSpace(m))
			}
		}
	})
}

// TestLinksInDocumentationResolve checks relative links of Markdown files.
func TestLinksInDocumentationResolve(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#\s]+)(#[^)]*)?\)`)
	walk(t, func(file string) {
		if path.Ext(file) != ".md" || strings.Contains(file, "testdata/") {
			return
		}
		for _, m := range link.FindAllStringSubmatch(read(t, file), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			if _, err := os.Stat(filepath.Join(root(t), path.Dir(file), m[1])); err != nil {
				t.Errorf("%s: link to %q leads nowhere", file, m[1])
			}
		}
	})
}
