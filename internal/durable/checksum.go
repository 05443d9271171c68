package durable

import (
	"hash"
	"hash/crc32"
)

// Checksum returns the CRC-32C of what a file of ours holds.
func Checksum(b []byte) uint32 { return MoreChecksum(0, b) }

// MoreChecksum returns the checksum of data with the checksum sum followed by b.
func MoreChecksum(sum uint32, b []byte) uint32 {
	return crc32.Update(sum, crc32.MakeTable(crc32.Castagnoli), b) // the package caches this table
}

// NewChecksum sums what is written to it.
func NewChecksum() hash.Hash32 { return crc32.New(crc32.MakeTable(crc32.Castagnoli)) }
