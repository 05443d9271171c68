// Package report writes what an experiment found: results.csv, results.parquet, results.md, plots, and one HTML file
// that needs no other. Input: *experiment.Result. Output: files in a folder.
package report
