// Package ops are the operators of the encoders' graphs, as custom operators of ONNX Runtime in the domain "sluice":
//
//	Linear(x, W…, b…) → f(x·Wᵀ + b)             the weights of several layers below each other; attribute activation
//	LinearNorm(x, residual, W, b, scale, shift) → layer normalisation of x·Wᵀ + b + residual; attribute epsilon
//	Attention(qkv, starts[, bias]) → y          of each text to itself; attribute heads
//	DisentangledAttention(qkv, starts[, keys][, queries]) → y   with projected relative positions, as DeBERTa's;
//	                                            attributes heads, span, buckets, farthest, keys, queries
//	Pool(x, starts) → one row for each text     attributes first (1: of the first token, 0: the mean), normalise
//
// x is [tokens, values]: the texts of a batch end to end, without padding; starts is where each begins, and where the
// last one ends. So a row does not depend on the other texts of its batch, to the bit.
//
// With the attribute codes = 1, weights and inputs of a product are of 8 bits, with a step for each 32 of them; so may
// be those of an Attention.
//
// ONNX Runtime plans, allocates and calls; package kernels/cpu computes. Weights are packed when a session is made.
//
// The operators need the native libraries (build tag "native").
package ops
