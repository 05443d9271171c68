package generator

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
)

const (
	mambaConv  = 4  // tokens that the convolution sees
	mambaState = 16 // numbers per channel
	lfm2Conv   = 3  // tokens that the short convolution sees

	spread = 3   // standard deviation of the logits
	gain   = 1.5 // of a matrix: how much wider its output is than its input
)

// plan collects a model's tensors.
type plan struct {
	Model
	list []tensor
}

func (m Model) plan() []tensor {
	p := &plan{Model: m}
	e, n := m.Embedding, len(m.Vocab.Tokens)
	norm := "output_norm.weight"
	switch m.Arch {
	case "gemma2", "gemma3": // embeddings are scaled by sqrt(e), and are the output's rows too
		p.rows("token_embd.weight", .7/math.Sqrt(float64(e)))
		p.constant(norm, spread/.7, e)
	case "lfm2":
		norm = "token_embd_norm.weight" // a mistake according to llama.cpp, which keeps it
		fallthrough
	default:
		p.matrix("token_embd.weight", 1, e, n)
		p.constant(norm, 1, e)
		p.rows("output.weight", spread/math.Sqrt(float64(e)))
	}
	layer := map[string]func(int){"phi3": p.phi3, "mamba": p.mamba, "lfm2": p.lfm2}[m.Arch]
	if layer == nil {
		layer = p.transformer
	}
	for i := range m.Layers {
		layer(i)
	}
	return p.list
}

func (p *plan) random(name string) *rand.Rand {
	h := fnv.New64a()
	h.Write([]byte(name))
	return rand.New(rand.NewPCG(p.Seed, h.Sum64()))
}

func (p *plan) add(name string, dims []int, kind blocks, values func(yield func(float32))) {
	p.list = append(p.list, tensor{name, dims, kind, values})
}

func (p *plan) normal(name string, kind blocks, mean, deviation float64, dims ...int) {
	p.add(name, dims, kind, func(yield func(float32)) {
		r := p.random(name)
		for range (tensor{dims: dims}).elements() {
			yield(float32(mean + deviation*r.NormFloat64()))
		}
	})
}

func (p *plan) matrices() blocks { return types()[cmp.Or(p.Type, "F32")] }

func (p *plan) matrix(name string, deviation float64, dims ...int) {
	p.normal(name, p.matrices(), 0, deviation, dims...)
}

// linear adds a matrix whose output is `by` times as wide as its input.
func (p *plan) linear(name string, by float64, in int, out ...int) {
	p.matrix(name, by/math.Sqrt(float64(in)), append([]int{in}, out...)...)
}

// constant adds a vector of about one value, so that a wrong order of channels shows.
func (p *plan) constant(name string, v float64, n int) { p.normal(name, float32s(), v, v/20, n) }

// rows adds the matrix that makes logits: rows of tokens that are not to come up are next to nothing.
func (p *plan) rows(name string, deviation float64) {
	p.add(name, []int{p.Embedding, len(p.Vocab.Tokens)}, p.matrices(), func(yield func(float32)) {
		r, before := p.random(name), p.before()
		for id, quiet := range p.Vocab.quiet() {
			scale := deviation
			if quiet {
				scale /= 20
			}
			for i := range p.Embedding {
				v := scale * r.NormFloat64()
				for _, embedding := range before[int32(id)] {
					v += embedding[i]
				}
				yield(float32(v))
			}
		}
	})
}

// before returns the embeddings of the tokens that a token is to follow.
func (p *plan) before() map[int32][][]float64 {
	if len(p.Next) == 0 {
		return nil
	}
	r := p.random("token_embd.weight")
	embeddings := make([][]float64, len(p.Vocab.Tokens))
	for id := range embeddings {
		embeddings[id] = make([]float64, p.Embedding)
		for i := range embeddings[id] {
			embeddings[id][i] = r.NormFloat64()
		}
	}
	found := map[int32][][]float64{}
	for from, to := range p.Next {
		id := p.Vocab.ID(to)
		found[id] = append(found[id], embeddings[p.Vocab.ID(from)])
	}
	return found
}

func block(i int, name string) string { return fmt.Sprintf("blk.%d.%s", i, name) }

// transformer adds a layer of llama, qwen2, gemma2 or gemma3.
func (p *plan) transformer(i int) {
	gemma := p.Arch == "gemma2" || p.Arch == "gemma3"
	p.attention(i, gain)
	if p.Arch == "qwen2" {
		p.normal(block(i, "attn_q.bias"), float32s(), 0, .3, p.Heads*p.headDim())
		p.normal(block(i, "attn_k.bias"), float32s(), 0, .3, p.HeadsKV*p.headDim())
		p.normal(block(i, "attn_v.bias"), float32s(), 0, .3, p.HeadsKV*p.headDim())
	}
	if p.Arch == "gemma3" {
		p.constant(block(i, "attn_q_norm.weight"), gain, p.headDim())
		p.constant(block(i, "attn_k_norm.weight"), gain, p.headDim())
	}
	if gemma { // wide, as a token's embedding is its row of the output too, and would ask for itself again
		p.constant(block(i, "post_attention_norm.weight"), 2*gain, p.Embedding)
		p.constant(block(i, "post_ffw_norm.weight"), 2*gain, p.Embedding)
	}
	p.feedForward(i)
}

// attention adds norm, queries, keys, values and output. Scores have a deviation of sharp², so that few tokens win.
func (p *plan) attention(i int, sharp float64) {
	e, q, kv := p.Embedding, p.Heads*p.headDim(), p.HeadsKV*p.headDim()
	p.constant(block(i, "attn_norm.weight"), 1, e)
	p.linear(block(i, "attn_q.weight"), sharp, e, q)
	p.linear(block(i, "attn_k.weight"), sharp, e, kv)
	p.linear(block(i, "attn_v.weight"), gain, e, kv)
	p.linear(block(i, "attn_output.weight"), gain, q, e)
}

func (p *plan) feedForward(i int) {
	e := p.Embedding
	p.constant(block(i, "ffn_norm.weight"), 1, e)
	if p.Experts > 0 {
		p.normal(block(i, "ffn_gate_inp.weight"), float32s(), 0, 2/math.Sqrt(float64(e)), e, p.Experts)
		p.linear(block(i, "ffn_gate_exps.weight"), gain, e, p.FF, p.Experts)
		p.linear(block(i, "ffn_up_exps.weight"), gain, e, p.FF, p.Experts)
		p.linear(block(i, "ffn_down_exps.weight"), gain, p.FF, e, p.Experts)
		return
	}
	p.linear(block(i, "ffn_gate.weight"), gain, e, p.FF)
	p.linear(block(i, "ffn_up.weight"), gain, e, p.FF)
	p.linear(block(i, "ffn_down.weight"), gain, p.FF, e)
}

// phi3 adds a layer whose queries, keys and values are one matrix, as are gate and up.
func (p *plan) phi3(i int) {
	e, q, kv := p.Embedding, p.Heads*p.headDim(), p.HeadsKV*p.headDim()
	p.constant(block(i, "attn_norm.weight"), 1, e)
	p.linear(block(i, "attn_qkv.weight"), gain, e, q+2*kv)
	p.linear(block(i, "attn_output.weight"), gain, q, e)
	p.constant(block(i, "ffn_norm.weight"), 1, e)
	p.linear(block(i, "ffn_up.weight"), gain, e, 2*p.FF)
	p.linear(block(i, "ffn_down.weight"), gain, p.FF, e)
}

// mamba adds a selective state space: the state decays at its own rate per channel and number.
func (p *plan) mamba(i int) {
	e, inner, rank := p.Embedding, 2*p.Embedding, p.Embedding/16
	p.constant(block(i, "attn_norm.weight"), 1, e)
	p.linear(block(i, "ssm_in.weight"), gain, e, 2*inner)
	p.normal(block(i, "ssm_conv1d.weight"), float32s(), 0, .6, mambaConv, inner)
	p.normal(block(i, "ssm_conv1d.bias"), float32s(), 0, .1, inner)
	p.linear(block(i, "ssm_x.weight"), gain, inner, rank+2*mambaState)
	p.linear(block(i, "ssm_dt.weight"), 1, rank, inner)
	p.timeSteps(block(i, "ssm_dt.bias"), inner)
	p.decay(block(i, "ssm_a"), inner)
	p.constant(block(i, "ssm_d"), 1, inner)
	p.linear(block(i, "ssm_out.weight"), 2*gain, inner, e)
}

// timeSteps are log-uniform between .001 and .1 after a softplus, the initial values of the architecture's authors.
func (p *plan) timeSteps(name string, n int) {
	p.add(name, []int{n}, float32s(), func(yield func(float32)) {
		r := p.random(name)
		for range n {
			step := math.Exp(math.Log(.001) + r.Float64()*math.Log(100))
			yield(float32(math.Log(math.Expm1(step))))
		}
	})
}

// decay is -1 … -mambaState for every channel.
func (p *plan) decay(name string, channels int) {
	p.add(name, []int{mambaState, channels}, float32s(), func(yield func(float32)) {
		for k := range mambaState * channels {
			yield(-float32(k%mambaState + 1))
		}
	})
}

func (p *plan) lfm2(i int) {
	e := p.Embedding
	if p.hasAttention(i) {
		p.attention(i, 1)
		p.constant(block(i, "attn_q_norm.weight"), gain, p.headDim())
		p.constant(block(i, "attn_k_norm.weight"), gain, p.headDim())
	} else {
		p.constant(block(i, "attn_norm.weight"), 1, e)
		p.linear(block(i, "shortconv.in_proj.weight"), 1, e, 3*e)
		p.normal(block(i, "shortconv.conv.weight"), float32s(), 0, .8, lfm2Conv, e)
		p.linear(block(i, "shortconv.out_proj.weight"), gain, e, e)
	}
	p.feedForward(i)
}
