//go:build native

package llm

// #include <stdlib.h>
// #include "slc_llm.h"
import "C"

import (
	"fmt"
	"strings"
	"unsafe"
)

// cStrings are C strings to be freed together.
type cStrings []unsafe.Pointer

func (c *cStrings) of(s string) *C.char {
	p := C.CString(s)
	*c = append(*c, unsafe.Pointer(p))
	return p
}

// orNull is of, or NULL of an empty string.
func (c *cStrings) orNull(s string) *C.char {
	if s == "" {
		return nil
	}
	return c.of(s)
}

func (c cStrings) free() {
	for _, p := range c {
		C.free(p)
	}
}

// renderChat formats messages with a template, knowing the tokens at a text's ends from h, which may be nil, and with
// marks by literals, which may be nil. Errors are ErrTemplate. A NUL would end a C string, so it travels as the
// overlong pair that our library uses as well.
func renderChat(h *handle, template string, c chat, l *chatLiterals) (string, error) {
	turns, err := c.turns(l)
	if err != nil {
		return "", err
	}
	tools, err := c.toolsJSON(l)
	if err != nil {
		return "", err
	}
	var texts cStrings
	defer func() { texts.free() }()
	list := (*C.slc_llm_turn)(C.calloc(C.size_t(len(turns)+1), C.sizeof_slc_llm_turn))
	defer C.free(unsafe.Pointer(list))
	for i, t := range turns {
		unsafe.Slice(list, len(turns))[i] = C.slc_llm_turn{
			role:       texts.of(t.role),
			content:    texts.of(escapeNUL(strings.ToValidUTF8(t.content, "\uFFFD"))),
			calls:      texts.orNull(t.calls),
			calls_text: texts.orNull(t.callsText),
			call_id:    texts.orNull(escapeNUL(strings.ToValidUTF8(t.callID, "\uFFFD"))),
			name:       texts.orNull(t.name),
		}
	}
	request := (*C.slc_llm_chat_request)(C.calloc(1, C.sizeof_slc_llm_chat_request))
	defer C.free(unsafe.Pointer(request))
	*request = C.slc_llm_chat_request{tmpl: texts.of(template), turns: list, n: C.size_t(len(turns)),
		tools: texts.orNull(tools), open: C.bool(!c.closed)}
	text, err := h.chat(request)
	// Templates count and cut bytes.
	return strings.ToValidUTF8(unescapeNUL(text), "\uFFFD"), err
}

// chat calls the library. h may be nil.
func (h *handle) chat(request *C.slc_llm_chat_request) (string, error) {
	var state unsafe.Pointer
	if h != nil {
		state = h.state
	}
	var out *C.char
	var reason [512]C.char
	n := C.slc_llm_chat(state, request, &out, &reason[0], C.size_t(len(reason)))
	if n < 0 {
		return "", templateError(C.GoString(&reason[0]))
	}
	defer C.free(unsafe.Pointer(out))
	return C.GoStringN(out, C.int(n)), nil
}

// parseChat looks whether a template parses, or is the name of a built-in one.
func parseChat(template string) error {
	var texts cStrings
	defer func() { texts.free() }()
	request := (*C.slc_llm_chat_request)(C.calloc(1, C.sizeof_slc_llm_chat_request))
	defer C.free(unsafe.Pointer(request))
	*request = C.slc_llm_chat_request{tmpl: texts.of(template), parse_only: true}
	_, err := (*handle)(nil).chat(request)
	return err
}

// specials returns the tokens that the tokenizer finds written out in a text.
func (h *handle) specials() []special {
	var list []special
	var text *C.char
	var defined, end C.bool
	for token := C.slc_llm_special(h.state, 0, &text, &defined, &end); token >= 0; {
		list = append(list, special{int32(token), C.GoString(text), bool(defined), bool(end)})
		token = C.slc_llm_special(h.state, token+1, &text, &defined, &end)
	}
	return list
}

func templateError(reason string) error {
	return fmt.Errorf("llm: %w: %s", ErrTemplate, strings.ToValidUTF8(unescapeNUL(reason), ""))
}
