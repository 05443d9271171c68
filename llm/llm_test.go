package llm

import (
	"encoding/json"
	"errors"
	"math"
	"testing"

	"github.com/sluice-rag/sluice/llm/gguf"
)

func TestRequestCheck(t *testing.T) {
	hello := []Message{{Role: User, Content: "x"}}
	for name, r := range map[string]Request{
		"both":                 {Prompt: "x", Messages: []Message{{Role: User, Content: "x"}}},
		"max tokens":           {MaxTokens: -1},
		"temperature":          {Temperature: -1},
		"temperature NaN":      {Temperature: math.NaN()},
		"top-k":                {TopK: -1},
		"top-p":                {TopP: 1.5},
		"top-p NaN":            {TopP: math.NaN()},
		"min-p":                {MinP: -.1},
		"repeat penalty":       {RepeatPenalty: -1},
		"repeat penalty inf":   {RepeatPenalty: math.Inf(1)},
		"seed":                 {Seed: math.MaxUint32},
		"empty stop":           {Stop: []string{""}},
		"stop with NUL":        {Stop: []string{"a\x00"}},
		"stop that is no text": {Stop: []string{"\xff"}},
		"role":                 {Messages: []Message{{Role: "robot", Content: "x"}}},
		"tools for a prompt":   {Prompt: "x", Tools: []Tool{{Name: "f"}}},
		"name of a tool":       {Messages: hello, Tools: []Tool{{Name: "f g"}}},
		"no name of a tool":    {Messages: hello, Tools: []Tool{{}}},
		"two of a name":        {Messages: hello, Tools: []Tool{{Name: "f"}, {Name: "f"}}},
		"parameters":           {Messages: hello, Tools: []Tool{{Name: "f", Parameters: json.RawMessage(`[]`)}}},
		"choice without tools": {Messages: hello, ToolChoice: ToolsRequired},
		"unknown choice":       {Messages: hello, Tools: []Tool{{Name: "f"}}, ToolChoice: "g"},
		"choice and grammar":   {Messages: hello, Tools: []Tool{{Name: "f"}}, ToolChoice: "f", Grammar: `root ::= "x"`},
		"calls of a user": {Messages: []Message{{Role: User,
			ToolCalls: []ToolCall{{Name: "f", Arguments: "{}"}}}}},
		"arguments": {Messages: []Message{{Role: Assistant,
			ToolCalls: []ToolCall{{Name: "f", Arguments: "x"}}}}},
		"called name":      {Messages: []Message{{Role: Assistant, ToolCalls: []ToolCall{{Arguments: "{}"}}}}},
		"answer of a user": {Messages: []Message{{Role: User, ToolCallID: "1"}}},
	} {
		if err := r.Check(); !errors.Is(err, ErrOptions) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, r := range map[string]Request{
		"zero": {},
		"edges": {Prompt: "x", MaxTokens: math.MaxInt32, Temperature: 100, TopK: 1, TopP: 1, MinP: 1,
			RepeatPenalty: 100, Seed: MaxSeed, Stop: []string{"é"}},
		"random seed": {Seed: -1},
		"tools": {Messages: append(hello, Message{Role: Assistant, ToolCalls: []ToolCall{{"1", "f", " {}"}}},
			Message{Role: ToolRole, Content: "1", ToolCallID: "1"}), Tools: []Tool{{Name: "f"}}, ToolChoice: "f"},
	} {
		if err := r.Check(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestOptions(t *testing.T) {
	info := gguf.Model{Name: "m", ContextTrained: 8192}
	o, err := Options{}.withDefaults(info)
	if err != nil {
		t.Fatal(err)
	}
	if o.ContextSize != 4096 || o.CacheTokens != 4096 || o.Slots != 4 || o.BatchSize != 64 || o.Threads < 1 ||
		o.Logger == nil {
		t.Errorf("defaults: %+v", o)
	}
	if o, err := (Options{}).withDefaults(gguf.Model{ContextTrained: 40}); err != nil || o.ContextSize != 40 ||
		o.BatchSize != 40 {
		t.Errorf("small model: %+v, %v", o, err)
	}
	for name, o := range map[string]Options{
		"context":          {ContextSize: 8193},
		"negative context": {ContextSize: -1},
		"tiny context":     {ContextSize: 1},
		"slots":            {Slots: 65},
		"negative slots":   {Slots: -1},
		"cache":            {ContextSize: 1024, CacheTokens: 1000},
		"huge cache":       {CacheTokens: math.MaxInt32},
		"batch":            {BatchSize: 4096},
		"batch < slots":    {BatchSize: 2, Slots: 4},
		"negative batch":   {BatchSize: -1},
		"threads":          {Threads: 513},
		"negative threads": {Threads: -2},
		"gpu layers":       {GPULayers: -1},
	} {
		if _, err := o.withDefaults(info); !errors.Is(err, ErrOptions) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestPromptTooLongError(t *testing.T) {
	err := error(&PromptTooLongError{Tokens: 5000, Limit: 4095})
	if !errors.Is(err, ErrPromptTooLong) {
		t.Error("does not unwrap")
	}
	if want := "llm: prompt too long: it has 5000 tokens, at most 4095 fit; shorten it or open the model with a " +
		"larger context"; err.Error() != want {
		t.Error(err)
	}
}
