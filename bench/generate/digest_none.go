//go:build !native

package generate

func linkedVersion() string { return "" }
