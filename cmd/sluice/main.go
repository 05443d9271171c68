// Command sluice is a local retrieval system with a calibrated gate before it. Results go to standard
// output, everything else to standard error; `sluice help` documents the exit codes.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/sluice-rag/sluice/llm"
)

func main() {
	ctx := signals() // a closed pipe behind standard output ends the program quietly (SIGPIPE)
	a := &app{stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, env: os.Environ()}
	if os.Getenv("GOTRACEBACK") != "crash" { // who sets that wants a core dump
		if err := llm.ExitOnAbort(); err != nil {
			a.say("%v", err)
		}
	}
	if program, err := os.Executable(); err == nil {
		a.worker = []string{program, "bench", workerVerb}
		a.helper = []string{program, probeVerb}
	}
	a.signals = func() (<-chan os.Signal, func()) {
		c := make(chan os.Signal, 4)
		signal.Notify(c, os.Interrupt, syscall.SIGTERM)
		return c, func() { signal.Stop(c) }
	}
	os.Exit(a.run(ctx, os.Args[1:]))
}

// signals returns a context that the first signal ends, so that the work ends in good order. It also gives the signals
// their default effect back: a second one kills.
func signals() context.Context {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	go func() { <-ctx.Done(); stop() }()
	return ctx
}
