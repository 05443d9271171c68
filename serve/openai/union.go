package openai

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// Several of OpenAI's parameters take values of more than one type. They are decoded late, so that an error can name
// their place in the request.

// given reports whether a parameter is present and not null.
func given(raw json.RawMessage) bool {
	raw = bytes.TrimSpace(raw)
	return len(raw) > 0 && !bytes.Equal(raw, []byte("null"))
}

// first returns the byte that identifies the type of a value, 0 for an empty one.
func first(raw json.RawMessage) byte {
	if raw = bytes.TrimSpace(raw); len(raw) == 0 {
		return 0
	}
	return raw[0]
}

// kind returns the type of a value in words.
func kind(raw json.RawMessage) string {
	switch c := first(raw); {
	case c == 0:
		return "nothing"
	case c == '"':
		return "a string"
	case c == '{':
		return "an object"
	case c == '[':
		return "an array"
	case c == 't' || c == 'f':
		return "a boolean"
	case c == 'n':
		return "null"
	}
	return "a number"
}

// object decodes an object; unknown fields are an error.
func object(param string, raw json.RawMessage, into any) *Error {
	if first(raw) != '{' {
		return wrongType(param, "an object", raw)
	}
	if name := unknownName(raw, into); name != "" {
		return &Error{Code: CodeUnsupported, Param: param + "." + name,
			Message: fmt.Sprintf("%s.%s is not known", param, name)}
	}
	err := json.Unmarshal(raw, into)
	if err == nil {
		return CheckNumbers(into)
	}
	if mismatch, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && mismatch.Field != "" {
		at := param + "." + mismatch.Field
		return &Error{Code: CodeType, Param: at,
			Message: fmt.Sprintf("%s: %s cannot be read from %s", at, plain(mismatch.Type.String()), mismatch.Value)}
	}
	return invalid(param, "%s", strings.TrimPrefix(err.Error(), "json: "))
}

// unknownName returns a name of an object that is not a field of the struct that into points to, "" if all are fields.
// encoding/json would accept a name in another letter case.
func unknownName(raw json.RawMessage, into any) string {
	var names map[string]json.RawMessage
	if json.Unmarshal(raw, &names) != nil {
		return ""
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if _, ok := FieldOf(reflect.TypeOf(into).Elem(), name); !ok {
			return name
		}
	}
	return ""
}

// plain returns a client's word for a Go type.
func plain(goType string) string {
	switch {
	case strings.Contains(goType, "int"), strings.Contains(goType, "float"):
		return "a number"
	case strings.HasSuffix(goType, "string"):
		return "a string"
	case strings.HasSuffix(goType, "bool"):
		return "a boolean"
	case strings.HasPrefix(goType, "[]"):
		return "an array"
	}
	return "an object"
}

func text(param string, raw json.RawMessage) (string, *Error) {
	var s string
	if first(raw) != '"' || json.Unmarshal(raw, &s) != nil {
		return "", wrongType(param, "a string", raw)
	}
	return s, nil
}

// array reads an array of at most limit values of any type.
func array(param string, raw json.RawMessage, limit int, what string) ([]json.RawMessage, *Error) {
	var list []json.RawMessage
	if first(raw) != '[' || json.Unmarshal(raw, &list) != nil {
		return nil, wrongType(param, "an array", raw)
	}
	if len(list) > limit {
		return nil, tooMany(param, len(list), limit, what)
	}
	return list, nil
}

// texts reads a string, or an array of at most limit of them.
func texts(param string, raw json.RawMessage, limit int, what string) ([]string, *Error) {
	if first(raw) == '"' {
		s, err := text(param, raw)
		if err != nil {
			return nil, err
		}
		return []string{s}, nil
	}
	if first(raw) != '[' {
		return nil, wrongType(param, "a string or an array of strings", raw)
	}
	list, err := array(param, raw, limit, what)
	if err != nil {
		return nil, err
	}
	out := make([]string, len(list))
	for i, one := range list {
		if out[i], err = text(fmt.Sprintf("%s[%d]", param, i), one); err != nil {
			return nil, err
		}
	}
	return out, nil
}
