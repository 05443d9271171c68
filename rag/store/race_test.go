//go:build race

package store

const raceEnabled = true

const killWithin = 1_000_000 // microseconds of work before a kill
