// Command sluice is a local retrieval system with a calibrated gate before it. Results go to standard
// output, everything else to standard error; `sluice help` documents the exit codes.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	// The first signal ends the work in good order; it also gives the signals their default effect back,
	// so that a second one kills. A closed pipe behind standard output ends the program quietly (SIGPIPE).
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	go func() { <-ctx.Done(); stop() }()
	a := &app{stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, env: os.Environ()}
	if program, err := os.Executable(); err == nil {
		a.worker = []string{program, "bench", workerVerb}
		a.helper = []string{program, probeVerb}
	}
	os.Exit(a.run(ctx, os.Args[1:]))
}
