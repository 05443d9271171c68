// Package tests holds what is tested of package llm from outside, end to end: real and random models through llama.cpp
// (tag native). Tests of what the package keeps to itself lie beside it.
package tests
