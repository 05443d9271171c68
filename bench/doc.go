// Package bench runs Sluice's compute core against its peers and against what the machine can do.
//
// A workload (W1 to W4 and the stored matrix) is one or more races: a fixed amount of work on fixed
// data, and entrants that all do it. The entrants of a race take turns in one session, A B C A B C, and
// everybody else sleeps meanwhile; a row gives the median and the best of each one's turns, the share
// of the physical limit that the median is, and how wrong the results were against canonical scores.
// Ratios to the best peer of equal accuracy come from the same race. Absolute times of different
// sessions do not compare.
//
// Peers run in processes of their own, one for each library, that speak JSON lines with this package
// (peers/sidecar.py says how, sidecar.go is the other end). One that is missing is said and the race
// goes on without it.
//
// Input: Options. Output: rows and ratios as they are ready, and a Report of all of them.
package bench
