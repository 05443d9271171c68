// Package cores is the one CPU budget of the process: an ONNX run takes one token, a kernel
// operation what is free (at least one), the language model asks before it decodes.
package cores
