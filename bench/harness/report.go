package harness

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Own is Sluice's name among the competitors.
const Own = "sluice"

// Bold marks Sluice's own rows of a table.
func Bold(impl string) string {
	if impl == Own {
		return "**" + impl + "**"
	}
	return impl
}

// Limit is a measured limit of the machine, in units of a billionth of Unit's.
type Limit struct {
	Name  string
	Value float64 // 0: not measured
	Unit  string
}

// LimitsTable writes the limits that were measured.
func LimitsTable(w io.Writer, threads int, all ...Limit) {
	fmt.Fprintf(w, "Limits measured in this run (%d threads):\n\n| limit | |\n|---|---|\n", threads)
	for _, l := range all {
		if l.Value > 0 {
			fmt.Fprintf(w, "| %s | %.4g %s |\n", l.Name, l.Value/1e9, l.Unit)
		}
	}
	fmt.Fprintln(w)
}

// NotesList writes what was left out and why, if there is something.
func NotesList(w io.Writer, notes []string) {
	if len(notes) == 0 {
		return
	}
	fmt.Fprint(w, "## Notes\n\n")
	for _, n := range notes {
		fmt.Fprintf(w, "- %s\n", strings.ReplaceAll(n, "\n", " "))
	}
	fmt.Fprintln(w)
}

// VersionsList writes the versions of everything that took part, by name.
func VersionsList(w io.Writer, versions map[string]string) {
	fmt.Fprint(w, "## Versions\n\n")
	for _, name := range slices.Sorted(maps.Keys(versions)) {
		fmt.Fprintf(w, "- %s %s\n", name, versions[name])
	}
}

// Write puts report.md and report.json into a folder.
func Write(dir string, report interface{ Markdown(io.Writer) error }) error {
	err := Atomically(filepath.Join(dir, "report.md"), func(f *os.File) error { return report.Markdown(f) })
	if err != nil {
		return err
	}
	return Atomically(filepath.Join(dir, "report.json"), func(f *os.File) error {
		e := json.NewEncoder(f)
		e.SetIndent("", "  ")
		return e.Encode(report)
	})
}
