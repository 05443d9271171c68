// Package panics makes errors of panics, so that one in a job, a parser or a goroutine ends that piece of work and not
// the process.
package panics

import (
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
)

// Error is a panic that has ended a piece of work.
type Error struct {
	Value any
	Stack []byte // of the goroutine, from where it panicked
}

func (e *Error) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

// Into, deferred by a function with a named error, makes that an *Error when the function panics.
func Into(err *error) {
	if v := recover(); v != nil {
		*err = &Error{v, debug.Stack()}
	}
}

// Call is fn's error, an *Error if it panics.
func Call(fn func() error) (err error) {
	defer Into(&err)
	return fn()
}

// Log, deferred by a goroutine that nothing waits for, logs its panic.
func Log(log *slog.Logger, what string) {
	if v := recover(); v != nil {
		log.Error(what+" panicked", "panic", fmt.Sprint(v), "stack", string(debug.Stack()))
	}
}

// Stack returns the stack of the panic that an error was made from, "" for any other error.
func Stack(err error) string {
	if e, ok := errors.AsType[*Error](err); ok {
		return string(e.Stack)
	}
	return ""
}
