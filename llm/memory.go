package llm

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"strings"

	"github.com/sluice-rag/sluice/engine/cores"
)

// ErrMemory: the model with these options needs more memory than there is; see MemoryError.
var ErrMemory = errors.New("not enough memory")

// Footprint is what Inspect reads from a model's header about the memory that it will need.
type Footprint struct {
	Weights  int64 // bytes of the tensors
	Repacked int64 // of them that llama.cpp copies in the order that its instruction set here (ISA) likes best
	Extra    int64 // bytes that the copies take on top: a token embedding that is the output as well comes twice
	Token    int64 // bytes of the KV cache that one token takes over all layers, in float16
	State    int64 // bytes of the recurrent state of one sequence, in float32; 0 when the model has only attention
	Scratch  int64 // bytes that one token of a batch needs at most between two operations
	Vocab    int64 // tokens, hence values of a row of logits
}

// mapped tells whether the file is mapped: not when most of it is copied anyway, because the system would keep both.
func (f Footprint) mapped() bool { return f.Repacked <= f.Weights/2 }

// Memory is an estimate of the bytes that an open model holds.
type Memory struct {
	// Of the weights, Mapped are mapped from the file and the others copied. What is mapped is page cache, which a second model on the same file shares and the system may drop. But every token reads all of
	// it (of a mixture of experts, that of the chosen ones): a model that does not fit would read its file again and again.
	Weights, Mapped int64
	Cache           int64 // KV cache; exact
	State           int64 // recurrent state of all sequences; exact where llama.cpp's own is Mamba's, RWKV's, LFM2's or Kimi's
	Compute         int64 // scratch of a decode, logits and what else llama.cpp holds; an upper estimate
}

// Total returns the sum of all parts.
func (m Memory) Total() int64 { return sum(m.Weights, m.Cache, m.State, m.Compute) }

const (
	cellPad = 256 // llama.cpp rounds the cells of a cache up to these
	// pinnedSequences are those that the binding keeps beside the slots (kPins of llm/binding/engine.h).
	pinnedSequences = 8
	// baseMemory and vocabMemory (for each token: its text, score, place in two hash tables) are what a model holds whatever its
	// context is. Together 29 MB for SmolLM2, where the process grew by 20 MB beside cache and scratch.
	baseMemory  = 16 << 20
	vocabMemory = 256
)

// Memory estimates what the model holds when it is opened with these options: weights, KV cache (all layers in full, also those
// with a sliding window, whose old tokens are kept so that a prompt can be taken up again), recurrent state, scratch.
// Options that Open would refuse are taken as they are. GPU layers are counted as if they were in main memory.
func (i Info) Memory(o Options) Memory {
	o, _ = o.withDefaults(i)
	slots, batch := int64(max(o.Slots, 1)), int64(max(o.BatchSize, 1))
	cells := (int64(max(o.CacheTokens, 1)) + cellPad - 1) / cellPad * cellPad
	f := i.Footprint
	m := Memory{Weights: sum(f.Weights, f.Extra), Cache: mul(f.Token, cells), State: mul(f.State, slots+pinnedSequences)}
	if f.mapped() {
		m.Mapped = max(0, f.Weights-f.Repacked)
	}
	mask := mul(batch, cells, 4+2)      // of the attention, in float32 and float16
	logits := mul(slots, f.Vocab, 4, 2) // in the graph, and copied out of it
	m.Compute = sum(baseMemory, mul(f.Vocab, vocabMemory), mul(batch, f.Scratch), mask, logits)
	if m.State > 0 {
		m.Compute = sum(m.Compute, mul(f.State, slots)) // a decode copies the states that it changes, layer by layer
	}
	return m
}

// MemoryError says what a model needs, what there is, and what to lower. It unwraps to ErrMemory.
type MemoryError struct {
	Model     string
	Need      Memory
	Available int64  // bytes
	Source    string // what Available is: "free memory of the machine", "memory limit of the control group"
	// The options as they are, and the value that would fit of the one to lower; all zero: none would do.
	ContextSize, CacheTokens, Slots int
	FitTokens, FitSlots             int
}

func (e *MemoryError) Unwrap() error { return ErrMemory }

func (e *MemoryError) Error() string {
	var b strings.Builder
	n, total := e.Need, e.Need.Total()
	fmt.Fprintf(&b, "llm: %s: %v: it needs about %s (weights %s, KV cache of %d tokens %s", e.Model, ErrMemory, bytesText(total),
		bytesText(n.Weights), e.CacheTokens, bytesText(n.Cache))
	if n.State > 0 {
		fmt.Fprintf(&b, ", state of %d slots %s", e.Slots, bytesText(n.State))
	}
	fmt.Fprintf(&b, ", scratch %s), %s are available (%s), %s are missing; ", bytesText(n.Compute), bytesText(e.Available), e.Source,
		bytesText(total-e.Available))
	switch {
	case e.FitTokens >= e.ContextSize && e.FitTokens > 0:
		fmt.Fprintf(&b, "lower CacheTokens to %d", e.FitTokens)
	case e.FitTokens > 0 && e.CacheTokens > e.ContextSize:
		fmt.Fprintf(&b, "lower ContextSize from %d and CacheTokens to %d", e.ContextSize, e.FitTokens)
	case e.FitTokens > 0:
		fmt.Fprintf(&b, "lower ContextSize from %d to %d", e.ContextSize, e.FitTokens)
	case e.FitSlots > 0:
		fmt.Fprintf(&b, "lower Slots from %d to %d", e.Slots, e.FitSlots)
	default:
		b.WriteString("take a smaller model or one with fewer bits per weight")
	}
	if total-n.Mapped <= e.Available {
		fmt.Fprintf(&b, " (%s of the weights are mapped from the file, as page cache: without this check the model would open, and "+
			"read them from the disk again and again)", bytesText(n.Mapped))
	}
	return b.String()
}

// CheckMemory reports whether a model fits beside what runs on this machine now: nil, or a *MemoryError. Where the memory that
// is available cannot be known (not Linux), it returns nil. Weights that are in the page cache already count as available.
func CheckMemory(i Info, o Options) error {
	available, source, ok := cores.AvailableMemory()
	if !ok {
		return nil
	}
	return checkMemory(i, o, available, source)
}

// leastTokens is a context that a hint may propose: less answers no question over passages.
const leastTokens = 512

func checkMemory(i Info, o Options, available int64, source string) error {
	o, _ = o.withDefaults(i)
	need := i.Memory(o)
	if need.Total() <= available {
		return nil
	}
	e := &MemoryError{Model: i.Name, Need: need, Available: available, Source: source,
		ContextSize: o.ContextSize, CacheTokens: o.CacheTokens, Slots: o.Slots}
	fits := func(change func(*Options, int), n int) bool {
		with := o
		change(&with, n)
		return i.Memory(with).Total() <= available
	}
	tokens := func(o *Options, n int) {
		o.CacheTokens, o.ContextSize = n, min(n, o.ContextSize)
		o.BatchSize = min(o.BatchSize, n)
	}
	slots := func(o *Options, n int) { o.Slots = n }
	if n := most(o.CacheTokens/cellPad, func(n int) bool { return fits(tokens, n*cellPad) }) * cellPad; n >= leastTokens {
		e.FitTokens = n
	} else {
		e.FitSlots = most(o.Slots-1, func(n int) bool { return fits(slots, n) })
	}
	return e
}

// most returns the largest n of 1 to limit that is good, when all below a good one are; 0 when none is.
func most(limit int, good func(int) bool) int {
	low, high := 0, limit
	for low < high {
		if mid := low + (high-low+1)/2; good(mid) {
			low = mid
		} else {
			high = mid - 1
		}
	}
	return low
}

// footprint follows llama.cpp's llama_kv_cache, llama_memory_recurrent and llama_hparams.
// copies are the bytes of weights that llama.cpp copies (its ggml-cpu/repack.cpp and ggml-cpu/amx; a few matrices of odd shapes
// stay as they are), and what the copies take on top.
func (h *ggufHeader) copies(isa string) (repacked, extra int64) {
	types := []string{"Q4_0", "Q4_K", "IQ4_NL", "MXFP4"}
	if isa == "avx512vnni" || isa == "amx" {
		types = append(types, "Q2_K")
	}
	if isa == "amx" {
		types = append(types, "Q4_1", "Q8_0", "Q5_K", "Q6_K", "IQ4_XS", "F16")
	}
	for _, t := range types {
		n := int64(h.matrices[t])
		repacked += n
		if t == h.tokens.typ && !h.tokens.output {
			extra += int64(h.tokens.bytes)
			n += int64(h.tokens.bytes)
		}
		if t == "Q8_0" && isa == "amx" {
			extra += n * 64 / (16 * 34) // a sum of 4 bytes for each of 16 rows of 34
		}
	}
	return repacked, extra
}

func (h *ggufHeader) footprint(arch string) Footprint {
	f := Footprint{Weights: int64(h.bytes), Vocab: int64(h.arrays["tokenizer.ggml.tokens"])}
	layers := h.number(arch + ".block_count")
	embedding := int64(h.number(arch + ".embedding_length"))
	state := h.state(arch, embedding)
	withCache := layers - h.number(arch+".attention.shared_kv_layers") // Gemma 3n and 4: the last ones look at earlier layers
	var widest int64
	for il := range min(layers, maxLayers) {
		key, value := h.attention(arch, il, embedding)
		recurrent := h.recurrent(arch, il)
		if recurrent {
			f.State = sum(f.State, state)
		}
		if il < withCache && (!recurrent || arch == "falcon-h1") { // whose layers have both
			f.Token = sum(f.Token, mul(2, sum(key, value)))
		}
		heads := int64(h.layer(arch+".attention.head_count", il, 0))
		kv := max(1, int64(h.layer(arch+".attention.head_count_kv", il, int(heads))))
		inner := mul(int64(h.layer(arch+".feed_forward_length", il, 0)), 3)
		if experts := int64(h.layer(arch+".expert_used_count", il, 0)); experts > 0 {
			width := int64(h.number(arch + ".expert_feed_forward_length"))
			if width == 0 { // Mixtral: its experts are as wide as feed_forward_length
				width = inner / 3
			}
			inner = sum(inner, mul(experts, sum(mul(width, 3), embedding)))
		}
		widest = max(widest, sum(mul(4, max(1, heads/kv), sum(key, value)), inner))
	}
	// Values are float32: a few rows of the hidden state, queries, keys and values with their rotated copies, and the inner
	// rows of the feed-forward net. ggml's allocator shares their place between operations, so that less is used.
	f.Scratch = mul(4, sum(mul(8, embedding), widest, 2*int64(h.number(arch+".ssm.inner_size"))))
	return f
}

// layer returns a setting that has one value for all layers or one for each.
func (h *ggufHeader) layer(key string, il, missing int) int {
	if list, ok := h.layers[key]; ok {
		if il < len(list) {
			return list[il]
		}
		return missing
	}
	if _, ok := h.values[key]; ok {
		return h.number(key)
	}
	return missing
}

// attention returns how many values the cache of a layer keeps for a token: keys and values.
func (h *ggufHeader) attention(arch string, il int, embedding int64) (key, value int64) {
	prefix := arch + ".attention."
	heads := h.layer(prefix+"head_count", il, 0)
	kv := int64(h.layer(prefix+"head_count_kv", il, heads))
	width := 0
	if first := h.layer(prefix+"head_count", 0, 0); first > 0 {
		width = int(embedding) / first
	}
	// Gemma 4 gives its layers with a sliding window heads of another size: the larger one is counted.
	k := max(h.layer(prefix+"key_length", il, width), h.number(prefix+"key_length_swa"))
	v := max(h.layer(prefix+"value_length", il, width), h.number(prefix+"value_length_swa"))
	if h.number(prefix+"key_length_mla") > 0 { // DeepSeek: keys and values are one compressed row
		v = 0
	}
	return mul(kv, int64(k)), mul(kv, int64(v))
}

// recurrent says whether a layer keeps a state instead of a cache.
func (h *ggufHeader) recurrent(arch string, il int) bool {
	switch arch {
	case "mamba", "mamba2", "rwkv6", "rwkv6qwen2", "rwkv7", "arwkv7", "falcon-h1":
		return true
	case "qwen3next", "qwen35", "qwen35moe", "qwen4exp", "minimax-01":
		if list, ok := h.layers[arch+".attention.recurrent_layers"]; ok {
			return il < len(list) && list[il] != 0
		}
		every := 4
		if arch == "minimax-01" {
			every = 8
		}
		if n := h.number(arch + ".full_attention_interval"); n > 0 {
			every = n
		}
		return (il+1)%every != 0
	case "nemotron_h", "nemotron_h_moe":
		return h.layer(arch+".attention.head_count_kv", il, 0) == 0 && h.layer(arch+".feed_forward_length", il, 0) == 0
	case "jamba", "plamo2", "granitehybrid", "lfm2", "lfm2moe", "kimi-linear", "bailingmoe3", "kimi-k3", "glm5-next":
		return h.layer(arch+".attention.head_count_kv", il, h.layer(arch+".attention.head_count", il, 0)) == 0
	}
	return false
}

// state returns the bytes of one recurrent layer for one sequence: the tail of its convolution and the state proper.
func (h *ggufHeader) state(arch string, embedding int64) int64 {
	number := func(key string) int64 { return int64(h.number(arch + "." + key)) }
	heads := int64(h.layer(arch+".attention.head_count", 0, 0))
	conv := max(0, number("ssm.conv_kernel")-1)
	if size := number("wkv.head_size"); size > 0 { // RWKV
		shifts := int64(2)
		if n := number("token_shift_count"); n > 0 {
			shifts = n
		}
		return mul(4, embedding, sum(shifts, size))
	}
	if n := number("shortconv.l_cache"); n > 0 { // LFM2
		return mul(4, embedding, n-1)
	}
	if size := number("kda.head_dim"); size > 0 { // Kimi
		if conv == 0 {
			conv = 3
		}
		return mul(4, heads, size, sum(mul(3, conv), size))
	}
	if arch == "minimax-01" {
		key := number("attention.key_length")
		return mul(4, heads, key, key)
	}
	inner, size := number("ssm.inner_size"), number("ssm.state_size") // Mamba and its like
	return mul(4, sum(mul(conv, sum(inner, mul(2, number("ssm.group_count"), size))), mul(size, inner)))
}

// mul and sum stop at the largest number: headers may say anything.
func mul(factors ...int64) int64 {
	product := int64(1)
	for _, f := range factors {
		hi, lo := bits.Mul64(uint64(product), uint64(max(f, 0)))
		if hi != 0 || lo > math.MaxInt64 {
			lo = math.MaxInt64
		}
		product = int64(lo)
	}
	return product
}

func sum(terms ...int64) int64 {
	total := int64(0)
	for _, t := range terms {
		if t = max(t, 0); total > math.MaxInt64-t {
			return math.MaxInt64
		}
		total += t
	}
	return total
}

// bytesText is a size as people say it.
func bytesText(n int64) string {
	if n >= 1e9 {
		return fmt.Sprintf("%.1f GB", float64(n)/1e9)
	}
	return fmt.Sprintf("%.0f MB", float64(n)/1e6)
}
