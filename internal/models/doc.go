// Package models finds, brings and verifies the models of third_party/manifest.yaml.
//
// A pulled model is a folder $SLUICE_CACHE/models/<name> of real files (ONNX Runtime refuses links that lead out of a
// graph's folder) with model.yaml, which says how embed reads it, and .files.json, which says for this package what was
// verified. Only Pull touches the network.
//
// Models of Hugging Face's hub and of Ollama are named hf:OWNER/REPO and ollama:NAME. They are looked for in the caches
// of those programs, which are only read, and those of the hub in $SLUICE_CACHE/hub, where Pull brings them.
//
// Input: a name, or a path. Output: a folder or file, or an error that wraps ErrUnknownModel, ErrReference,
// ErrNotPulled, ErrCorrupt, ErrAccess or ErrHub and says what to do.
package models
