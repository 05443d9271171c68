package generator

import (
	"math"
	"regexp"
)

// adapted matches the names of the matrices that an adapter of WriteLoRA changes.
var adapted = regexp.MustCompile(`\.(attn_q|attn_v|attn_qkv|ffn_down|ssm_in|ssm_out)\.weight$`)

// WriteLoRA writes an adapter for a model, replacing what is at path: to each adapted matrix it adds a random one of
// the given rank whose output is scale times as wide as its input (the model's own: 1.5 times).
func WriteLoRA(path string, base Model, rank int, scale float64) error {
	f := &file{}
	f.text("general.type", "adapter")
	f.text("general.architecture", base.Arch)
	f.text("general.name", base.Name+" adapter")
	f.text("adapter.type", "lora")
	f.f32("adapter.lora.alpha", float32(rank)) // llama.cpp multiplies by alpha / rank
	p := &plan{Model: base}
	p.Type = ""
	for _, t := range base.plan() {
		if adapted.MatchString(t.name) {
			p.linear(t.name+".lora_a", 1, t.dims[0], rank)
			p.matrix(t.name+".lora_b", scale/math.Sqrt(float64(rank)), rank, t.dims[1])
		}
	}
	f.tensors = p.list
	return create(path, f)
}
