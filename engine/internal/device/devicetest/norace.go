//go:build !race

package devicetest

// Race tells that tests run under the race detector.
const Race = false
