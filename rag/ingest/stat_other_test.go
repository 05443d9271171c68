//go:build !linux

package ingest_test

import "io/fs"

// changed is the time that systemOf returns.
func changed(fs.FileInfo) int64 { return 0 }
