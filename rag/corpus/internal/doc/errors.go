package doc

import (
	"errors"
	"fmt"
)

// The errors of readers, which package corpus has under the same names.
var (
	ErrFormat   = errors.New("corpus: unreadable source")
	ErrUnknown  = errors.New("corpus: unknown file kind")
	ErrTooLarge = errors.New("corpus: larger than the limit")
	ErrNoWords  = errors.New("corpus: no words in it")
)

// ErrEncrypted is a file that needs a password.
var ErrEncrypted = fmt.Errorf("%w: encrypted; save it without a password", ErrFormat)

// ErrArchive ends the reading of an archive that is broken or exceeds a limit.
var ErrArchive = errors.New("corpus: the archive ends")
