package embed

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// findLibrary looks for ONNX Runtime: the option, SLUICE_ONNXRUNTIME, beside the program, the build tree that the
// program lies in, the cache. A path that was given must exist, and is the user's own word; what is searched must have
// the digest ("sha256:…"): its code runs in this process.
func findLibrary(option, digest string) (string, error) {
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
	if digest == "" {
		return "", fmt.Errorf("%w: this program was built without a record of its digest; "+
			"run make build, or set SLUICE_ONNXRUNTIME to its path", ErrLibrary)
	}
	folders := libraryFolders()
	var others []string
	for _, dir := range folders {
		// libonnxruntime.so, or with its version; providers_… are plug-ins of it
		found, _ := filepath.Glob(filepath.Join(escapeGlob(dir), "libonnxruntime.so*"))
		slices.Sort(found)
		for _, p := range found {
			if !exists(p) {
				continue
			}
			sum, err := hashFile(p)
			if err != nil {
				return "", fmt.Errorf("%w: %w", ErrLibrary, err)
			}
			if sum == digest {
				return p, nil
			}
			others = append(others, p+" ("+sum+")")
		}
	}
	if len(others) > 0 {
		return "", fmt.Errorf("%w: none of %s is the one with %s that this program was built with; "+
			"run make build, or set SLUICE_ONNXRUNTIME to the path of the one to take", ErrLibrary,
			strings.Join(others, ", "), digest)
	}
	return "",
		fmt.Errorf("%w: libonnxruntime.so is in none of %s; run make build, or set SLUICE_ONNXRUNTIME to its path",
			ErrLibrary, strings.Join(folders, ", "))
}

// libraryFolders are where findLibrary searches. Not below the working folder: that may hold anything.
func libraryFolders() []string {
	var folders []string
	if program, err := os.Executable(); err == nil {
		if p, err := filepath.EvalSymlinks(program); err == nil {
			program = p
		}
		dir := filepath.Dir(program)
		folders = append(folders, dir, filepath.Join(dir, "lib"), filepath.Join(filepath.Dir(dir), "lib"))
		folders = append(folders, buildTree(dir)...)
	}
	return append(folders, cacheFolders()...)
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
