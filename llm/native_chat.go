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

// renderChat formats messages with a template, knowing the tokens at a text's ends from h, unless it is empty, and with
// marks by literals, which may be nil. Errors are ErrTemplate. A NUL would end a C string, so it travels as the
// overlong pair that our library uses as well.
func renderChat(h *handle, template string, c chat, l *chatLiterals) (string, error) {
	tools, err := c.toolsJSON(l)
	if err != nil {
		return "", err
	}
	variables, err := plainJSON(c.variables)
	if err != nil {
		return "", err
	}
	var mem cMemory
	defer mem.free()
	list := allocate[C.slc_llm_turn](&mem, len(c.messages))
	names := map[string]string{} // of calls by their id
	for i, m := range c.messages {
		t := &list[i]
		t.role = mem.text(string(m.Role))
		t.content = mem.text(escapeNUL(strings.ToValidUTF8(l.content(m), "\uFFFD")))
		t.call_id = mem.orNull(escapeNUL(strings.ToValidUTF8(m.ToolCallID, "\uFFFD")))
		if m.Role == ToolRole {
			t.name = mem.orNull(names[m.ToolCallID])
		}
		if len(m.ToolCalls) > 0 {
			objects, texts, err := callsJSON(m.ToolCalls, l)
			if err != nil {
				return "", err
			}
			t.calls, t.calls_text = mem.text(objects), mem.text(texts)
		}
		for _, call := range m.ToolCalls {
			names[call.ID] = call.Name
		}
	}
	request := &allocate[C.slc_llm_chat_request](&mem, 1)[0]
	*request = C.slc_llm_chat_request{tmpl: mem.text(template), turns: unsafe.SliceData(list), n: C.size_t(len(list)),
		tools: mem.orNull(tools), variables: mem.text(string(variables)), open: C.bool(!c.closed)}
	text, err := h.chat(request)
	// Templates count and cut bytes.
	return strings.ToValidUTF8(unescapeNUL(text), "\uFFFD"), err
}

// chat calls the library. h may be empty.
func (h *handle) chat(request *C.slc_llm_chat_request) (string, error) {
	var out *C.char
	var reason [512]C.char
	n := C.slc_llm_chat(h.state, request, &out, &reason[0], C.size_t(len(reason)))
	if n < 0 {
		return "", fmt.Errorf("llm: %w: %s", ErrTemplate, strings.ToValidUTF8(unescapeNUL(C.GoString(&reason[0])), ""))
	}
	defer C.free(unsafe.Pointer(out))
	return C.GoStringN(out, C.int(n)), nil
}

// parseChat looks whether a template parses, or is the name of a built-in one.
func parseChat(template string) error {
	var mem cMemory
	defer mem.free()
	request := &allocate[C.slc_llm_chat_request](&mem, 1)[0]
	request.tmpl, request.parse_only = mem.text(template), true
	_, err := new(handle).chat(request)
	return err
}

// specials returns the tokens that the tokenizer finds written out in a text.
func (h *handle) specials() []special {
	var list []special
	var text *C.char
	var defined, end C.bool
	for token := C.slc_llm_special(h.state, 0, &text, &defined, &end); token >= 0; {
		list = append(list, special{C.GoString(text), bool(defined), bool(end)})
		token = C.slc_llm_special(h.state, token+1, &text, &defined, &end)
	}
	return list
}
