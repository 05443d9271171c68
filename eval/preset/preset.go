// Package preset contains the experiments of the four papers as files that package experiment runs: their settings,
// and the layouts of their tables with the published values. Input: a name. Output: *experiment.File.
package preset

import (
	"embed"
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-rag/sluice/eval/experiment"
)

//go:embed *.yaml
var files embed.FS

// Names returns the names of the presets.
func Names() []string {
	return []string{"keibel-matrix", "keibel-book", "cag-tables", "car-tables", "local-rag"}
}

// Load returns a preset. An unknown name is experiment.ErrFile.
func Load(name string) (*experiment.File, error) {
	text, err := Text(name)
	if err != nil {
		return nil, err
	}
	return experiment.Parse(text)
}

// Text returns the YAML of a preset. An unknown name is experiment.ErrFile.
func Text(name string) ([]byte, error) {
	if !slices.Contains(Names(), name) {
		return nil, fmt.Errorf("%w: there is no preset %q (known: %s)", experiment.ErrFile, name,
			strings.Join(Names(), ", "))
	}
	return files.ReadFile(name + ".yaml")
}
