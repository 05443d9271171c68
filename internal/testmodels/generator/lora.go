package generator

import (
	"math"
	"strings"
)

// adapted returns the matrices that an adapter of WriteLoRA changes.
func adapted(name string) bool {
	for _, end := range []string{"attn_q.weight", "attn_v.weight", "attn_qkv.weight", "ffn_down.weight",
		"ssm_in.weight", "ssm_out.weight"} {
		if strings.HasSuffix(name, "."+end) {
			return true
		}
	}
	return false
}

// WriteLoRA writes an adapter for a model, replacing what is at path: to each adapted matrix it adds a random one of
// the given rank whose output is scale times as wide as its input (the model's own: 1.5 times). Errors are ErrModel, or
// the file's.
func WriteLoRA(path string, base Model, rank int, scale float64) error {
	if err := base.check(); err != nil {
		return err
	}
	if rank < 1 || rank > base.Embedding {
		return refuse("rank %d is not between 1 and the embedding of %d", rank, base.Embedding)
	}
	f := newFile()
	f.text("general.type", "adapter")
	f.text("general.architecture", base.Arch)
	f.text("general.name", base.Name+" adapter")
	f.text("adapter.type", "lora")
	f.f32("adapter.lora.alpha", float32(rank)) // llama.cpp multiplies by alpha / rank
	p := &plan{Model: base}
	p.Type = ""
	for _, t := range base.plan() {
		if adapted(t.name) {
			p.linear(t.name+".lora_a", 1, t.dims[0], rank)
			p.matrix(t.name+".lora_b", scale/math.Sqrt(float64(rank)), rank, t.dims[1])
		}
	}
	f.tensors = p.list
	return create(path, f)
}
