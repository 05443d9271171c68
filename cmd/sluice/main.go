// Command sluice is a local retrieval system with a calibrated gate before it. Results go to standard
// output, everything else to standard error; `sluice help` documents the exit codes.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"

	_ "golang.org/x/crypto/x509roots/fallback" // certificate authorities, for systems without a list of them

	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/llm"
)

func main() {
	ctx := signals(sameSignal)   // a closed pipe on standard output ends the program quietly (SIGPIPE)
	_ = embed.DisableTelemetry() // Open reports an error
	a := &app{stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, env: os.Environ()}
	if os.Getenv("GOTRACEBACK") != "crash" { // that value asks for a core dump
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

// sameSignal is how long a second signal is taken for the first one: timeout(1) and other supervisors send a signal
// both to the program and to its process group, while the first signal asks for an orderly shutdown.
const sameSignal = 250 * time.Millisecond

// signals returns a context that the first signal cancels, for an orderly shutdown. After `same`, the signals get their
// default effect back: a second one kills the process.
func signals(same time.Duration) context.Context {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	go func() {
		<-ctx.Done()
		time.Sleep(same)
		stop()
	}()
	return ctx
}
