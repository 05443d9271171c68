// Package experiment runs the experiments of a YAML file over a dataset: every combination of encoder, chunker,
// retriever, generator and system (gate and query transformation) is a cell, every question in it an item. Finished
// items are in an append-only journal, so a run that was ended anyhow goes on where it stopped. Input: Options. Output:
// Result, one Row for each cell, group of questions and measure.
package experiment
