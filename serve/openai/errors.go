package openai

import (
	"encoding/json"
	"fmt"
)

// Error is an error in a request, with the parameter's name for OpenAI's clients. The client can correct it: status
// 400, unless Status says otherwise.
type Error struct {
	Status  int // 0: 400
	Code    string
	Param   string // "messages[2].content"
	Message string
	Hint    string // what to do about it; may be empty
}

func (e *Error) Error() string { return e.Message }

// The codes of Error.
const (
	CodeInvalid     = "invalid_value"
	CodeType        = "invalid_type"
	CodeMissing     = "missing_required_parameter"
	CodeUnsupported = "unsupported_parameter"
	CodeLimit       = "limit_exceeded"
)

func invalid(param, format string, args ...any) *Error {
	return &Error{Code: CodeInvalid, Param: param, Message: param + ": " + fmt.Sprintf(format, args...)}
}

func wrongType(param, want string, raw json.RawMessage) *Error {
	return &Error{Code: CodeType, Param: param,
		Message: fmt.Sprintf("%s: %s is needed, given %s", param, want, kind(raw))}
}

func missing(param string) *Error {
	return &Error{Code: CodeMissing, Param: param, Message: param + " is missing"}
}

func unsupported(param, format string, args ...any) *Error {
	return &Error{Code: CodeUnsupported, Param: param, Message: param + ": " + fmt.Sprintf(format, args...)}
}

func tooMany(param string, given, limit int, what string) *Error {
	return &Error{Code: CodeLimit, Param: param,
		Message: fmt.Sprintf("%s: %d %s, at most %d are taken", param, given, what, limit)}
}

func (e *Error) hint(format string, args ...any) *Error {
	e.Hint = fmt.Sprintf(format, args...)
	return e
}
