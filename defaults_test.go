package sluice

import (
	"testing"

	"github.com/sluice-rag/sluice/internal/manifest"
	thirdparty "github.com/sluice-rag/sluice/third_party"
)

// TestDefaultsAreTheManifests checks that the default names here and in the manifest agree.
func TestDefaultsAreTheManifests(t *testing.T) {
	m, err := manifest.Parse(thirdparty.Manifest())
	if err != nil {
		t.Fatal(err)
	}
	defaults := map[manifest.Kind]string{manifest.Encoder: DefaultEncoder, manifest.Generator: DefaultModel}
	for kind, name := range defaults {
		if got, ok := m.DefaultModel(kind); !ok || got.Name != name {
			t.Errorf("%s: %q, the manifest has %q", kind, name, got.Name)
		}
	}
}
