// Package preset contains the experiments of the four papers, and a comparison of gates, as files that package
// experiment runs: their settings, and the layouts of their tables with the published values. Input: a name. Output:
// *experiment.File.
package preset

import (
	"bytes"
	"embed"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sluice-rag/sluice/eval/experiment"
)

//go:embed *.yaml
var files embed.FS

// Names returns the names of the presets.
func Names() []string { return append(Papers(), "gates") }

// Papers returns the names of the presets that are of a paper.
func Papers() []string {
	return []string{"keibel-matrix", "keibel-book", "cag-tables", "car-tables", "local-rag"}
}

// Model is a model of a paper.
type Model struct {
	Role     string  `yaml:"role" json:"role"`         // encoder, generator, judge, or what else it is for
	Name     string  `yaml:"name" json:"name"`         // in the built-in list, or as printed
	Billions float64 `yaml:"billions" json:"billions"` // parameters; 0: it cannot be fetched
	Note     string  `yaml:"note" json:"note,omitempty"`
}

// Models returns the models of a preset's paper. An unknown name is experiment.ErrFile.
func Models(name string) ([]Model, error) {
	if _, err := Text(name); err != nil {
		return nil, err
	}
	if !slices.Contains(Papers(), name) {
		return nil, fmt.Errorf("%w: the preset %q is of no paper (those are %s)", experiment.ErrFile, name,
			strings.Join(Papers(), ", "))
	}
	text, err := files.ReadFile("papers.yaml")
	if err != nil {
		return nil, err
	}
	var all map[string][]Model
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	err = d.Decode(&all)
	return all[name], err
}

// Paper returns a preset with those of its paper's encoders, generators and judge that can be fetched. A role without
// any keeps the preset's own. Generators come with the preset's settings.
func Paper(name string) (*experiment.File, error) {
	f, err := Load(name)
	if err != nil {
		return nil, err
	}
	list, err := Models(name)
	if err != nil {
		return nil, err
	}
	var encoders []experiment.Encoder
	var generators []string
	for _, m := range list {
		switch {
		case m.Billions == 0:
		case m.Role == "encoder":
			encoders = append(encoders, experiment.Encoder{Name: m.Name})
		case m.Role == "generator":
			generators = append(generators, m.Name)
		case m.Role == "judge":
			f.Judge = m.Name
		}
	}
	f.UseAll(encoders, generators)
	return f, nil
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
