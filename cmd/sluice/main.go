// Command sluice is a local retrieval system with a calibrated gate before it. Results go to standard
// output, everything else to standard error; `sluice help` documents the exit codes.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/llm"
)

func main() {
	ctx := signals(sameSignal)   // a closed pipe behind standard output ends the program quietly (SIGPIPE)
	_ = embed.DisableTelemetry() // Open reports an error
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

// sameSignal is how long a second signal counts as the first one. `timeout`, as supervisors do, sends its signal twice,
// to the program and to its group of processes, and the first one asks for an end in good order.
const sameSignal = 250 * time.Millisecond

// signals returns a context that the first signal ends, so that the work ends in good order. After `same` it gives the
// signals their default effect back: a second one kills.
func signals(same time.Duration) context.Context {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	go func() {
		<-ctx.Done()
		time.Sleep(same)
		stop()
	}()
	return ctx
}
