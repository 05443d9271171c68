package serve

import (
	"errors"
	"io/fs"
	"net/http"
	"slices"
	"syscall"

	"github.com/sluice-rag/sluice/rag/store"
)

// outcomeUnknown is the code of a change of which nobody knows yet whether it was made.
const outcomeUnknown = "outcome_unknown"

// asDiskError converts the error of a full disk, or of a store without write permission, to one for the client; nil for
// other errors. It does not show paths.
func asDiskError(err error) *requestError {
	is := func(kind error) bool { return errors.Is(err, kind) }
	switch {
	case is(store.ErrUncertain):
		return &requestError{Status: http.StatusInternalServerError, Code: outcomeUnknown, cause: err,
			Message: "this change failed in its last step, or was interrupted before: whether it was made is not known",
			Hint:    "look whether it is there, and repeat it if not; the server's log has the reason"}
	case slices.ContainsFunc([]error{syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG}, is):
		return &requestError{Status: http.StatusInsufficientStorage, Code: "disk_full", cause: err,
			Message: "the disk of this knowledge base is full", Hint: "what was acknowledged before is kept"}
	case is(store.ErrReadOnly), is(syscall.EROFS):
		return &requestError{Status: http.StatusForbidden, Code: "store_read_only", cause: err,
			Message: "the server cannot write to this knowledge base"}
	case is(fs.ErrPermission):
		return &requestError{Status: http.StatusForbidden, Code: "store_permission", cause: err,
			Message: "the server lacks a permission for the files of this knowledge base"}
	}
	return nil
}
