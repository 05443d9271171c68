// Package gpu compares the engine's operations on a GPU with the same on the CPU, in turns, on the same data, and looks
// whether both give the same bits. What a GPU is said to reach is a share of the rates that are measured on it in the
// same run: tiles of the format, and copies.
package gpu
