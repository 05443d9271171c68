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
	// slowTests measure how long something takes, or take long in the emulator.
	slowTests = "^TestMeasure$|^TestEditsRebuild$"
)

// wholeARM is make test-arm64: all tests of the kernels on each processor, and what computes with them on the best one;
// and whether everything compiles for macOS without cgo.
func (r *runner) wholeARM(ctx context.Context) {
	r.beside(func(r *runner) {
		r.env = []string{"GOOS=darwin", "GOARCH=arm64", "CGO_ENABLED=0"}
		r.silent(ctx, "go vet, darwin/arm64, no cgo", withoutTag(os.Getenv("GOFLAGS"), "native"), "go", "vet", "./...")
	})
	for _, p := range armProcessors {
		r.arm(ctx, p, "", "./kernels/...")
		r.arm(ctx, p, sameBits, "./rag/gate")
	}
	r.arm(ctx, "max", "", "./engine/cores", "./engine/gorgonia", "./engine/internal/index", "./rag/store", "./rag/gate")
	r.arm(ctx, "max", engineTests, "./engine", "./engine/internal/statistics")
}

// engineTests compare every operation of engine with the reference; all of its tests would take hours there.
const engineTests = "OpsEqualReference|BoundaryDecisions|CanonicalDistribution|BoundedDistribution|IndexEqualsReference|" +
	"IndexBoundaries|PartsMerge|SetInEveryOperation|Product|MissingInstructionSets"

// arm runs tests (all that are not slow, if tests is empty) on an emulated processor of arm64.
func (r *runner) arm(ctx context.Context, processor, tests string, packages ...string) {
	what := "arm64, " + processor
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
	args := []string{"-exec", armEmulator + " -cpu " + processor, "-skip", slowTests}
	if tests != "" {
		args = append(args, "-run", tests)
	}
	r.beside(func(r *runner) {
		r.env = []string{"GOARCH=arm64", "CGO_ENABLED=1", "CC=" + armCompiler, "QEMU_LD_PREFIX=" + armLibraries}
		r.test(ctx, what, withoutTag(os.Getenv("GOFLAGS"), "native"), append(args, packages...)...)
	})
}
