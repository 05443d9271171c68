package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// selection is a run of `go test`: packages, and which of their tests run elsewhere only.
type selection struct {
	packages []string
	skip     []string // tests by name
	why      string   // they are left out here
}

// racy are the packages with goroutines or C threads of their own. All tests run without the race detector as well;
// here are left out those that bring no goroutines together in another way than the rest does, and take minutes.
func racy() []selection {
	return []selection{
		{
			packages: []string{"./cuda", "./engine/...", "./embed/...", "./rag/store/...", "./llm", "./llm/remote"},
			skip: []string{
				"TestVendoring", "TestMemoryLimits", "TestManyQuantiles", "TestIndexManyBiases",
				"TestIndexBoundaries", "TestNoInputIsSlowerThanCanonicalScores", "TestStretches", "TestTextFilter",
				"TestBoundedDistribution", "TestKeepDistribution", "TestGPUScans", "TestOnCUDA",
				"TestAllocationsOfAQuestion", "TestInt8IsNearF32", "TestVectorsDoNotDependOnTheBatch",
				"TestPairsEqualPythonTokenizers", "TestLongTextsWithoutSpaces", "TestGoldenHeads",
				"TestFamiliesAgainstNumPy", "TestEntailmentAgainstNumPy", "TestStandardGraphs", "TestVectorsOfAMX",
				"TestSomeRowsOfASet",
				"TestIndexMachine", "TestIndexEqualsReference", "TestIndexAllocations", "TestSetInEveryOperation",
				"TestIndexBiasesOfTheFirstChunk", "TestContractWithoutMaps", "TestRing", "TestGradients",
				"TestRankingGradients", "TestChatHostileTemplates", "TestRuntime", "TestStandardGolden",
				"TestRuntimeNamesTheInstructionSetInUse", "TestTokenClassifiersAgainstNumPy",
				"TestEdgePairsEqualPythonTokenizers", "TestChatContents", "TestRequantise",
			},
			why: "compare values over many inputs, on one goroutine or as the others do, or count allocations",
		},
		{
			packages: []string{"./rag/knowledge"},
			skip: []string{"TestTheIndexIsStored", "TestStoredIndexesAreNotTrusted", "TestCompactAndKeepIndex",
				"TestFigures"},
			why: "search one after the other, beside SQLite, which is 30 times slower there",
		},
		{
			packages: []string{"./llm/tests"},
			skip: []string{
				"TestArchGenerate", "TestArchInfo", "TestArchLoRA", "TestArchPin", "TestArchPrefix",
				"TestArchStateIsReused", "TestArchTemplates", "TestArchTemplateTokens", "TestArchTokens",
				"TestArchTokensSpellAnything", "TestAttention", "TestBatchInvariance",
				"TestBatchInvarianceOfUsedCache", "TestChatTemplateOfFile", "TestChatTokensAtTheEnds",
				"TestGenerateContextFull", "TestGenerateLimits", "TestGenerateOddPrompts",
				"TestGeneratePrefixReuse", "TestGenerateRepeatPenalty", "TestGenerateSeed",
				"TestGrammarCountsRunes", "TestInstructionSets", "TestLogProbs", "TestMatmul",
				"TestMemoryAgainstLlamasLog", "TestMemoryOfEveryCache", "TestNoRepeatNGram",
				"TestOpenBadFiles", "TestOpenFlipped", "TestOpenOptions", "TestPenalties",
				"TestSlidingWindowKeepsWhatIsReused", "TestSplitModel", "TestStructured",
				"TestStructuredRefused", "TestTokenize", "TestRequestsLeakNothing", "TestSelectionIsExact",
			},
			why: "ask one model what one goroutine at a time asks, or read files",
		},
	}
}

// args returns the arguments of `go test`.
func (s selection) args() []string {
	var args []string
	if len(s.skip) > 0 {
		args = append(args, "-skip", "^("+strings.Join(s.skip, "|")+")$")
	}
	return append(args, s.packages...)
}

// racing returns the steps that run the tests under the race detector, which observes Go code only; C code just runs
// slower.
func (r *runner) racing(ctx context.Context) (steps []func(*runner)) {
	var env []string
	if cc := cmp.Or(os.Getenv("CC"), "gcc"); exists(cc) {
		wrapper, err := lightly(cc, "-O1")
		if err != nil {
			return []func(*runner){func(r *runner) { r.fail("race", err.Error()) }}
		}
		env = []string{"CC=" + wrapper}
	}
	for _, s := range racy() {
		steps = append(steps, func(r *runner) {
			if ctx.Err() != nil {
				return
			}
			r.env = env
			skipped := strings.Join(s.skip, " ")
			fmt.Fprintf(r.out, "----  without the race detector only, as they %s: %s\n", s.why, skipped)
			flags := withTag(os.Getenv("GOFLAGS"), "native")
			r.test(ctx, "race", flags, append([]string{"-race", "-p", oneMore()}, s.args()...)...)
		})
	}
	return steps
}

// onceOnly are tests of engine that do the same whatever the instruction set: they run in the first pass, and not again
// without a C compiler. Beside the stand-in and what is vendored: work that is split with a GPU, and what is still done
// after a cancellation.
const onceOnly = "^(TestStandIn|TestVendoring|TestGPUEqualsCPU|TestGPUScans|TestCancelledAnywhere|" +
	"TestCancelledAtAnyMoment)$"

func exists(program string) bool {
	_, err := exec.LookPath(program)
	return err == nil
}
