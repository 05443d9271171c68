package setup

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
)

// tool is a prerequisite and how to get it.
type tool struct {
	name    string
	command []string // prints the version
	min     string   // lowest version that works, or ""
	why     string
	apt     string // Debian, Ubuntu
	dnf     string // Fedora
	brew    string // macOS
}

func (e *Env) tools() []tool {
	py := cmp.Or(os.Getenv(EnvPython), "python3")
	cc, cxx := cmp.Or(os.Getenv("CC"), e.Tool("gcc")), cmp.Or(os.Getenv("CXX"), e.Tool("g++"))
	cross := "" // Debian's suffix for compilers of another architecture
	if e.Arch != runtime.GOARCH {
		cross = "-" + strings.ReplaceAll(machines[e.Arch], "_", "-") + "-linux-gnu"
	}
	return []tool{
		{"Go", []string{"go", "env", "GOVERSION"}, goDirective(e.Repo), "compiles everything",
			"see go.dev/doc/install (distributions lag behind)", "dnf install golang", "brew install go"},
		{"C compiler", []string{cc, "--version"}, "", "cgo and the kernels", "apt-get install gcc" + cross,
			"dnf install gcc",
			"xcode-select --install"},
		{"C++ compiler", []string{cxx, "--version"}, "", "llama.cpp and its binding", "apt-get install g++" + cross,
			"dnf install gcc-c++", "xcode-select --install"},
		{"ar", []string{e.Tool("ar"), "--version"}, "", "merges static archives",
			"apt-get install binutils" + cross, "dnf install binutils", "brew install binutils"},
		{"strip", []string{e.Tool("strip"), "--version"}, "", "drops debug data",
			"apt-get install binutils" + cross, "dnf install binutils", "brew install binutils"},
		{"CMake", []string{"cmake", "--version"}, "3.14", "configures llama.cpp", "apt-get install cmake",
			"dnf install cmake", "brew install cmake"},
		{"Ninja", []string{"ninja", "--version"}, "1.8", "builds llama.cpp", "apt-get install ninja-build",
			"dnf install ninja-build", "brew install ninja"},
		{"Python", []string{py, "--version"}, "3.10", "runs pip", "apt-get install python3", "dnf install python3",
			"brew install python"},
		{"pip", []string{py, "-m", "pip", "--version"}, "20.3", "brings pinned wheels", "apt-get install python3-pip",
			"dnf install python3-pip", "brew install python"},
		{"venv", []string{py, "-c", "import venv, ensurepip; print(ensurepip.version())"}, "",
			"isolates pinned build back-ends", "apt-get install python3-venv", "dnf install python3",
			"brew install python"},
		{"cargo", []string{"cargo", "--version"}, "1.78", "builds the tokenizers",
			"apt-get install rustup && rustup default stable (or see rust-lang.org/tools/install)",
			"dnf install rustup && rustup-init", "brew install rust"},
	}
}

// Preflight returns an error with every missing prerequisite and the command that installs it. With verbose it also
// lists the present ones.
func (e *Env) Preflight(ctx context.Context, verbose bool) error {
	var missing []string
	if platform := runtime.GOOS + "/" + runtime.GOARCH; runtime.GOOS != "linux" || machines[runtime.GOARCH] == "" {
		missing = append(missing,
			fmt.Sprintf("platform: the pinned wheels are for Linux on amd64 and arm64, this is %s; the untagged packages "+
				"(engine, kernels) work here without set-up", platform))
	}
	for _, t := range e.tools() {
		have, err := probe(ctx, t)
		if verbose && err == nil {
			e.console.printf("  ok       %-13s %s", t.name, have)
		}
		if err != nil {
			missing = append(missing, fmt.Sprintf("%-13s %v; it %s\n             %s", t.name, err, t.why, t.hint()))
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("%w:\n  missing  %s", ErrPrerequisite, strings.Join(missing, "\n  missing  "))
	}
	return nil
}

// hint returns the commands for this system, or for all when the system is not known.
func (t tool) hint() string {
	if runtime.GOOS == "darwin" {
		return t.brew
	}
	for _, id := range distributions() {
		switch id {
		case "debian", "ubuntu":
			return t.apt
		case "fedora", "rhel":
			return t.dnf
		}
	}
	return fmt.Sprintf("Debian, Ubuntu: %s · Fedora: %s · macOS: %s", t.apt, t.dnf, t.brew)
}

var reID = regexp.MustCompile(`(?m)^ID(?:_LIKE)?="?([^"\n]*)`)

// distributions returns the distributions that /etc/os-release names: this one, and those that it is like.
func distributions() (ids []string) {
	text, _ := os.ReadFile("/etc/os-release") // without it, none is known
	for _, m := range reID.FindAllStringSubmatch(string(text), -1) {
		ids = append(ids, strings.Fields(m[1])...)
	}
	return ids
}

var reNumber = regexp.MustCompile(`\d+(\.\d+)+`)

// probe runs the tool and returns the first line it prints, or what is wrong with it.
func probe(ctx context.Context, t tool) (string, error) {
	if _, err := exec.LookPath(t.command[0]); err != nil {
		return "", fmt.Errorf("%s is not installed", t.command[0])
	}
	out, err := exec.CommandContext(ctx, t.command[0], t.command[1:]...).CombinedOutput()
	line, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	if err != nil {
		return "", fmt.Errorf("%s does not work (%s)", strings.Join(t.command, " "), line)
	}
	if got := reNumber.FindString(line); t.min != "" && older(got, t.min) {
		return "", fmt.Errorf("%s is %q, at least %s is needed", t.command[0], line, t.min)
	}
	return line, nil
}

// older compares dotted numbers.
func older(got, min string) bool {
	a, b := strings.Split(got, "."), strings.Split(min, ".")
	for i := range b {
		x, y := 0, 0
		if i < len(a) {
			x, _ = strconv.Atoi(a[i])
		}
		if y, _ = strconv.Atoi(b[i]); x != y {
			return x < y
		}
	}
	return false
}

// goDirective returns the version on the go line of go.mod.
func goDirective(repo string) string {
	text, err := os.ReadFile(filepath.Join(repo, "go.mod"))
	if err != nil {
		return ""
	}
	m := regexp.MustCompile(`(?m)^go (\S+)`).FindSubmatch(text)
	if m == nil {
		return ""
	}
	return string(m[1])
}
