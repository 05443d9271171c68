package embed

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// DisableTelemetry turns off the telemetry of ONNX Runtime, which is on by default in the Linux build of 1.31: it sends
// events to Microsoft and keeps a device id and a queue of events below ~/.cache. The setting is an environment
// variable, which processes started from here inherit; the library reads it when it is opened. Open calls this. A
// program that has threads of C code before its first Open calls it at its start, because C code may read the
// environment meanwhile.
func DisableTelemetry() error { return os.Setenv("ORT_DISABLE_TELEMETRY", "1") }

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
		found, _ := fs.Glob(os.DirFS(dir), "libonnxruntime.so*")
		for _, name := range found {
			p := filepath.Join(dir, name)
			if !exists(p) {
				continue
			}
			sum, err := hashFile(context.Background(), p)
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

// findGPULibrary looks for ONNX Runtime's build for NVIDIA GPUs: the option, SLUICE_ONNXRUNTIME, lib-cuda beside the
// program, and what the set-up left in the cache (make onnxruntime-cuda). What is searched must have the digests of the
// wheel.
func findGPULibrary(option string) (string, error) {
	if option = cmp.Or(option, os.Getenv("SLUICE_ONNXRUNTIME")); option != "" {
		if !exists(option) {
			return "", fmt.Errorf("%w: %q is not a file", ErrDevice, option)
		}
		return option, nil
	}
	folders := besideProgram("lib-cuda")
	for _, dir := range slices.Concat(folders, cachedOutputs("libonnxruntime-cuda")) {
		if !exists(filepath.Join(dir, gpuLibrary)) {
			continue
		}
		for _, file := range [][2]string{{gpuLibrary, gpuLibraryDigest}, {gpuProvider, gpuProviderDigest},
			{gpuProviderShared, gpuSharedDigest}} {
			sum, err := hashFile(context.Background(), filepath.Join(dir, file[0]))
			if err != nil {
				return "", fmt.Errorf("%w: %w", ErrDevice, err)
			}
			if sum != file[1] {
				return "", fmt.Errorf("%w: %s has %s, not %s; run %s", ErrDevice, filepath.Join(dir, file[0]), sum,
					file[1], gpuSetUp)
			}
		}
		return filepath.Join(dir, gpuLibrary), nil
	}
	return "", fmt.Errorf("%w: ONNX Runtime for GPUs, %s, is neither in %s nor in the cache, %s; run %s, or set "+
		"SLUICE_ONNXRUNTIME to its path", ErrDevice, gpuLibrary, strings.Join(folders, ", "), cacheRoot(), gpuSetUp)
}

// besideProgram returns the folders of a name beside the program and beside the program's folder.
func besideProgram(name string) []string {
	program, err := os.Executable()
	if err != nil {
		return nil
	}
	if p, err := filepath.EvalSymlinks(program); err == nil {
		program = p
	}
	dir := filepath.Dir(program)
	return []string{filepath.Join(dir, name), filepath.Join(filepath.Dir(dir), name)}
}

// libraryFolders returns where findLibrary searches. Not below the working folder: that may hold anything.
func libraryFolders() []string {
	folders := besideProgram("lib")
	if len(folders) > 0 {
		dir := filepath.Dir(folders[0])
		folders = slices.Concat([]string{dir}, folders, buildTree(dir))
	}
	return append(folders, cachedOutputs("onnxruntime")...)
}

// buildTree returns the library folder of the Sluice checkout above dir. The module line is checked, because a
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

// cachedOutputs returns a part's libraries in the set-up's cache, for a program that was moved away from its build
// tree.
func cachedOutputs(part string) []string {
	root := cacheRoot()
	if root == "" {
		return nil
	}
	found, _ := fs.Glob(os.DirFS(root), "out/"+part+"-*/lib") // only a bad pattern fails
	for i, lib := range found {
		found[i] = filepath.Join(root, lib)
	}
	return found
}

// cacheRoot returns the set-up's cache; "" where the user has no home.
func cacheRoot() string {
	if root := os.Getenv("SLUICE_CACHE"); root != "" {
		return root
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return ""
	}
	return filepath.Join(home, ".cache", "sluice")
}
