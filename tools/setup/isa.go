package setup

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/cpu"
)

// isa is an instruction set that ggml's CPU code is compiled for. The binding chooses one when a program starts
// (llm/binding/isa.cpp has the same list): an AMX machine reads prompts 4.5 times as fast as one that is
// taken for any x86-64-v3.
type isa struct {
	name  string
	flags []string // on top of cmakeFlags
	here  bool     // whether this machine has it
}

func (e *Env) isas() []isa {
	if e.Arch == "arm64" {
		a := cpu.ARM64
		return []isa{
			{"neon", []string{"-DGGML_CPU_ARM_ARCH=armv8-a"}, true},
			{"dotprod", []string{"-DGGML_CPU_ARM_ARCH=armv8.2-a+dotprod"}, a.HasASIMDDP},
			{"i8mm", []string{"-DGGML_CPU_ARM_ARCH=armv8.2-a+dotprod+i8mm"}, a.HasASIMDDP && a.HasI8MM},
		}
	}
	avx512 := []string{"-DGGML_AVX512=ON", "-DGGML_AVX512_VBMI=ON", "-DGGML_AVX512_VNNI=ON"}
	amx := append(slices.Clone(avx512), "-DGGML_AVX512_BF16=ON", "-DGGML_AMX_TILE=ON", "-DGGML_AMX_INT8=ON")
	x := cpu.X86
	has512 := x.HasAVX512F && x.HasAVX512CD && x.HasAVX512VL && x.HasAVX512DQ && x.HasAVX512BW && x.HasAVX512VBMI &&
		x.HasAVX512VNNI
	return []isa{
		{"avx2", nil, true},
		{"avxvnni", []string{"-DGGML_AVX_VNNI=ON"}, x.HasAVXVNNI},
		{"avx512vnni", avx512, has512},
		{"amx", amx, has512 && x.HasAVX512BF16 && x.HasAMXTile && x.HasAMXInt8},
	}
}

// bestISA returns the instruction set that the binding chooses on this machine.
func (e *Env) bestISA() isa {
	best := e.isas()[0]
	for _, v := range e.isas() {
		if v.here {
			best = v
		}
	}
	return best
}

// cpuSymbols are the symbols of ggml's CPU code that other code calls; everything else goes through its registry.
var cpuSymbols = []string{"ggml_backend_cpu_reg", "ggml_threadpool_new", "ggml_threadpool_free",
	"ggml_threadpool_pause"}

// sets returns the instruction sets to build: this machine's, or all of them for tests and for archives for other
// machines. A request for all is remembered in the clone, so that libraries are not linked alternately.
func (e *Env) sets() []isa {
	if e.HasAllSets() {
		return e.isas()
	}
	return []isa{e.bestISA()}
}

func (e *Env) allSetsPath() string { return filepath.Join(e.Repo, "build", "out", "setup", "all-sets") }

// HasAllSets reports whether set-ups of the clone build for every instruction set.
func (e *Env) HasAllSets() bool { return exists(e.allSetsPath()) }

// AllSets has this and all later set-ups of the clone build for every instruction set.
func (e *Env) AllSets() error {
	return WriteFile(e.allSetsPath(), strings.NewReader("ggml's CPU code is built for all instruction sets\n"), 0o644)
}

// libcpus are ggml's CPU code for the sets to build.
func (e *Env) libcpus() (rs []recipe) {
	for _, v := range e.sets() {
		rs = append(rs, libcpu(v))
	}
	return rs
}

// libcpu is ggml's CPU code for an instruction set, linked into one object with local symbols but for
// slc_<instruction set>_<symbol>. Local, because all sets have the same names, and because a function of the C++
// library that one of them compiled for its instructions must not be taken by code that runs everywhere.
func libcpu(v isa) recipe {
	return recipe{
		name: "libggml-cpu-" + v.name, version: 2,
		inputs: func(ctx context.Context, e *Env) ([]string, error) {
			in, err := patchedInputs(ctx, e, cpuPatches, ".h")
			return slices.Concat(in, cpuSymbols, v.flags), err
		},
		build: func(ctx context.Context, e *Env, j job) error {
			archive, err := e.compileCPU(ctx, j, v)
			if err != nil {
				return err
			}
			return e.isolate(ctx, j, v, archive)
		},
	}
}

// compileCPU builds ggml's CPU code for one instruction set.
func (e *Env) compileCPU(ctx context.Context, j job, v isa) (archive string, err error) {
	e.console.printf("llama: building ggml's CPU code for %s (about 15 compiler runs)", v.name)
	flags := append([]string{"-DLLAMA_BUILD_COMMON=OFF", "-DLLAMA_BUILD_TOOLS=OFF",
		"-DCMAKE_OPTIMIZE_DEPENDENCIES=ON"}, cmakeFlags...) // not ggml's other library, which libllama builds
	change := func(src string) error {
		ours, err := glob(e.ggmlDir(), "*.h")
		return errors.Join(err, e.patch(cpuPatches, src),
			copyInto(filepath.Join(src, "ggml", "src", "ggml-cpu"), ours...))
	}
	err = e.cmake(ctx, j, llamaTree, change, append(flags, v.flags...), "ggml-cpu")
	return filepath.Join(j.work, "build", "ggml", "src", "libggml-cpu.a"), err
}

// isolate makes lib/libggml-cpu-<name>.a of an archive.
func (e *Env) isolate(ctx context.Context, j job, v isa, archive string) error {
	object := "ggml-cpu-" + v.name + ".o"
	err := e.run(ctx, j, j.work, nil, e.Tool("ld"), "-r", "--force-group-allocation", "--whole-archive", archive,
		"-o", object)
	if err != nil {
		return err
	}
	var args []string
	for _, s := range cpuSymbols {
		own := fmt.Sprintf("slc_%s_%s", v.name, s)
		args = append(args, "--redefine-sym", s+"="+own, "--keep-global-symbol="+own)
	}
	if err := e.run(ctx, j, j.work, nil, e.Tool("objcopy"), append(args, object)...); err != nil {
		return err
	}
	return e.archive(ctx, j, "libggml-cpu-"+v.name+".a", object)
}
