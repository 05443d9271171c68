//go:build !race

package store

const raceEnabled = false

const killWithin = 50_000 // microseconds of work before a kill
