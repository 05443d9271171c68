//go:build !race

package store

const raceEnabled = false

const killWithin = 300_000 // microseconds of work before a kill
