package tidy

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestWaysNameFunctions: the functions that docs/architecture.md lists on the five ways through the code exist.
func TestWaysNameFunctions(t *testing.T) {
	_, ways, found := strings.Cut(read(t, "docs/architecture.md"), "## Five ways through the code")
	if !found {
		t.Fatal("docs/architecture.md has no such section")
	}
	ways, _, _ = strings.Cut(ways, "\n## ")
	checked := 0
	for _, m := range regexp.MustCompile("`([a-z/]+)\\.([A-Za-z_]+)`").FindAllStringSubmatch(ways, -1) {
		dir, name := m[1], m[2]
		switch {
		case dir == "llama": // go-llama.cpp's own
			continue
		case name == "h":
			read(t, dir+".h")
			continue
		case dir == "sluice":
			dir = "."
		}
		files, err := filepath.Glob(filepath.Join("../..", dir, "*.*"))
		if err != nil || len(files) == 0 {
			t.Errorf("%s: no folder %s (%v)", m[0], dir, err)
		}
		definition := regexp.MustCompile(`(?m)^(func (\([^)]*\) )?|[A-Za-z].*\b)` + name + `\(`)
		exists := false
		for _, file := range files {
			if isGo(file) || isC(file) {
				exists = exists || definition.MatchString(read(t, strings.TrimPrefix(filepath.ToSlash(file), "../../")))
			}
		}
		if checked++; !exists {
			t.Errorf("%s: no such function", m[0])
		}
	}
	if checked < 40 {
		t.Errorf("only %d functions found: the test no longer reads the table", checked)
	}
}
