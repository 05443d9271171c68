package mcp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sluice-rag/sluice/internal/panics"
)

// maxMessage is the most bytes of a message on standard input.
const maxMessage = 8 << 20

// Stdio serves the protocol over a pair of streams, a message a line, until in ends or ctx does. What is not a message
// is answered with an error, and the session goes on.
func Stdio(ctx context.Context, o Options, in io.Reader, out io.Writer) error {
	pipe, feed := io.Pipe()
	answers := &lockedWriter{to: out}
	lines := make(chan error, 1)
	go func() {
		err := panics.Call(func() error { return copyMessages(feed, in, answers) })
		_ = feed.CloseWithError(err) // a nil error ends the session
		lines <- err
	}()
	err := New(o).Run(ctx, &patient{over: &sdk.IOTransport{Reader: pipe, Writer: answers, MaxLineLength: -1}})
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrClosedPipe) {
		err = nil
	}
	select {
	case failed := <-lines:
		return errors.Join(err, failed)
	default: // the reader waits for input that does not matter any more
		return err
	}
}

// patient is a transport whose sessions end after the last call has been answered, not with the input: the library of
// the protocol would drop the answers. It serves one session.
type patient struct {
	over sdk.Transport
	sdk.Connection

	mu       sync.Mutex
	calls    map[jsonrpc.ID]bool // that have no answer yet
	answered chan struct{}       // holds a token after an answer
}

// Connect implements sdk.Transport.
func (p *patient) Connect(ctx context.Context) (_ sdk.Connection, err error) {
	p.calls, p.answered = map[jsonrpc.ID]bool{}, make(chan struct{}, 1)
	p.Connection, err = p.over.Connect(ctx)
	return p, err
}

// Read implements sdk.Connection.
func (p *patient) Read(ctx context.Context) (jsonrpc.Message, error) {
	m, err := p.Connection.Read(ctx)
	if err != nil {
		for p.waits() {
			select {
			case <-p.answered:
			case <-ctx.Done():
				return m, err
			}
		}
		return m, err
	}
	r, ok := m.(*jsonrpc.Request)
	switch {
	case ok && r.IsCall():
		p.mu.Lock()
		p.calls[r.ID] = true
		p.mu.Unlock()
	case ok && r.Method == "notifications/cancelled": // nobody waits for its answer
		var of struct{ RequestID any }
		if json.Unmarshal(r.Params, &of) == nil {
			if id, err := jsonrpc.MakeID(of.RequestID); err == nil {
				p.end(id)
			}
		}
	}
	return m, nil
}

// Write implements sdk.Connection.
func (p *patient) Write(ctx context.Context, m jsonrpc.Message) error {
	err := p.Connection.Write(ctx, m)
	if r, ok := m.(*jsonrpc.Response); ok {
		p.end(r.ID)
	}
	return err
}

// waits reports whether a call has no answer yet.
func (p *patient) waits() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.calls) > 0
}

// end marks a call as answered.
func (p *patient) end(id jsonrpc.ID) {
	p.mu.Lock()
	delete(p.calls, id)
	p.mu.Unlock()
	select {
	case p.answered <- struct{}{}:
	default:
	}
}

type lockedWriter struct {
	mu sync.Mutex
	to io.Writer
}

func (w *lockedWriter) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.to.Write(b)
}

func (w *lockedWriter) Close() error { return nil }

// copyMessages copies the lines of in that are messages to a session, and answers others with an error: the library of
// the protocol would end the session.
func copyMessages(to io.Writer, in io.Reader, answers io.Writer) error {
	lines := bufio.NewReaderSize(in, 64<<10)
	for {
		line, length, err := readLine(lines)
		if err != nil && (!errors.Is(err, io.EOF) || length == 0) {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return fmt.Errorf("the input cannot be read: %w", err)
		}
		var wrong error
		switch {
		case length > maxMessage:
			wrong = notOne(jsonrpc.CodeInvalidRequest, "the message has %d bytes, the limit is %d", length, maxMessage)
		case len(bytes.TrimSpace(line)) == 0:
			continue
		default:
			wrong = checkMessage(line)
		}
		if wrong == nil {
			_, wrong = to.Write(append(line, '\n'))
			if wrong != nil {
				return nil // the session has ended
			}
			continue
		}
		if _, err := answers.Write(append(ErrorBody(wrong), '\n')); err != nil {
			return fmt.Errorf("the output cannot be written: %w", err)
		}
	}
}

// readLine returns a line without its end, and its length. Of a line that is too long it keeps nothing.
func readLine(r *bufio.Reader) (line []byte, length int, err error) {
	for {
		part, err := r.ReadSlice('\n')
		end := err == nil
		part = bytes.TrimSuffix(part, []byte{'\n'})
		if length += len(part); length <= maxMessage {
			line = append(line, part...)
		} else {
			line = nil
		}
		if end || !errors.Is(err, bufio.ErrBufferFull) {
			return line, length, err
		}
	}
}

// checkMessage returns a *jsonrpc.Error for a text that is not one message.
func checkMessage(text []byte) error {
	if i := invalidAt(text); i >= 0 {
		return notOne(jsonrpc.CodeParseError, "the message is not UTF-8: byte %d is %#02x", i, text[i])
	}
	text = bytes.TrimSpace(text)
	switch {
	case len(text) == 0:
		return notOne(jsonrpc.CodeInvalidRequest, "the message is empty")
	case text[0] == '[':
		return notOne(jsonrpc.CodeInvalidRequest, "a batch of messages is not served: send them one by one")
	case !json.Valid(text):
		var any json.RawMessage
		return notOne(jsonrpc.CodeParseError, "the message is not JSON: %v", json.Unmarshal(text, &any))
	}
	if _, err := jsonrpc.DecodeMessage(text); err != nil {
		return notOne(jsonrpc.CodeInvalidRequest, "this is not a message of JSON-RPC 2.0: %v", err)
	}
	return nil
}

// invalidAt returns the position of the first byte that is not UTF-8, -1 if there is none.
func invalidAt(text []byte) int {
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRune(text[i:])
		if r == utf8.RuneError && n == 1 {
			return i
		}
		i += n
	}
	return -1
}

// ErrorBody returns the response to an error outside of a call: it names no call.
func ErrorBody(err error) []byte {
	var known *jsonrpc.Error
	if !errors.As(err, &known) {
		known = notOne(jsonrpc.CodeInternalError, "%v", err)
	}
	body, failed := json.Marshal(struct {
		Version string         `json:"jsonrpc"`
		ID      any            `json:"id"`
		Error   *jsonrpc.Error `json:"error"`
	}{"2.0", nil, known})
	if failed != nil { // the data of an error is JSON
		return []byte(`{"jsonrpc":"2.0","id":null,"error":{"code":-32603,"message":"unwritable error"}}`)
	}
	return body
}
