package main

import (
	"context"
	"os"
	"os/exec"
	"runtime"
)

// Debian's cross compiler and emulator, and where the emulator finds the C library of arm64.
const (
	armCompiler  = "aarch64-linux-gnu-gcc"
	armEmulator  = "qemu-aarch64"
	armLibraries = "/usr/aarch64-linux-gnu"
)

// armProcessors are what the emulator imitates: without and with dot products, then also with I8MM, without and with
// SVE.
var armProcessors = []string{"cortex-a72", "neoverse-n1", "max,sve=off", "max"}

const (
	// sameBits compares, on every instruction set, canonical scores with NumPy's, and a calibration with one of amd64.
	sameBits = "Golden|SameBits"
	// quickTests are sameBits and one or two tests of each family of kernels. They take less than a minute.
	quickTests = sameBits + "|^TestOpen$|ScoresEqual|PairsEqual|NormsAndFinite|ScanStaysInside|CountAtBoundaries|" +
		"LinearReadsNothing|LinearCodes$|IntegersAgree|LayerNorm|GELUSlope|Adam|AttendedHead|Transpose"
	// slowTests measure how long something takes, or take long in the emulator: some of the store make a new one for
	// each step that can fail, run its suite once more on PostgreSQL, or start and end many processes.
	slowTests = "^TestMeasure$|^TestEditsRebuild$|EachStep$|^TestShared|^TestRestrictedReads$|^TestRandomFaults$|Kill$"
	// encoderTests compare the encoder with float64: its operators on every instruction set, and whole vectors.
	encoderTests = "^TestLinear$|^TestLinearNorm$|^TestLayer$|^TestGolden$"
)

// armTree is the copy of the tree with the set-up for arm64, which make dist ARCH=arm64 makes.
const armTree = "build/out/arm64"

// wholeARM is make test-arm64: all tests of the kernels on each processor, and what computes with them on the best one;
// and whether everything compiles for macOS without cgo.
func (r *runner) wholeARM(ctx context.Context) {
	r.macOS(ctx)
	for _, p := range armProcessors {
		r.arm(ctx, p, "", "./kernels/...", "./rag/gate")
		r.armEncoder(ctx, p)
	}
	r.arm(ctx, "max", "", "./engine/cores", "./engine/gorgonia", "./engine/internal/index", "./rag/store",
		"./rag/pairs", "./rag/retrieve")
	r.arm(ctx, "max", engineTests, "./engine", "./engine/internal/statistics")
}

// macOS checks that everything compiles for a Mac without cgo.
func (r *runner) macOS(ctx context.Context) {
	r.beside(func(r *runner) {
		r.env = []string{"GOOS=darwin", "GOARCH=arm64", "CGO_ENABLED=0"}
		r.silent(ctx, "go vet, darwin/arm64, no cgo", withoutTag(os.Getenv("GOFLAGS"), "native"), "go", "vet", "./...")
	})
}

// engineTests compare every operation of engine with the reference; all of its tests would take hours there.
const engineTests = "OpsEqualReference|BoundaryDecisions|CanonicalDistribution|BoundedDistribution|IndexEqualsReference|" +
	"IndexBoundaries|PartsMerge|SetInEveryOperation|Product|MissingInstructionSets|MergeReads|MomentsOfManyPairs|" +
	"SelectRanks|BinnedWindows"

// arm runs tests (all that are not slow, if tests is empty) on an emulated processor of arm64.
func (r *runner) arm(ctx context.Context, processor, tests string, packages ...string) {
	args := []string{"-exec", armEmulator + " -cpu " + processor, "-skip", slowTests}
	if tests != "" {
		args = append(args, "-run", tests)
	}
	r.emulate(ctx, "arm64, "+processor, ".", withoutTag(os.Getenv("GOFLAGS"), "native"), append(args, packages...))
}

// armEncoder runs encoderTests in the copy of the tree. ONNX Runtime looks at the processor by /sys, which the emulator
// leaves as this machine's: there it ends in a memory fault.
func (r *runner) armEncoder(ctx context.Context, processor string) {
	what := "arm64, the encoder, " + processor
	if _, err := os.Stat(armTree + "/third_party/onnxruntime/lib/libonnxruntime.so"); err != nil {
		r.leaveOut(what, "no set-up for arm64 (make dist ARCH=arm64)")
		return
	}
	hidden := "unshare --map-root-user --mount sh -c 'mount -t tmpfs none /sys/devices/system/cpu && exec " +
		armEmulator + " -cpu " + processor + ` "$0" "$@"'`
	r.emulate(ctx, what, armTree, withTag(os.Getenv("GOFLAGS"), "native"),
		[]string{"-exec", hidden, "-run", encoderTests, "./embed", "./embed/ops"})
}

// emulate runs go test in a folder for arm64.
func (r *runner) emulate(ctx context.Context, what, dir, flags string, args []string) {
	if runtime.GOARCH == "arm64" {
		r.leaveOut(what, "this machine is one of arm64, and tests itself")
		return
	}
	for _, tool := range []string{armCompiler, armEmulator} {
		if _, err := exec.LookPath(tool); err != nil {
			r.leaveOut("arm64", "no "+tool+" (apt-get install gcc-aarch64-linux-gnu qemu-user)")
			return
		}
	}
	r.beside(func(r *runner) {
		r.dir = dir
		r.env = []string{"GOARCH=arm64", "CGO_ENABLED=1", "CC=" + armCompiler, "QEMU_LD_PREFIX=" + armLibraries}
		r.test(ctx, what, flags, args...)
	})
}
