//go:build !linux

package cpu

func largePages([]float32) {}
