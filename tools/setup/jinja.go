package setup

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sluice-rag/sluice/internal/filehash"
)

// jinjaUnits are llama.cpp's Jinja engine and what it needs, below the tree, in the two units that are compiled alike.
var jinjaUnits = [][]string{
	{"common/jinja/lexer.cpp", "common/jinja/parser.cpp", "common/jinja/runtime.cpp", "common/jinja/string.cpp",
		"common/jinja/value.cpp", "common/jinja/caps.cpp", "common/unicode.cpp"},
	{"common/json.cpp"}, // it specialises templates, before whose use it would have to come
}

// jsonLicence is nlohmann/json's, which the engine compiles in.
const jsonLicence = "licenses/LICENSE-jsonhpp"

// jinjaFlags are without asserts: a template must not end the process. A third less time than with -O2.
var jinjaFlags = []string{"-O1", "-DNDEBUG", "-std=c++17", "-fPIC", "-w"}

// libjinja builds the engine that renders chat templates, with our limits in it (the patches call
// llm/binding/jinja_guard.h).
func libjinja() recipe {
	return recipe{
		name: "libjinja", version: 4,
		inputs: func(ctx context.Context, e *Env) ([]string, error) {
			pkg, _ := e.Manifest.Package(e.Manifest.Native.Llama.Package)
			_, _, id, err := e.compilers(ctx)
			if err != nil {
				return nil, err
			}
			guard, err := filehash.Sum(ctx, filepath.Join(e.bindingDir(), "jinja_guard.h"))
			if err != nil {
				return nil, err
			}
			patches, err := e.patchInputs(jinjaPatches)
			in := []string{pkg.Sdist.SHA256, e.Manifest.Native.Llama.Tree, id, guard}
			return slices.Concat(in, jinjaFlags, patches), err
		},
		build: buildJinja,
	}
}

func buildJinja(ctx context.Context, e *Env, j job) error {
	e.console.printf("llama: compiling llama.cpp's Jinja engine")
	src := filepath.Join(j.work, "src")
	if err := e.extractJinja(ctx, src); err != nil {
		return err
	}
	_, cxx, _, err := e.compilers(ctx)
	if err != nil {
		return err
	}
	flags := append([]string{"-I", filepath.Join(src, "common"), "-I", filepath.Join(src, "ggml", "include"),
		"-I", filepath.Join(src, "vendor"), "-I", e.bindingDir(), renamed(src, "llama.cpp")}, jinjaFlags...)
	units := make([][]string, len(jinjaUnits))
	for i, unit := range jinjaUnits {
		for _, name := range unit {
			units[i] = append(units[i], filepath.Join(src, filepath.FromSlash(name)))
		}
	}
	objects, err := e.compile(ctx, j, cxx, flags, units)
	if err != nil {
		return err
	}
	headers, err := glob(src, "common/jinja/*.h", "common/json.h")
	if err != nil {
		return err
	}
	if err := copyInto(filepath.Join(j.out, "include", "jinja"), headers...); err != nil {
		return err
	}
	if err := copyInto(j.out, filepath.Join(src, filepath.FromSlash(jsonLicence))); err != nil {
		return err
	}
	return e.archive(ctx, j, "libjinja.a", objects...)
}

// extractJinja unpacks the engine's files to a fresh folder and patches them.
func (e *Env) extractJinja(ctx context.Context, dir string) error {
	archive, err := e.LlamaSource(ctx)
	if err != nil {
		return err
	}
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	err = untar(archive, e.Manifest.Native.Llama.Tree, dir, func(name string) bool {
		return strings.HasPrefix(name, "common/jinja/") || strings.HasPrefix(name, "vendor/nlohmann/") ||
			name == "ggml/include/ggml.h" || name == jsonLicence || strings.HasPrefix(name, "common/json.") ||
			strings.HasPrefix(name, "common/unicode.")
	})
	if err != nil {
		return err
	}
	return e.patch(jinjaPatches, dir)
}
