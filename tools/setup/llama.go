package setup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/sluice-rag/sluice/internal/fetch"
)

// cmakeFlags are the flags of every llama.cpp build, to which an instruction set's are added (isa.go). GGML_NATIVE is
// off because it would tie the library to this machine, OpenMP because its barriers become very slow on a busy machine.
var cmakeFlags = []string{
	"-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", "-DBUILD_SHARED_LIBS=OFF", "-DCMAKE_POSITION_INDEPENDENT_CODE=ON",
	"-DGGML_NATIVE=OFF", "-DGGML_OPENMP=OFF", "-DGGML_CCACHE=OFF", "-DGGML_CUDA=OFF",
	"-DCMAKE_CXX_FLAGS=" + cxxFlags,
	"-DLLAMA_BUILD_TESTS=OFF", "-DLLAMA_BUILD_EXAMPLES=OFF", "-DLLAMA_BUILD_SERVER=OFF", "-DLLAMA_BUILD_APP=OFF",
	"-DLLAMA_BUILD_UI=OFF", "-DLLAMA_USE_PREBUILT_UI=OFF", "-DLLAMA_OPENSSL=OFF", "-DLLAMA_CURL=OFF",
}

// A unique symbol (STB_GNU_UNIQUE) is shared by the whole process, whichever object defines it, so libcpu could not
// keep its own copies.
const cxxFlags = "-fno-gnu-unique"

// llamaTree lists the parts of the source tree that the library needs: 36 of 217 MB.
var llamaTree = []string{"CMakeLists.txt", "LICENSE", "cmake/", "include/", "src/", "ggml/", "vendor/", "licenses/",
	"scripts/"}

// libllama builds llama.cpp and ggml as static libraries, without ggml's CPU code, which is in libcpu.
func libllama() recipe {
	inputs := func(ctx context.Context, e *Env) ([]string, error) {
		return patchedInputs(ctx, e, libraryPatches, ".cpp")
	}
	return recipe{name: "libllama", version: 5, inputs: inputs, build: func(ctx context.Context, e *Env, j job) error {
		e.console.printf("llama: building llama.cpp and ggml (about 12 compiler runs)")
		flags := slices.Concat([]string{"-DLLAMA_BUILD_COMMON=OFF", "-DLLAMA_BUILD_TOOLS=OFF"}, cmakeFlags,
			// the registry must still register the CPU back-end
			[]string{"-DGGML_CPU=OFF", "-DCMAKE_CXX_FLAGS=" + cxxFlags + " -DGGML_USE_CPU",
				// The time goes into ggml's CPU code, and -O3 into a tenth of the compiler's.
				// The compiler collects its garbage from 500 MB on: a twentieth of a large unit's.
				"-DCMAKE_CXX_FLAGS_RELEASE=-O2 -DNDEBUG --param ggc-min-heapsize=500000"})
		change := func(src string) error {
			ours, err := glob(e.ggmlDir(), "*.cpp")
			return errors.Join(err, e.patch(libraryPatches, src), copyInto(filepath.Join(src, "src"), ours...))
		}
		if err := e.cmake(ctx, j, llamaTree, change, flags, "llama", "ggml", "ggml-base"); err != nil {
			return err
		}
		build := filepath.Join(j.work, "build")
		libs, err := glob(build, "src/libllama.a", "ggml/src/libggml.a", "ggml/src/libggml-base.a")
		if err != nil {
			return err
		}
		headers, err := glob(filepath.Join(j.work, "src"), "include/*.h", "ggml/include/*.h")
		if err != nil {
			return err
		}
		if err := copyInto(filepath.Join(j.out, "include"), headers...); err != nil {
			return err
		}
		if err := copyInto(j.out, filepath.Join(j.work, "src", "LICENSE")); err != nil {
			return err
		}
		return copyInto(filepath.Join(j.out, "lib"), libs...)
	}}
}

// llamaBench builds upstream's own benchmark with the flags of the library and for the instruction set that the
// library uses on this machine, so that the comparison is fair.
func llamaBench() recipe {
	return upstream("llama-bench", 3, "benchmark (about 140 compiler runs)")
}

// llamaServer builds upstream's HTTP server in the same way, without its web page.
func llamaServer() recipe {
	return upstream("llama-server", 2, "server (about 200 compiler runs)", "-DLLAMA_BUILD_SERVER=ON")
}

// upstream builds one of upstream's programs. The flags state the commit, because the archive has no git history; the
// last occurrence of a flag takes effect.
func upstream(program string, version int, what string, flags ...string) recipe {
	return recipe{
		name: program, version: version,
		inputs: func(ctx context.Context, e *Env) ([]string, error) {
			in, err := llamaInputs(ctx, e)
			return append(in, e.bestISA().flags...), err
		},
		build: func(ctx context.Context, e *Env, j job) error {
			e.console.printf("%s: building llama.cpp's %s", program, what)
			all := slices.Concat([]string{"-DLLAMA_BUILD_COMMON=ON", "-DLLAMA_BUILD_TOOLS=ON",
				"-DLLAMA_BUILD_COMMIT=" + e.Manifest.Native.Llama.Commit}, cmakeFlags, e.bestISA().flags, flags)
			tree := append([]string{"common/", "tools/"}, llamaTree...)
			if err := e.cmake(ctx, j, tree, nil, all, program); err != nil {
				return err
			}
			return copyInto(j.out, filepath.Join(j.work, "build", "bin", program))
		},
	}
}

func llamaInputs(ctx context.Context, e *Env) ([]string, error) {
	pkg, _ := e.Manifest.Package(e.Manifest.Native.Llama.Package)
	_, _, id, err := e.compilers(ctx)
	if err != nil {
		return nil, err
	}
	in, err := e.patchInputs(everywhere)
	return slices.Concat([]string{pkg.Sdist.SHA256, e.Manifest.Native.Llama.Tree, id}, cmakeFlags, in), err
}

// patchedInputs returns the inputs of llama.cpp with a set of patches and those files of llm/ggml that have an
// extension.
func patchedInputs(ctx context.Context, e *Env, set patchSet, ext string) ([]string, error) {
	in, err := llamaInputs(ctx, e)
	if err != nil {
		return nil, err
	}
	patches, err := e.patchInputs(set)
	if err != nil {
		return nil, err
	}
	ours, err := sourceDigests(e.ggmlDir(), ext)
	return slices.Concat(in, patches, ours), err
}

// cmake extracts the tree once, changes it, and builds the targets in j.work/build, where an interrupted build is
// resumed.
func (e *Env) cmake(ctx context.Context, j job, tree []string, change func(src string) error, flags []string,
	targets ...string) error {
	src, build := filepath.Join(j.work, "src"), filepath.Join(j.work, "build")
	if !exists(src) {
		archive, err := e.LlamaSource(ctx)
		if err != nil {
			return err
		}
		tmp := src + ".tmp"
		if err := os.RemoveAll(tmp); err != nil {
			return err
		}
		err = untar(archive, e.Manifest.Native.Llama.Tree, tmp, func(name string) bool {
			for _, t := range tree {
				if name == t || strings.HasSuffix(t, "/") && strings.HasPrefix(name, t) {
					return true
				}
			}
			return false
		})
		if err != nil {
			return err
		}
		if err := e.patch(everywhere, tmp); err != nil {
			return err
		}
		if change != nil {
			if err := change(tmp); err != nil {
				return err
			}
		}
		if err := os.Rename(tmp, src); err != nil {
			return err
		}
	}
	cc, cxx, _, err := e.compilers(ctx)
	if err != nil {
		return err
	}
	args := append([]string{"-S", src, "-B", build, "-DCMAKE_C_COMPILER=" + cc, "-DCMAKE_CXX_COMPILER=" + cxx},
		flags...)
	if e.Arch != runtime.GOARCH {
		args = append(args, "-DCMAKE_SYSTEM_NAME=Linux", "-DCMAKE_SYSTEM_PROCESSOR="+machines[e.Arch])
	}
	args = append(args, "-DCMAKE_C_FLAGS="+renamed(src, "llama.cpp"))
	for i, f := range args { // build outputs must not contain this machine's folders
		if strings.HasPrefix(f, "-DCMAKE_CXX_FLAGS=") {
			args[i] += " " + renamed(src, "llama.cpp")
		}
	}
	if err := e.run(ctx, j, j.work, nil, "cmake", args...); err != nil {
		return err
	}
	args = append([]string{"-C", build, "-j", strconv.Itoa(runtime.NumCPU())}, targets...)
	return e.run(ctx, j, j.work, nil, "ninja", args...)
}

// renamed returns the compiler flag that replaces the path of a folder by name in the output.
func renamed(dir, name string) string { return "-ffile-prefix-map=" + dir + "=" + name }

// LlamaSource returns the source archive. If it is not in the cache, pip downloads it, in an environment that contains
// only the pinned build back-end.
func (e *Env) LlamaSource(ctx context.Context) (string, error) {
	pkg, _ := e.Manifest.Package(e.Manifest.Native.Llama.Package)
	want := fetch.Want{Name: pkg.Sdist.File, SHA256: pkg.Sdist.SHA256, Size: pkg.Sdist.Size}
	if path, ok := e.Cache.Blob(want); ok {
		return path, nil
	}
	env, err := e.output(ctx, venv("backend", pkg.Backend))
	if err != nil {
		return "", err
	}
	e.console.printf("llama: downloading %s (%s)", pkg.Sdist.File, size(pkg.Sdist.Size))
	return fetch.Pip{Python: filepath.Join(env, "bin", "python3"), Cache: e.Cache}.Sdist(ctx, pkg, e.console.bytes)
}

// binding compiles llm/binding over libllama, libcpus and libjinja and merges everything into the one archive that
// upstream's Go package asks for. It is separate from those, so that an edit takes seconds. With sanitized, only our
// own code is instrumented, not llama.cpp's.
func binding(sets []isa, libs, jinja string, cpus []string, sanitized bool) recipe {
	name, flags := "libbinding", []string{"-O2"}
	if sanitized {
		name += "-asan"
		flags = []string{"-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=undefined",
			"-fno-omit-frame-pointer"}
	}
	for _, v := range sets {
		flags = append(flags, "-DSLC_HAS_"+v.name)
	}
	return recipe{
		name: name, version: 3,
		inputs: func(ctx context.Context, e *Env) ([]string, error) {
			_, _, id, err := e.compilers(ctx)
			if err != nil {
				return nil, err
			}
			digests, err := sourceDigests(e.bindingDir(), ".cpp", ".h", ".hpp", ".inc")
			if err != nil {
				return nil, err
			}
			// the contract of the extra functions with Go
			headers, err := sourceDigests(filepath.Join(e.Repo, "llm"), ".h")
			in := []string{filepath.Base(libs), filepath.Base(jinja), id, e.Manifest.Native.Llama.Version}
			for _, cpu := range cpus {
				in = append(in, filepath.Base(cpu))
			}
			return slices.Concat(in, digests, headers), err
		},
		build: func(ctx context.Context, e *Env, j job) error {
			objects, err := e.compileBinding(ctx, j, flags, libs, jinja)
			if err != nil {
				return err
			}
			return e.merge(ctx, j, objects, append([]string{libs, jinja}, cpus...)...)
		},
	}
}

// bindingDir holds the C++ that becomes libbinding, ggmlDir what is compiled within llama.cpp: headers beside ggml's
// CPU code, .cpp files in its library.
func (e *Env) bindingDir() string { return filepath.Join(e.Repo, "llm", "binding") }
func (e *Env) ggmlDir() string    { return filepath.Join(e.Repo, "llm", "ggml") }

func (e *Env) compileBinding(ctx context.Context, j job, flags []string, libs, jinja string,
) (objects []string, err error) {
	sources, err := glob(e.bindingDir(), "*.cpp")
	if err != nil {
		return nil, err
	}
	upstream, err := e.module(ctx, e.Manifest.Native.Llama.Module)
	if err != nil {
		return nil, err
	}
	_, cxx, _, err := e.compilers(ctx)
	if err != nil {
		return nil, err
	}
	e.console.printf("llama: compiling %d files of llm/binding and merging the archives", len(sources))
	flags = append(slices.Clone(flags), "-std=c++17", "-fPIC", "-Wall", "-Wextra", renamed(e.Repo, "sluice"),
		"-I", e.bindingDir(), "-I", filepath.Join(libs, "include"), "-isystem", filepath.Join(jinja, "include"),
		"-I", upstream)
	units := make([][]string, 2)
	for i, name := range sources {
		units[i%2] = append(units[i%2], name)
	}
	return e.compile(ctx, j, cxx, flags, units)
}

// compile makes an object of each unit in the job's folder, in parallel on all processors, and returns their names. A
// unit is several sources that are compiled together, because their headers take longer to compile than they do.
func (e *Env) compile(ctx context.Context, j job, cxx string, flags []string, units [][]string,
) (objects []string, err error) {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.NumCPU())
	for i, sources := range units {
		unit := fmt.Sprintf("%s-%d", j.name, i+1)
		objects = append(objects, unit+".o")
		var b strings.Builder
		for _, src := range sources {
			fmt.Fprintf(&b, "#include %q\n", src)
		}
		if err := os.WriteFile(filepath.Join(j.work, unit+".cpp"), []byte(b.String()), 0o644); err != nil {
			return nil, errors.Join(err, g.Wait())
		}
		g.Go(func() error {
			return e.run(ctx, j, j.work, nil, cxx, append(slices.Clone(flags), "-c", unit+".cpp", "-o", unit+".o")...)
		})
	}
	return objects, g.Wait()
}

// archive makes lib/<name> of objects in the job's folder.
func (e *Env) archive(ctx context.Context, j job, name string, objects ...string) error {
	lib := filepath.Join(j.work, name)
	if err := os.RemoveAll(lib); err != nil {
		return err
	}
	if err := e.run(ctx, j, j.work, nil, e.Tool("ar"), append([]string{"rcs", name}, objects...)...); err != nil {
		return err
	}
	return copyInto(filepath.Join(j.out, "lib"), lib)
}

// merge writes lib/libbinding.a. Archives are first copied beside the objects, because ar's script language has no
// quoting.
func (e *Env) merge(ctx context.Context, j job, objects []string, outputs ...string) error {
	var archives []string
	for _, dir := range outputs {
		found, err := glob(dir, "lib/*.a")
		if err != nil {
			return err
		}
		archives = append(archives, found...)
	}
	if err := copyInto(j.work, archives...); err != nil {
		return err
	}
	var b strings.Builder
	b.WriteString("create libbinding.a\n")
	for _, a := range archives {
		fmt.Fprintf(&b, "addlib %s\n", filepath.Base(a))
	}
	for _, o := range objects {
		fmt.Fprintf(&b, "addmod %s\n", o)
	}
	b.WriteString("save\nend\n")
	script := filepath.Join(j.work, "merge.mri")
	if err := os.WriteFile(script, []byte(b.String()), 0o644); err != nil {
		return err
	}
	if err := e.run(ctx, j, j.work, nil, "sh", "-c", e.Tool("ar")+" -M < merge.mri"); err != nil {
		return err
	}
	return copyInto(filepath.Join(j.out, "lib"), filepath.Join(j.work, "libbinding.a"))
}
