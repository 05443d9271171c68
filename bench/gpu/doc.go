// Package gpu compares the engine's operations on a GPU and on the CPU, in turns, on the same data, and checks that
// both give the same bits. The GPU's results are shares of the rates measured on it in the same run: tiles of the
// format, and copies.
package gpu
