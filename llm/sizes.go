package llm

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-rag/sluice/llm/gguf"
)

// Sizes says how many requests a model decodes together, and what they share.
type Sizes struct {
	Slots       int    `json:"slots"`
	CacheTokens int    `json:"cache_tokens"`
	BatchTokens int    `json:"batch_tokens"`
	Parallel    int    `json:"parallel"` // requests that a batch job has under way
	Reason      string `json:"reason"`
}

// The rules of ChooseSizes.
const (
	minSlots, defaultMaxSlots = 4, 16
	slotsPerThread            = 4
	slotTokens                = 2048 // a prompt with four passages and its answer take about 1,500
	batchPerSlot              = 8
	cacheShare                = 4 // cache, states and scratch take at most 1/cacheShare of the free memory
)

// ChooseSizes fills in Slots, CacheTokens and BatchSize where the options leave them 0, for a model on a machine with a
// number of threads and bytes of free memory (0: not known); isa is as in gguf.Inspect.
//
// The rule: 4 slots a thread, 4 to 16 of them, with 2,048 tokens of cache each, at least the context, and a batch of
// 8 tokens a slot, at least 64. While cache, states and scratch take more than a quarter of what the weights leave of
// the free memory, the number of slots is halved. A batch job runs as many requests at a time as there are slots where
// the weights have types whose products are the same in any batch (Request.Seed), otherwise one, so that its results do
// not depend on other requests.
func ChooseSizes(m gguf.Model, o Options, threads int, available int64, isa string) Sizes {
	o.ContextSize = cmp.Or(o.ContextSize, min(m.ContextTrained, defaultContext))
	wanted := min(max(slotsPerThread*threads, minSlots), defaultMaxSlots)
	reason := fmt.Sprintf("%d slots a thread of %d, %d to %d", slotsPerThread, threads, minSlots, defaultMaxSlots)
	if o.Slots > 0 {
		wanted, reason = o.Slots, "slots as set"
	}
	with := func(slots int) Options {
		next := o
		next.Slots = slots
		if next.CacheTokens == 0 {
			next.CacheTokens = max(o.ContextSize, slots*min(slotTokens, o.ContextSize))
		}
		next.BatchSize = cmp.Or(next.BatchSize, min(max(defaultBatch, batchPerSlot*slots), next.CacheTokens))
		return next
	}
	chosen := with(wanted)
	for o.Slots == 0 && available > 0 && chosen.Slots > 1 {
		need := EstimateMemory(m, chosen)
		if need.Total()-need.Weights <= (available-need.Weights)/cacheShare {
			break
		}
		chosen = with(chosen.Slots / 2)
		reason = fmt.Sprintf("what a quarter of %s of free memory beside the weights holds", bytesText(available))
	}
	s := Sizes{Slots: chosen.Slots, CacheTokens: chosen.CacheTokens, BatchTokens: chosen.BatchSize,
		Parallel: chosen.Slots, Reason: reason}
	if !invariant(m.Types, isa) {
		s.Parallel = 1
		s.Reason += "; one request at a time in batch jobs: weights of other types than " +
			strings.Join(invariantTypes(isa), ", ") + " may give other results beside others"
	}
	return s
}

// invariant reports whether products of weights of these types have the same bits in any batch (TestBatchInvariance).
// It is false for models with experts, whose products do not: the matrix that chooses experts is in float32.
func invariant(types []string, isa string) bool {
	known := invariantTypes(isa)
	return len(types) > 0 && !slices.ContainsFunc(types, func(t string) bool { return !slices.Contains(known, t) })
}

// invariantTypes returns the types of weights whose products have the same bits in any batch.
func invariantTypes(isa string) []string {
	known := []string{"Q4_0", "Q4_1", "Q8_0"}
	switch isa {
	case "avx2", "avxvnni", "avx512vnni":
		known = append(known, "Q5_0", "Q5_1", "Q4_K", "Q5_K", "Q6_K")
	case "amx":
		known = append(known, "Q5_0", "Q5_1", "Q4_K", "Q5_K", "Q6_K", "IQ4_XS", "F16")
	}
	return known
}

// ParallelOf returns how many requests a batch job should run at a time: what the generator's method Parallel says,
// otherwise 1.
func ParallelOf(g Generator) int {
	if p, ok := g.(interface{ Parallel() int }); ok {
		return max(p.Parallel(), 1)
	}
	return 1
}
