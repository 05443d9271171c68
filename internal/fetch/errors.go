package fetch

import (
	"errors"
	"fmt"
	"net/http"
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

// StatusError describes a status that no retry will mend; it is ErrHTTP.
type StatusError struct {
	URL    string // that was asked, before redirects
	Status int
	// Reason is why, in a word of Hugging Face's hub: GatedRepo, RepoNotFound, RevisionNotFound, EntryNotFound; "":
	// not said.
	Reason     string
	Redirected bool // the answer is of another host, where a redirect led
}

func (e *StatusError) Error() string {
	hint := ""
	if e.Status == http.StatusUnauthorized || e.Status == http.StatusForbidden {
		hint = " (it asks for an account: download the file yourself and give its path)"
	}
	return fmt.Sprintf("%v: %s answers %d %s%s", ErrHTTP, e.URL, e.Status, http.StatusText(e.Status), hint)
}

func (e *StatusError) Unwrap() error { return ErrHTTP }

// MismatchError describes how a file differs from its pin.
type MismatchError struct {
	Name, What, Want, Got string
}

func (e *MismatchError) Error() string {
	return fmt.Sprintf("%s: %s is %s, expected %s; the file was deleted, try again, and if it persists the source "+
		"has changed", e.Name, e.What, e.Got, e.Want)
}

func (e *MismatchError) Unwrap() error { return ErrMismatch }
