package openai

import (
	"bytes"
	"encoding/json"
	"net/http"
)

// Stream writes server-sent events and flushes each. Nothing is written before the first one, so that the request can
// still fail with its own status.
type Stream struct {
	w      http.ResponseWriter
	flush  func() error
	begun  bool
	buffer bytes.Buffer
	encode *json.Encoder
}

// NewStream returns a Stream to a client.
func NewStream(w http.ResponseWriter) *Stream {
	s := &Stream{w: w, flush: http.NewResponseController(w).Flush}
	s.encode = json.NewEncoder(&s.buffer)
	s.encode.SetEscapeHTML(false)
	return s
}

// Begun reports whether the status has been sent.
func (s *Stream) Begun() bool { return s.begun }

// Send writes an event with a value as JSON.
func (s *Stream) Send(v any) error {
	s.buffer.Reset()
	s.buffer.WriteString("data: ")
	if err := s.encode.Encode(v); err != nil { // it ends the line
		return err
	}
	s.buffer.WriteByte('\n')
	return s.write()
}

// Done writes the event that ends a stream in OpenAI's API. A stream without it was aborted.
func (s *Stream) Done() error {
	s.buffer.Reset()
	s.buffer.WriteString("data: [DONE]\n\n")
	return s.write()
}

func (s *Stream) write() error {
	if !s.begun {
		s.begun = true
		h := s.w.Header()
		h.Set("Content-Type", "text/event-stream; charset=utf-8")
		h.Set("Cache-Control", "no-store")
		h.Set("X-Accel-Buffering", "no") // nginx would buffer events
		s.w.WriteHeader(http.StatusOK)
	}
	if _, err := s.w.Write(s.buffer.Bytes()); err != nil {
		return err
	}
	return s.flush()
}
