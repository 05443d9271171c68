package generate

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
)

// event has the fields used here of a server-sent event of llama-server's /completion. The last event has Stop.
type event struct {
	Content   string `json:"content"`
	Stop      bool   `json:"stop"`
	StopType  string `json:"stop_type"` // eos, limit, word, none
	Predicted int    `json:"tokens_predicted"`
	Evaluated int    `json:"tokens_evaluated"` // tokens of the prompt
	Timings   struct {
		Cached      int     `json:"cache_n"`
		PromptMS    float64 `json:"prompt_ms"`
		PredictedMS float64 `json:"predicted_ms"`
	} `json:"timings"`
	Error *struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
}

// maxEvent is the longest line of a stream, in bytes: the last event repeats prompt and settings.
const maxEvent = 16 << 20

// readEvents calls each with every event of a stream up to the one with Stop. A stream that ends earlier, an event that
// is not JSON, and an error from the server are ErrPeer.
func readEvents(r io.Reader, each func(event)) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 1<<16), maxEvent)
	for lines.Scan() {
		name, value, _ := bytes.Cut(lines.Bytes(), []byte(":"))
		value = bytes.TrimSpace(value)
		failed := string(name) == "error" // how older servers put it
		if string(name) != "data" && !failed || string(value) == "[DONE]" {
			continue // comments are pings; an empty line ends an event, which is one line here
		}
		var e event
		if err := json.Unmarshal(value, &e); err != nil {
			return fmt.Errorf("%w: %s: it streamed %.100q: %w", ErrPeer, LlamaServer, value, err)
		}
		if e.Error != nil || failed {
			return fmt.Errorf("%w: %s: %s", ErrPeer, LlamaServer, reason(value))
		}
		if e.Predicted < 0 || e.Evaluated < 0 || e.Timings.Cached < 0 {
			return fmt.Errorf("%w: %s: it counts less than 0 tokens: %.100q", ErrPeer, LlamaServer, value)
		}
		each(e)
		if e.Stop {
			return nil
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("%w: %s: its stream broke: %w", ErrPeer, LlamaServer, err)
	}
	return fmt.Errorf("%w: %s: its stream ended without a last event", ErrPeer, LlamaServer)
}

// reason returns the message of an error that the server sends, or all of it.
func reason(text []byte) string {
	var e event
	if json.Unmarshal(text, &e) == nil && e.Error != nil && e.Error.Message != "" {
		return e.Error.Message
	}
	return fmt.Sprintf("%.300s", bytes.TrimSpace(text))
}
