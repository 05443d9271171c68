// Package bench measures Sluice's compute core against other libraries (its peers) and against the limits
// of the machine.
//
// A workload (w1 to w4, matrix) is one or more benchmarks: a fixed amount of work on fixed data, and the
// competitors that all do it. They run in turns within one process run, A B C A B C, and the others sleep
// meanwhile. A row gives the median and the minimum of a competitor's times, which percentage of the
// physical limit the median is, and the largest error of the results against canonical scores. Ratios
// compare with the fastest peer of equal accuracy in the same benchmark. Times of different runs must not
// be compared.
//
// Each peer library runs in a process of its own that exchanges lines of JSON with this package
// (peers/sidecar.py describes the protocol, package peers is the other end). A missing peer is noted, and the
// benchmark goes on without it.
//
// Input: Options. Output: rows and ratios as soon as they are known, and a Report of all of them.
package bench
