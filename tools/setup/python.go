package setup

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/sluice-rag/sluice/internal/fetch"
)

// EnvPython names the environment variable that chooses the Python of the set-up.
const EnvPython = "SLUICE_PYTHON"

// python returns the interpreter that runs pip, its minor version, and what it says of its version and its place.
func (e *Env) python(ctx context.Context) (path string, minor int, id string, err error) {
	path = cmp.Or(os.Getenv(EnvPython), "python3")
	id, err = e.query(ctx, path, "-c", "import sys; print(*sys.version_info[:2], sys.base_prefix)")
	if err != nil {
		return "", 0, "", err
	}
	f := strings.SplitN(id, " ", 3)
	if len(f) != 3 || f[0] != "3" {
		return "", 0, "", fmt.Errorf("%s is not Python 3: it says %q", path, id)
	}
	minor, err = strconv.Atoi(f[1])
	return path, minor, id, err
}

// pip installs what the arguments name, and nothing that they depend on.
func (e *Env) pip(ctx context.Context, j job, python string, args ...string) error {
	args = append([]string{"-m", "pip", "install", "--quiet", "--no-deps", "--disable-pip-version-check",
		"--no-warn-script-location"}, args...)
	return e.run(ctx, j, j.work, []string{"PIP_FIND_LINKS=", "PIP_REQUIRE_VIRTUALENV=0"}, python, args...)
}

// venv makes a virtual environment of pinned wheels, and nothing else.
func venv(name string, packages []string) recipe {
	return recipe{
		name: "python-" + name, version: 1,
		inputs: func(ctx context.Context, e *Env) ([]string, error) {
			_, _, id, err := e.python(ctx)
			in := []string{id}
			for _, n := range packages {
				p, _ := e.Manifest.Package(n)
				for _, b := range p.Wheels {
					in = append(in, b.SHA256)
				}
			}
			return in, err
		},
		build: func(ctx context.Context, e *Env, j job) error {
			e.console.printf("python: making the environment %q of %d pinned packages", name, len(packages))
			path, minor, _, err := e.python(ctx)
			if err != nil {
				return err
			}
			var wheels []string
			for _, n := range packages {
				p, _ := e.Manifest.Package(n)
				if !p.NeededBy(minor) {
					continue
				}
				b, ok := p.WheelFor(minor)
				if !ok {
					return fmt.Errorf("no pinned wheel of %s %s for Python 3.%d: set %s to another Python",
						n, p.Version, minor, EnvPython)
				}
				blob, err := fetch.Pip{Python: path, Cache: e.Cache}.Wheel(ctx, p, b, e.console.bytes)
				if err != nil {
					return err
				}
				named := filepath.Join(j.work, b.File) // pip reads the tags from the name
				if err := copyFile(blob, named); err != nil {
					return err
				}
				wheels = append(wheels, named)
			}
			if err := e.run(ctx, j, j.work, nil, path, "-m", "venv", j.out); err != nil {
				return err
			}
			return e.pip(ctx, j, filepath.Join(j.out, "bin", "python3"), append([]string{"--no-index"}, wheels...)...)
		},
	}
}

// testPython installs the reference environment of tests and benches.
func testPython(e *Env) recipe { return venv("tests", e.Manifest.Python.Packages) }

// testLauncher is the program that tests call; it runs the environment in the cache.
func (e *Env) testLauncher() string {
	return filepath.Join(e.Repo, "third_party", "python", "bin", "python3")
}

// pythonKey covers where the environment is, because the launcher holds its path.
func pythonKey(ctx context.Context, e *Env) (string, error) {
	key, err := testPython(e).key(ctx, e)
	return there("", e.Cache.Path("out", key), e.testLauncher()), err
}

// assemblePython writes third_party/python/bin/python3, a launcher of the environment in the cache.
func assemblePython(ctx context.Context, e *Env, _ []string) error {
	env, err := e.output(ctx, testPython(e))
	if err != nil {
		return err
	}
	return e.launchPython(ctx, "python", env, e.testLauncher(), "numpy, onnxruntime, tokenizers, safetensors, gguf")
}
