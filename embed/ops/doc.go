// Package ops are the operators of the encoders' graphs, as custom operators of ONNX Runtime in the domain "sluice":
//
//	Linear(x, W…, b…) → f(x·Wᵀ + b)             the weights of several layers below each other; attribute activation
//	LinearNorm(x, residual, W, b, scale, shift) → layer normalisation of x·Wᵀ + b + residual; attribute epsilon
//	Layer(x, starts, Wq, Wk, Wv, bq, bk, bv, Wo, bo, scale, shift, Wup, bup, Wdown, bdown, scale, shift[, bias])
//	    → norm(h + Wdown·f(Wup·h)), h = norm(x + Wo·attention(Wq·x, Wk·x, Wv·x)): a layer of BERT; bias by distance
//	                                            attributes heads, activation, epsilon
//	DisentangledAttention(qkv, starts[, keys][, queries]) → y   with projected relative positions, as DeBERTa's;
//	                                            attributes heads, span, buckets, farthest, keys, queries
//	Pool(x, starts) → one row for each text     attributes first (1: of the first token, 0: the mean), normalise
//
// x is [tokens, values]: the texts of a batch end to end, without padding; starts is where each begins, and where the
// last one ends. So a row does not depend on the other texts of its batch, to the bit.
//
// With the attribute codes = 1, weights and inputs of a product are of 8 bits, with a step for each 32 of them; so may
// be those of attention in a Layer. Linear, DisentangledAttention and LinearNorm make up the layers of DeBERTa.
//
// ONNX Runtime plans, allocates and calls; package kernels/cpu/encoder computes. Weights are packed when a session is
// made.
//
// The operators need the native libraries (build tag "native").
package ops
