package ingest_test

import (
	"io/fs"
	"syscall"
)

// changed is the time that systemOf returns.
func changed(info fs.FileInfo) int64 { return info.Sys().(*syscall.Stat_t).Ctim.Nano() }
