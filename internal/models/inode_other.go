//go:build !unix

package models

import "io/fs"

func inode(fs.FileInfo) uint64 { return 0 }
