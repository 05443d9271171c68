package dist

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestUnit checks that systemd accepts the unit, and that it restricts the service.
func TestUnit(t *testing.T) {
	unit, err := os.ReadFile("share/sluice.service")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Type=notify", "DynamicUser=yes", "ProtectSystem=strict", "StateDirectory=sluice"} {
		if !strings.Contains(string(unit), "\n"+want+"\n") {
			t.Errorf("the unit lacks %s", want)
		}
	}
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skip("no systemd-analyze here")
	}
	path := filepath.Join(t.TempDir(), "sluice.service")
	write(t, path, strings.ReplaceAll(string(unit), "/usr/local/bin/sluice", "/bin/true"), 0o644)
	if out, err := exec.CommandContext(t.Context(), "systemd-analyze", "verify", path).CombinedOutput(); err != nil ||
		len(strings.TrimSpace(string(out))) > 0 {
		t.Errorf("%v\n%s", err, out)
	}
	out, err := exec.CommandContext(t.Context(), "systemd-analyze", "security", "--offline=true", "--threshold=20",
		path).CombinedOutput()
	if strings.Contains(string(out), "unrecognized option") {
		t.Skip("this systemd-analyze does not read units offline")
	}
	if err != nil {
		t.Errorf("it is exposed: %v\n%.3000s", err, regexp.MustCompile(`(?m)^✓.*\n`).ReplaceAllString(string(out), ""))
	}
}
