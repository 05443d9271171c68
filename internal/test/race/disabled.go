//go:build !race

package race

// Enabled reports whether the tests run under the race detector.
const Enabled = false
