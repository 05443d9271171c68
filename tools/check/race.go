package main

import (
	"cmp"
	"context"
	"os"
	"os/exec"
)

// raced returns the packages with goroutines or C threads of their own. A test that the race detector has nothing to
// find in leaves itself out (internal/test/race).
func raced() []string {
	return []string{"./cuda", "./engine/...", "./embed/...", "./rag/store/...", "./rag/knowledge", "./llm",
		"./llm/remote", "./llm/tests"}
}

// racing runs the tests under the race detector, which observes Go code only; C code just runs slower.
func (r *runner) racing(ctx context.Context) {
	if cc := cmp.Or(os.Getenv("CC"), "gcc"); exists(cc) {
		wrapper, err := lightly(cc, "-O1")
		if err != nil {
			r.fail("race", err.Error())
			return
		}
		r.env = []string{"CC=" + wrapper}
	}
	flags := withTag(os.Getenv("GOFLAGS"), "native")
	r.test(ctx, "race", flags, append([]string{"-race", noPointerChecks, "-p", oneMore()}, raced()...)...)
}

// noPointerChecks leaves out the checks of unsafe pointers that -race adds, in SQLite's C code as Go only: it consists
// of such pointers, and a third of the time of a store's tests would go there. Its accesses are watched as all are.
const noPointerChecks = "-gcflags=modernc.org/...=-d=checkptr=0"

// onceOnly are tests of engine that do the same whatever the instruction set: they run in the first pass, and not again
// without a C compiler. Beside the stand-in and what is vendored: work that is split with a GPU, and what is still done
// after a cancellation.
const onceOnly = "^(TestStandIn|TestVendoring|TestGPUEqualsCPU|TestGPUScans|TestCancelledAnywhere|" +
	"TestCancelledAtAnyMoment)$"

func exists(program string) bool {
	_, err := exec.LookPath(program)
	return err == nil
}
