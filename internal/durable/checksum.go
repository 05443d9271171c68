package durable

import (
	"hash"
	"hash/crc32"
)

// Checksum is the CRC-32C of what a file of ours holds.
func Checksum(b []byte) uint32 { return MoreChecksum(0, b) }

// MoreChecksum is the checksum of what has the checksum sum, with b behind it.
func MoreChecksum(sum uint32, b []byte) uint32 {
	return crc32.Update(sum, crc32.MakeTable(crc32.Castagnoli), b) // the package's own table, made once
}

// NewChecksum sums what is written to it.
func NewChecksum() hash.Hash32 { return crc32.New(crc32.MakeTable(crc32.Castagnoli)) }
