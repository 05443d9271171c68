package fetch

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/internal/manifest"
)

// python writes a stand-in for the interpreter: it notes its arguments and runs the script with $dest set.
func python(t *testing.T, script string) (path, args string) {
	t.Helper()
	dir := t.TempDir()
	path, args = filepath.Join(dir, "python3"), filepath.Join(dir, "args")
	text := "#!/bin/sh\nprintf '%s\\n' \"$@\" > '" + args + "'\n" +
		"while [ $# -gt 0 ]; do [ \"$1\" = --dest ] && dest=$2; [ \"$1\" = --requirement ] && req=$2; shift; " +
		"done\ncat \"$req\" >> '" + args + "'\n" + script
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	return path, args
}

func wheel(content string) (manifest.Package, manifest.Blob) {
	b := manifest.Blob{File: "thing-1.0-cp311-cp311-manylinux_2_27_x86_64.manylinux_2_28_x86_64.whl",
		SHA256: digest([]byte(content)), Size: int64(len(content))}
	return manifest.Package{Name: "thing", Version: "1.0", Wheels: []manifest.Blob{b}}, b
}

func TestPipAsksForExactlyOneFile(t *testing.T) {
	pkg, b := wheel("content")
	py, args := python(t, "printf content > \"$dest/"+b.File+"\"\n")
	c, err := Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	p := Pip{Python: py, Cache: c}
	path, err := p.Wheel(t.Context(), pkg, b, nil)
	if err != nil {
		t.Fatal(err)
	}
	mustHave(t, path, []byte("content"))
	text, err := os.ReadFile(args)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"--require-hashes", "--no-deps", "--only-binary\n:all:", "--python-version\n3.11",
		"--abi\ncp311",
		"--platform\nmanylinux_2_27_x86_64", "--platform\nmanylinux_2_28_x86_64",
		"thing==1.0 --hash=sha256:" + b.SHA256} {
		if !strings.Contains(string(text), want) {
			t.Errorf("pip was not given %q:\n%s", want, text)
		}
	}
	if c.Downloaded() != b.Size {
		t.Errorf("counted %d bytes", c.Downloaded())
	}
	if err := os.WriteFile(py, []byte("#!/bin/sh\nexit 1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Wheel(t.Context(), pkg, b, nil); err != nil {
		t.Errorf("a wheel in the cache was asked for again: %v", err)
	}
}

func TestPipFailures(t *testing.T) {
	pkg, b := wheel("content")
	for name, c := range map[string]struct {
		script string
		want   error
		text   string
	}{
		"other content": {"printf contenX > \"$dest/" + b.File + "\"\n", ErrMismatch, "sha256"},
		"cut off":       {"printf con > \"$dest/" + b.File + "\"\n", ErrMismatch, "size is 3, expected 7"},
		"other file":    {"printf content > \"$dest/other.whl\"\n", os.ErrNotExist, b.File},
		"pip's hash":    {"echo 'ERROR: THESE PACKAGES DO NOT MATCH THE HASHES' >&2; exit 1\n", ErrMismatch, "HASHES"},
		"no pip":        {"echo '/usr/bin/python3: No module named pip' >&2; exit 1\n", ErrPip, "python3-pip"},
		"no network": {"echo 'ERROR: No matching distribution found' >&2; exit 1\n", ErrPip,
			"No matching distribution"},
	} {
		t.Run(name, func(t *testing.T) {
			py, _ := python(t, c.script)
			cache, err := Open(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			_, err = Pip{Python: py, Cache: cache}.Wheel(t.Context(), pkg, b, nil)
			if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) {
				t.Errorf("got %v", err)
			}
			if left, _ := os.ReadDir(cache.Path("partial")); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
			if left, _ := os.ReadDir(cache.Path("blobs")); len(left) > 0 {
				t.Errorf("in the cache: %v", left)
			}
		})
	}
	cache, err := Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := (Pip{Python: "/no/such/python3", Cache: cache}).Wheel(t.Context(), pkg, b,
		nil); !errors.Is(err, ErrPip) {
		t.Errorf("no Python: %v", err)
	}
	if _, err := (Pip{Python: "python3", Cache: cache}).Sdist(t.Context(), pkg, nil); !errors.Is(err, ErrPip) {
		t.Errorf("a package without a source archive: %v", err)
	}
}
