// Package calibrate makes the calibration of a knowledge base and puts it in force:
//
//	contexts → pseudo-queries (written by a language model, or read) → embeddings → distributions →
//	policy and cut-off → artifact
//
// Input: Input. Output: *Result.
package calibrate
