package setup

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/internal/manifest"
	thirdparty "github.com/sluice-rag/sluice/third_party"
)

// Everything that go.mod, Cargo.lock and the manifest name has a place in LICENSES.md.
func TestLicencesAreComplete(t *testing.T) {
	read := func(path string) string {
		t.Helper()
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	list := read("../../third_party/LICENSES.md")
	for _, m := range regexp.MustCompile(`(?m)^\t(\S+) (v\S+)`).FindAllStringSubmatch(read("../../go.mod"), -1) {
		if !strings.Contains(list, "| "+m[1]+" | "+m[2]+" |") {
			t.Errorf("Go module %s %s is not in LICENSES.md", m[1], m[2])
		}
	}
	crates := regexp.MustCompile(`name = "(.+)"\nversion = "(.+)"\nsource`).
		FindAllStringSubmatch(read("../../third_party/tokenizers/Cargo.lock"), -1)
	if len(crates) < 50 {
		t.Fatalf("%d crates in the lock file", len(crates))
	}
	for _, m := range crates {
		if !strings.Contains(list, m[1]+" "+m[2]) {
			t.Errorf("crate %s %s is not in LICENSES.md", m[1], m[2])
		}
	}
	for _, program := range []string{"go", "hugot"} {
		for _, m := range regexp.MustCompile(`(?m)^(?:require )?\s?(\S+\.\S+/\S+) (v\S+)`).
			FindAllStringSubmatch(read("../../bench/peers/"+program+"/go.mod"), -1) {
			if !strings.Contains(strings.ReplaceAll(list, "\n", " "), m[1]+" "+m[2]) {
				t.Errorf("Go module %s %s of the peers is not in LICENSES.md", m[1], m[2])
			}
		}
	}
	pin := regexp.MustCompile(`(?m)^([a-z0-9_-]+)==(\S+)`)
	pins := pin.FindAllStringSubmatch(read("../../bench/peers/requirements.txt"), -1)
	pins = append(pins, pin.FindAllStringSubmatch(read("../../bench/peers/embed-requirements.txt"), -1)...)
	pins = append(pins, pin.FindAllStringSubmatch(read("../../bench/peers/serve-requirements.txt"), -1)...)
	pins = append(pins, pin.FindAllStringSubmatch(read("../../third_party/cuda/requirements.txt"), -1)...)
	for _, file := range []string{"llama", "onnxruntime"} {
		pins = append(pins, pin.FindAllStringSubmatch(read("../../third_party/cuda/"+file+"-requirements.txt"), -1)...)
	}
	if len(pins) < 50 {
		t.Fatalf("%d pinned peers", len(pins))
	}
	for _, p := range pins {
		if !regexp.MustCompile(`\| ` + regexp.QuoteMeta(p[1]) + ` \| ` + regexp.QuoteMeta(p[2]) + ` \|`).
			MatchString(list) {
			t.Errorf("peer %s %s is not in LICENSES.md", p[1], p[2])
		}
	}
	m, err := manifest.Parse(thirdparty.Manifest())
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range m.Packages {
		if !regexp.MustCompile(`\| ` + regexp.QuoteMeta(p.Name) + `[^|]* \| ` + regexp.QuoteMeta(p.Version) + ` \|`).
			MatchString(list) {
			t.Errorf("package %s %s is not in LICENSES.md", p.Name, p.Version)
		}
	}
	for _, x := range m.Models {
		if !strings.Contains(list, "| "+x.Name) {
			t.Errorf("model %s is not in LICENSES.md", x.Name)
		}
	}
}
