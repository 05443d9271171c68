// Package thirdparty holds the one manifest of everything Sluice takes from others: native parts, Python wheels that
// only tests use, and models. It embeds the text and nothing else; internal/manifest gives it types.
package thirdparty

import _ "embed"

//go:embed manifest.yaml
var manifest string

// Manifest returns the text of manifest.yaml as it was when the program was built.
func Manifest() string { return manifest }
