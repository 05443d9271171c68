package setup

import (
	"archive/zip"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/sluice-rag/sluice/internal/fetch"
	"github.com/sluice-rag/sluice/internal/filehash"
	"github.com/sluice-rag/sluice/internal/manifest"
	"github.com/sluice-rag/sluice/internal/models"
)

// onnxModule contains the headers of ONNX Runtime's C interface, in the version that this program requests from the
// library; onnxModuleVersion must equal the version in go.mod.
const (
	onnxModule        = "github.com/yalue/onnxruntime_go"
	onnxModuleVersion = "v1.27.0"
)

// onnxruntime extracts the shared library and its notices from a wheel, and the headers from a Go module. All wheels
// of a version contain the same library; the one for the installed Python is used, because the test environment needs
// it anyway.
func onnxruntime() recipe {
	return recipe{
		name: "onnxruntime", version: 2,
		inputs: func(_ context.Context, e *Env) ([]string, error) {
			lib := e.Manifest.Native.ONNXRuntime.Libraries[e.Arch]
			return []string{lib.Path, lib.Member, lib.SHA256, onnxModule, onnxModuleVersion}, nil
		},
		build: func(ctx context.Context, e *Env, j job) error {
			spec := e.Manifest.Native.ONNXRuntime
			pkg, _ := e.Manifest.Package(spec.Package)
			pkg = pkg.On(machines[e.Arch])
			python, minor, _, err := e.python(ctx)
			if err != nil {
				return err
			}
			blob, ok := pkg.WheelFor(minor)
			if !ok {
				blob = pkg.Wheels[0]
			}
			e.console.printf("onnxruntime: version %s from %s (%s)", pkg.Version, blob.File, size(blob.Size))
			wheel, err := fetch.Pip{Python: python, Cache: e.Cache}.Wheel(ctx, pkg, blob, e.console.bytes)
			if err != nil {
				return err
			}
			z, err := zip.OpenReader(wheel)
			if err != nil {
				return err
			}
			defer z.Close()
			lib := filepath.Join(j.out, "lib")
			if err := models.Extract(&z.Reader, spec.Libraries[e.Arch], lib); err != nil {
				return err
			}
			headers, err := e.module(ctx, onnxModule)
			if err != nil {
				return err
			}
			if !strings.HasSuffix(headers, "@"+onnxModuleVersion) {
				return fmt.Errorf("go.mod has %s, the set-up expects %s", filepath.Base(headers), onnxModuleVersion)
			}
			if err := copyInto(filepath.Join(j.out, "include"), filepath.Join(headers, "onnxruntime_c_api.h"),
				filepath.Join(headers, "onnxruntime_ep_c_api.h")); err != nil {
				return err
			}
			return notices(&z.Reader, lib)
		},
	}
}

// notices copies the licence texts that must accompany the library.
func notices(z *zip.Reader, dir string) error {
	for _, name := range []string{"LICENSE", "ThirdPartyNotices.txt"} {
		f, err := z.Open("onnxruntime/" + name)
		if err != nil {
			return err
		}
		err = WriteFile(filepath.Join(dir, name), f, 0o644)
		if err = errors.Join(err, f.Close()); err != nil {
			return err
		}
	}
	return nil
}

// tokenizers builds the C library from the Go module's own Rust sources, with our patch, Cargo.toml and Cargo.lock.
func tokenizers() recipe {
	return recipe{
		name: "tokenizers", version: 3,
		inputs: func(ctx context.Context, e *Env) ([]string, error) {
			rustc, err := e.query(ctx, "cargo", "--version")
			if err != nil {
				return nil, err
			}
			_, _, id, err := e.compilers(ctx) // two crates contain C and C++
			if err != nil {
				return nil, err
			}
			sums, err := sourceDigests(e.crateDir(), ".toml", ".lock")
			if err != nil {
				return nil, err
			}
			patches, err := e.patchInputs(tokenizerPatches)
			return slices.Concat([]string{e.Manifest.Native.Tokenizers.Version, rustc, id}, sums, patches), err
		},
		build: buildTokenizers,
	}
}

func (e *Env) crateDir() string { return filepath.Join(e.Repo, "third_party", "tokenizers") }

// Crate copies the sources of the tokenizers library to dir, downloads the crates that they need, and returns the
// target triple.
func (e *Env) Crate(ctx context.Context, dir string) (triple string, err error) {
	mod, err := e.module(ctx, e.Manifest.Native.Tokenizers.Module)
	if err != nil {
		return "", err
	}
	sources, err := glob(mod, "src/*.rs")
	if err != nil {
		return "", err
	}
	if err := copyInto(filepath.Join(dir, "src"), sources...); err != nil {
		return "", err
	}
	if err := copyInto(dir, filepath.Join(e.crateDir(), "Cargo.toml"),
		filepath.Join(e.crateDir(), "Cargo.lock")); err != nil {
		return "", err
	}
	if err := e.patch(tokenizerPatches, dir); err != nil {
		return "", err
	}
	triple = machines[e.Arch] + "-unknown-linux-gnu"
	if e.Arch == runtime.GOARCH {
		if host, err := e.query(ctx, "rustc", "--print", "host-tuple"); err == nil { // rustc 1.84 and later
			triple = host
		}
	}
	return triple, e.run(ctx, job{name: "tokenizers"}, dir, nil, "cargo", "fetch", "--locked", "--target", triple)
}

func buildTokenizers(ctx context.Context, e *Env, j job) error {
	crate := filepath.Join(j.work, "crate")
	e.console.printf("tokenizers: downloading the crates of third_party/tokenizers/Cargo.lock")
	start := time.Now()
	triple, err := e.Crate(ctx, crate)
	if err != nil {
		return err
	}
	e.Cache.AddDownloaded(newCrates(start))
	e.console.printf("tokenizers: building %s", e.Manifest.Native.Tokenizers.Version)
	target := filepath.Join(j.work, "target")
	rename := "--remap-path-prefix=" + cargoHome() + "=cargo" // keeps this machine's folders out of the library
	env := []string{"CARGO_TARGET_DIR=" + target,
		"RUSTFLAGS=" + strings.TrimSpace(os.Getenv("RUSTFLAGS")+" "+rename)}
	args, release := []string{"build", "--release", "--lib", "--locked", "--offline"}, filepath.Join(target, "release")
	if e.Arch != runtime.GOARCH {
		cc, cxx, _, err := e.compilers(ctx)
		if err != nil {
			return err
		}
		name := strings.ReplaceAll(triple, "-", "_")
		env = append(env, "CC_"+name+"="+cc, "CXX_"+name+"="+cxx, "AR_"+name+"="+e.Tool("ar"))
		args, release = append(args, "--target", triple), filepath.Join(target, triple, "release")
	}
	if err := e.run(ctx, j, crate, env, "cargo", args...); err != nil {
		return err
	}
	lib := filepath.Join(release, "libtokenizers.a")
	if err := e.run(ctx, j, crate, nil, e.Tool("strip"), "--strip-debug", lib); err != nil {
		return err
	}
	return copyInto(filepath.Join(j.out, "lib"), lib)
}

// cargoHome returns the folder in which cargo keeps its downloads.
func cargoHome() string {
	user, _ := os.UserHomeDir() // cargo reports a missing home folder
	return cmp.Or(os.Getenv("CARGO_HOME"), filepath.Join(user, ".cargo"))
}

// newCrates returns the total size of the crates that cargo has stored since start.
func newCrates(start time.Time) (n int64) {
	found, err := filepath.Glob(filepath.Join(cargoHome(), "registry", "cache", "*", "*.crate"))
	if err != nil {
		return 0
	}
	for _, f := range found {
		if st, err := os.Stat(f); err == nil && st.ModTime().After(start) {
			n += st.Size()
		}
	}
	return n
}

// stampEmbed writes the digests of what package embed links and opens.
func stampEmbed(_ context.Context, e *Env) error {
	return e.stamp("embed",
		linked{filepath.Join("tokenizers", "lib", "libtokenizers.a"),
			"tokenizers " + e.Manifest.Native.Tokenizers.Version},
		linked{filepath.Join("onnxruntime", "lib", e.Manifest.Native.ONNXRuntime.Libraries[e.Arch].Path),
			"onnxruntime " + e.onnxVersion()})
}

func (e *Env) onnxVersion() string {
	p, _ := e.Manifest.Package(e.Manifest.Native.ONNXRuntime.Package)
	return p.Version
}

// modulesKey returns a key that changes with go.sum, which pins every module.
func modulesKey(ctx context.Context, e *Env) (string, error) {
	return filehash.Sum(ctx, filepath.Join(e.Repo, "go.sum"))
}

// modules downloads the Go modules in advance, so that the build needs no network and the bytes are counted.
func modules(ctx context.Context, e *Env, _ []string) error {
	start := time.Now()
	e.console.printf("modules: downloading Go modules")
	cmd := exec.CommandContext(ctx, "go", "mod", "download", "-json")
	cmd.Dir = e.Repo
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("%w: go mod download: %w\n%s", ErrPart, err, stderr.String())
	}
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var m struct{ Zip string }
		if err := dec.Decode(&m); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("%w: go mod download: %w", ErrPart, err)
		}
		if st, err := os.Stat(m.Zip); err == nil && st.ModTime().After(start) {
			e.Cache.AddDownloaded(st.Size())
		}
	}
}

// defaults returns the models that the demo and the tests use.
func (e *Env) defaults() (names []string) {
	for _, kind := range []manifest.Kind{manifest.Encoder, manifest.Generator} {
		if m, ok := e.Manifest.DefaultModel(kind); ok {
			names = append(names, m.Name)
		}
	}
	return names
}

// modelsKey returns a key of models; a missing model has a different key, so that it is downloaded.
func modelsKey(names func(*Env) []string) func(context.Context, *Env) (string, error) {
	return func(_ context.Context, e *Env) (string, error) {
		h := sha256.New()
		reg := models.Open(e.Cache, e.Manifest, "")
		for _, n := range names(e) {
			dir, err := reg.Locate(n)
			if err != nil {
				return "missing: " + time.Now().String(), nil
			}
			fmt.Fprintf(h, "%s\x00", dir)
		}
		return fmt.Sprintf("%x", h.Sum(nil)), nil
	}
}

// pullModels brings models.
func pullModels(names func(*Env) []string) func(context.Context, *Env, []string) error {
	return func(ctx context.Context, e *Env, _ []string) error {
		python, _, _, err := e.python(ctx)
		if err != nil {
			return err
		}
		reg := models.Open(e.Cache, e.Manifest, python)
		for _, n := range names(e) {
			e.console.printf("models: %s", n)
			if _, err := reg.Pull(ctx, n, e.console.bytes); err != nil {
				return fmt.Errorf("%w: models: %w", ErrPart, err)
			}
		}
		return nil
	}
}
