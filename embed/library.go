package embed

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// findLibrary looks for ONNX Runtime: the option, SLUICE_ONNXRUNTIME, beside the program, the build
// tree that the program or the working folder lies in, the cache. A path that was given must exist.
func findLibrary(option string) (string, error) {
	for _, given := range []struct{ what, path string }{{"Options.Library", option},
		{"SLUICE_ONNXRUNTIME", os.Getenv("SLUICE_ONNXRUNTIME")}} {
		if given.path == "" {
			continue
		}
		if !exists(given.path) {
			return "", fmt.Errorf("%w: %s = %q is not a file", ErrLibrary, given.what, given.path)
		}
		return given.path, nil
	}
	var folders []string
	if program, err := os.Executable(); err == nil {
		if p, err := filepath.EvalSymlinks(program); err == nil {
			program = p
		}
		dir := filepath.Dir(program)
		folders = append(folders, dir, filepath.Join(dir, "lib"), filepath.Join(filepath.Dir(dir), "lib"))
		folders = append(folders, buildTree(dir)...)
	}
	if dir, err := os.Getwd(); err == nil {
		folders = append(folders, buildTree(dir)...)
	}
	folders = append(folders, cacheFolders()...)
	for _, dir := range folders {
		// libonnxruntime.so, or with its version; providers_… are plug-ins of it
		found, _ := filepath.Glob(filepath.Join(escapeGlob(dir), "libonnxruntime.so*"))
		slices.Sort(found)
		for _, p := range found {
			if exists(p) {
				return p, nil
			}
		}
	}
	return "",
		fmt.Errorf("%w: libonnxruntime.so is in none of %s; run make build, or set SLUICE_ONNXRUNTIME to its path",
			ErrLibrary, strings.Join(folders, ", "))
}

// buildTree is the library folder of the Sluice checkout above dir. The module line is checked, because a
// library must not be picked up from any folder that happens to lie above.
func buildTree(dir string) []string {
	for {
		mod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil {
			line, _, _ := strings.Cut(string(mod), "\n")
			if strings.TrimSpace(line) != "module github.com/sluice-rag/sluice" {
				return nil
			}
			return []string{filepath.Join(dir, "third_party", "onnxruntime", "lib")}
		}
		up := filepath.Dir(dir)
		if up == dir {
			return nil
		}
		dir = up
	}
}

// cacheFolders are the set-up's outputs in the cache, for a program that was moved away from its build tree.
func cacheFolders() []string {
	root := os.Getenv("SLUICE_CACHE")
	if root == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return nil
		}
		root = filepath.Join(home, ".cache", "sluice")
	}
	// only a bad pattern fails
	found, _ := filepath.Glob(filepath.Join(escapeGlob(root), "out", "onnxruntime-*", "lib"))
	return found
}

// escapeGlob makes filepath.Match take a folder's name literally.
func escapeGlob(dir string) string {
	return strings.NewReplacer("*", `\*`, "?", `\?`, "[", `\[`, `\`, `\\`).Replace(dir)
}
