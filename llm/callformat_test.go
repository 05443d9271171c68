package llm

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-rag/sluice/llm/grammar"
)

// template renders conversations by a function for a call.
func template(call func(name string, keys, values []string) string) func(chat) (string, error) {
	return func(c chat) (string, error) {
		var b strings.Builder
		for _, t := range c.tools {
			b.WriteString("(" + t.Name + ")")
		}
		for _, m := range c.messages {
			fmt.Fprintf(&b, "<|%s|>\n%s", m.Role, m.Content)
			for _, k := range m.ToolCalls {
				var arguments map[string]any
				if err := json.Unmarshal([]byte(k.Arguments), &arguments); err != nil {
					return "", err
				}
				var keys, values []string
				for _, key := range []string{probeKey, probeKey2} {
					if v, ok := arguments[key]; ok {
						keys, values = append(keys, key), append(values, fmt.Sprint(v))
					}
				}
				b.WriteString(call(k.Name, keys, values))
			}
			b.WriteString("<|end|>\n")
		}
		return b.String(), nil
	}
}

// each writes parameters one by one.
func each(keys, values []string, begin, middle, end string) string {
	var b strings.Builder
	for i := range keys {
		b.WriteString(begin + keys[i] + middle + values[i] + end)
	}
	return b.String()
}

func TestCallFormat(t *testing.T) {
	for name, c := range map[string]struct {
		call func(name string, keys, values []string) string
		want grammar.Format
	}{
		"parameters": {func(name string, keys, values []string) string {
			return "<call>\n<f=" + name + ">\n" + each(keys, values, "<p=", ">", "</p>\n") + "</f>\n</call>"
		}, grammar.Format{Trigger: "<call>", First: "<call>\n<f=", Next: ">\n</f>\n</call><call>\n<f=",
			Last: ">\n</f>\n</call>", Parameters: &grammar.Parameters{Begin: ">\n<p=", Middle: ">", End: "</p"}}},
		"quotes": {func(name string, keys, values []string) string {
			text := "<call>" + name + "("
			for i, v := range values {
				if v != "7" {
					v = "'" + v + "'"
				}
				text += map[bool]string{true: "", false: ", "}[i == 0] + keys[i] + "=" + v
			}
			return text + ")</call>"
		}, grammar.Format{Trigger: "<call>", First: "<call>", Middle: "(", Next: ")</call><call>", Last: ")</call>",
			Parameters: &grammar.Parameters{Middle: "=", Between: ", ", Quote: "'"}}},
		// the ends of both characters before a key are one byte
		"characters": {func(name string, keys, values []string) string {
			text := "<call>" + name + "é"
			for i := range keys {
				text += map[bool]string{true: "", false: "ũ"}[i == 0] + keys[i] + ":" + values[i] + "</p>"
			}
			return text + "</call>"
		}, grammar.Format{}},
		"nothing before keys": {func(name string, keys, values []string) string {
			return "<call>" + name + each(keys, values, "", "=", "</p>") + "</call>"
		}, grammar.Format{}},
		"nothing after values": {func(name string, keys, values []string) string {
			return "<call>" + name + each(keys, values, " ", "=", "") + "</call>"
		}, grammar.Format{}},
		"words": {func(name string, keys, values []string) string {
			return "call " + name + each(keys, values, "<p>", "=", "</p>")
		}, grammar.Format{}},
		"long trigger": {func(name string, keys, values []string) string {
			return "<" + strings.Repeat("call", 100) + ">" + name + each(keys, values, "<p=", ">", "</p>") + "</call>"
		}, grammar.Format{}},
		"long end": {func(name string, keys, values []string) string {
			return "<call>" + name + each(keys, values, "<p=", ">", "</"+strings.Repeat("p", 1000)+">") + "</call>"
		}, grammar.Format{}},
		"no arguments": {func(name string, _, _ []string) string {
			return "<call>" + name + "</call>"
		}, grammar.Format{}},
		"no name": {func(string, []string, []string) string { return "<call>{}</call>" }, grammar.Format{}},
		"nothing": {func(string, []string, []string) string { return "" }, grammar.Format{}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := callFormat(template(c.call), []string{"<|end|>"})
			if c.want.Trigger == "" {
				if !errors.Is(err, ErrTools) {
					t.Errorf("%+v, %v", got, err)
				}
				return
			}
			if diff := cmp.Diff(c.want, got); diff != "" || err != nil {
				t.Error(diff, err)
			}
		})
	}
}

// Whatever a template makes of the probe, there is no panic.
func FuzzCallFormat(f *testing.F) {
	f.Add("<call>", "é", "ũ", "</p>", "")
	f.Add("[C][{\"name\": \"", "\", \"arguments\": ", "", "", "}]")
	f.Add("\x01", "\xef\xb7", "<", ">", "\n")
	f.Add("<call>", "", "=", ", ", ")")
	f.Fuzz(func(t *testing.T, first, before, middle, end, last string) {
		got, err := callFormat(template(func(name string, keys, values []string) string {
			return strings.ToValidUTF8(first+name+each(keys, values, before, middle, end)+last, "?")
		}), []string{"<|end|>", end})
		if err != nil && !errors.Is(err, ErrTools) {
			t.Fatal(err)
		}
		if err == nil {
			_, _ = grammar.FromCalls(got, []grammar.Function{{Name: "f", Schema: []byte(
				`{"type": "object", "properties": {"a": {"type": "string"}}}`)}}, false)
			newCallReader(got, false, "", nil).finish(first + "f" + before + "a" + middle + "x" + end + last)
		}
	})
}
