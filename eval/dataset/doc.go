// Package dataset has the contexts and questions of an evaluation: a folder with contexts.jsonl and queries.jsonl. It
// imports SQuAD, CRSB and SciBench files into such folders, and makes a Context Retrieval Supervision Benchmark of any
// documents. Input: files. Output: Set. What is wrong with a file is counted (Faults), never silent.
package dataset
