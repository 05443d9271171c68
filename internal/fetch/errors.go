package fetch

import (
	"errors"
	"fmt"
)

var (
	// ErrMismatch is wrapped if a file does not match its pin. The file has been deleted.
	ErrMismatch = errors.New("fetch: content does not match its pin")
	// ErrHTTP is wrapped when a server answers with a status that no retry will mend.
	ErrHTTP = errors.New("fetch: server refused")
	// ErrIncomplete is wrapped when every retry ended before the file did. What arrived is kept for resuming.
	ErrIncomplete = errors.New("fetch: download did not finish")
	// ErrPip is wrapped when pip or the Python below it fails.
	ErrPip = errors.New("fetch: pip failed")
	// ErrNoPip is wrapped, with ErrPip, if there is no Python, or one without pip.
	ErrNoPip = errors.New("there is no pip here")
	// ErrWrite is wrapped when the cache cannot be written, for example because the disk is full.
	ErrWrite = errors.New("fetch: cannot write to the cache")
)

// MismatchError describes how a file differs from its pin.
type MismatchError struct {
	Name, What, Want, Got string
}

func (e *MismatchError) Error() string {
	return fmt.Sprintf("%s: %s is %s, expected %s; the file was deleted, try again, and if it persists the source "+
		"has changed",
		e.Name, e.What, e.Got, e.Want)
}

func (e *MismatchError) Unwrap() error { return ErrMismatch }
