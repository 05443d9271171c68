// Package thirdparty holds the one manifest of everything Sluice takes from others: native parts, Python wheels that
// only tests use, and models. It embeds the text and nothing else; internal/manifest gives it types.
package thirdparty

import (
	"embed"
	"path"
)

//go:embed manifest.yaml
var manifest string

//go:embed scorecards
var scorecards embed.FS

// Manifest returns the text of manifest.yaml as it was when the program was built.
func Manifest() string { return manifest }

// Scorecard returns the text of a model's scorecard, by the name that the manifest has for its file.
func Scorecard(file string) ([]byte, error) {
	return scorecards.ReadFile(path.Join("scorecards", file))
}
