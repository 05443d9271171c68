// Package ladder keeps the steps from a naive loop to the kernels of kernels/cpu runnable, one idea a step, so that a
// reader sees what each is worth on the machine at hand:
//
//	go test -run '^$' -bench . ./kernels/ladder
//
// prints for each step the percentage of the peak that registers allow, measured in turns with it. Tests make sure that
// all steps find the same. Nothing else imports this package.
package ladder
