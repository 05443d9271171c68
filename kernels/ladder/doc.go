// Package ladder keeps the optimisation steps from a naive loop to the kernels of kernels/cpu runnable, one idea per
// step, so that a reader sees the gain of each on the machine at hand:
//
// \tgo test -run '^$' -bench . ./kernels/ladder
//
// prints for each step the percentage of the peak rate of register operands, measured alternately with it. Tests check
// that all steps give the same result. Nothing else imports this package.
package ladder
