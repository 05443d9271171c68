//go:build !unix

package pairs

import "os"

// mapFile reads a file.
func mapFile(path string) ([]byte, error) { return os.ReadFile(path) }

func unmapFile([]byte) {}
