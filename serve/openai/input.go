package openai

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
)

const maxInputTokens = 1 << 16

// Input is a text for a model, or tokens of the model's own vocabulary.
type Input struct {
	Text   string
	Tokens []int32 // nil: Text
}

// inputs reads a string, an array of tokens, or an array of at most limit strings or arrays of tokens. None of them may
// be empty.
func inputs(param string, raw json.RawMessage, limit int, what string) ([]Input, *Error) {
	if !given(raw) {
		return nil, missing(param)
	}
	if first(raw) == '"' {
		s, err := text(param, raw)
		if err == nil && s == "" {
			err = empty(param)
		}
		return []Input{{Text: s}}, err
	}
	if first(raw) != '[' {
		return nil, wrongType(param, "a string, an array of strings, or tokens", raw)
	}
	if one := inside(raw); kind(one) == "a number" {
		list, err := tokens(param, raw)
		return []Input{{Tokens: list}}, err
	}
	list, err := array(param, raw, limit, what)
	if err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, empty(param)
	}
	out := make([]Input, len(list))
	for i, one := range list {
		at := fmt.Sprintf("%s[%d]", param, i)
		if first(one) == '[' {
			out[i].Tokens, err = tokens(at, one)
		} else if out[i].Text, err = text(at, one); err == nil && out[i].Text == "" {
			err = empty(at)
		}
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

func empty(param string) *Error { return invalid(param, "it is empty") }

// inside returns what follows the bracket of an array.
func inside(raw json.RawMessage) json.RawMessage { return bytes.TrimSpace(raw)[1:] }

func tokens(param string, raw json.RawMessage) ([]int32, *Error) {
	var list []int32
	if err := json.Unmarshal(raw, &list); err != nil {
		if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			return nil, &Error{Code: CodeType, Param: param, Message: fmt.Sprintf(
				"%s: tokens are whole numbers from 0 to %d, given %s", param, math.MaxInt32, wrong.Value)}
		}
		return nil, wrongType(param, "an array of tokens", raw)
	}
	switch {
	case len(list) == 0:
		return nil, empty(param)
	case bytes.ContainsAny(raw, "n-"): // null is 0 to encoding/json
		return nil, &Error{Code: CodeType, Param: param,
			Message: fmt.Sprintf("%s: tokens are whole numbers from 0 to %d", param, math.MaxInt32)}
	}
	if len(list) > maxInputTokens {
		return nil, tooMany(param, len(list), maxInputTokens, "tokens")
	}
	return list, nil
}
