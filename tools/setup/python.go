package setup

import (
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

// python returns the interpreter that runs pip, and its minor version.
func (e *Env) python(ctx context.Context) (path string, minor int, err error) {
	path = or(os.Getenv(EnvPython), "python3")
	out, err := e.query(ctx, path, "-c", "import sys; print(*sys.version_info[:2], sys.base_prefix)")
	if err != nil {
		return "", 0, err
	}
	f := strings.SplitN(out, " ", 3)
	if len(f) != 3 || f[0] != "3" {
		return "", 0, fmt.Errorf("%s is not Python 3: it says %q", path, out)
	}
	minor, err = strconv.Atoi(f[1])
	return path, minor, err
}

// venv makes a virtual environment of pinned wheels, and nothing else.
func venv(name string, packages []string) recipe {
	return recipe{
		name: "python-" + name, version: 1,
		inputs: func(ctx context.Context, e *Env) ([]string, error) {
			path, _, err := e.python(ctx)
			if err != nil {
				return nil, err
			}
			id, err := e.query(ctx, path, "-c", "import sys; print(*sys.version_info[:2], sys.base_prefix)")
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
			path, minor, err := e.python(ctx)
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
			args := append([]string{"-m", "pip", "install", "--quiet", "--no-index", "--no-deps",
				"--disable-pip-version-check", "--no-warn-script-location"}, wheels...)
			return e.run(ctx, j, j.work, []string{"PIP_FIND_LINKS=", "PIP_REQUIRE_VIRTUALENV=0"},
				filepath.Join(j.out, "bin", "python3"), args...)
		},
	}
}

// testPython installs the reference environment of tests and benches.
func testPython(e *Env) recipe { return venv("tests", e.Manifest.Python.Packages) }

// launcher returns the program that tests call; it runs the environment in the cache.
func (e *Env) launcher() string {
	return filepath.Join(e.Repo, "third_party", "python", "bin", "python3")
}

// pythonKey covers where the environment is, because the launcher holds its path.
func pythonKey(ctx context.Context, e *Env) (string, error) {
	key, err := testPython(e).key(ctx, e)
	if err != nil {
		return "", err
	}
	dir := e.Cache.Path("out", key)
	return fmt.Sprintf("%s, there: %t, launcher: %t", dir, exists(dir), exists(e.launcher())), nil
}

// assemblePython writes third_party/python/bin/python3, a launcher of the environment in the cache.
func assemblePython(ctx context.Context, e *Env) error {
	env, err := e.output(ctx, testPython(e))
	if err != nil {
		return err
	}
	real := filepath.Join(env, "bin", "python3")
	j := job{name: "python-tests"}
	if err := e.run(ctx, j, e.Repo, nil, real, "-c",
		"import numpy, onnxruntime, tokenizers, safetensors, gguf"); err != nil {
		return fmt.Errorf("%w: python: %w", ErrPart, err)
	}
	text := "#!/bin/sh\nexec '" + strings.ReplaceAll(real, "'", `'\''`) + "' \"$@\"\n"
	return WriteFile(e.launcher(), strings.NewReader(text), 0o755)
}
