//go:build !unix

package fetch

import (
	"errors"
	"os"
)

func tryLock(*os.File) (bool, error) {
	return false, errors.New("file locks are not supported on this system")
}
