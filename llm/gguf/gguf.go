// Package gguf reads the header of a language model in GGUF, checks it, and estimates the memory that the model will
// need (path → Model). It is plain Go and needs no llama.cpp.
//
// All of the header is checked before llama.cpp opens the file, whose parser and loader assert, hence end the process,
// on some of what they do not expect. Versions 2 and 3, little-endian.
package gguf

import "errors"

// ErrModel: the file is missing, not a GGUF, damaged, or not a model that generates text.
var ErrModel = errors.New("not a usable language model")

// Model is what a model file, or all files of a split one, says about itself.
type Model struct {
	Name, Path     string
	Architecture   string
	Description    string // architecture, parameters, quantisation
	Parameters     int64
	ContextTrained int      // tokens the model was trained to read
	Embedding      int      // width of its hidden state
	ChatTemplate   string   // Jinja source; empty when the file has none
	ToolTemplate   string   // the same for conversations with tools; empty when it is not another one
	Bytes          int64    // size on disk
	Pooling        int      // of an encoder, as llama.cpp numbers it: 1 mean, 2 cls, 3 last, 4 rank; 0: not said
	Types          []string // of its matrices, by name, sorted
	Footprint      Footprint
}
