// Package models finds, brings and verifies the models of third_party/manifest.yaml.
//
// A pulled model is a folder $SLUICE_CACHE/models/<name> of real files (ONNX Runtime refuses links that lead out of a
// graph's folder) with model.yaml, which tells embed how to read it, and .files.json, which tells this package what was
// verified. Only Pull touches the network.
//
// Input: a name of the manifest, or a path. Output: a folder, or an error that wraps ErrUnknownModel, ErrNotPulled or
// ErrCorrupt and says what to do.
package models
