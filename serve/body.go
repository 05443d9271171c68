package serve

import (
	"bytes"
	"cmp"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"reflect"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/sluice-rag/sluice/rag/retrieve"
	"github.com/sluice-rag/sluice/serve/openai"
)

// maxDepth bounds the nesting of a JSON body.
const maxDepth = 64

// decode reads the JSON body of a request into a value. In addition to encoding/json's errors, it refuses text that is
// not UTF-8, too deep nesting, objects with a repeated name (in any case, as encoding/json reads them), names whose
// case differs from the field's, null in place of an object, and numbers out of their bounds.
func decode(r *http.Request, into any) error {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || kind != "application/json" {
		return &requestError{Status: http.StatusUnsupportedMediaType, Code: "not_json",
			Message: fmt.Sprintf("the body has to be application/json, given %q", r.Header.Get("Content-Type")),
			Hint:    "send the header 'Content-Type: application/json'"}
	}
	body, err := readBody(r)
	if err != nil {
		return err
	}
	if len(bytes.TrimSpace(body)) == 0 {
		return bad("", "the body is empty, a JSON object is wanted")
	}
	return decodeJSON(body, into)
}

// decodeJSON decodes a body, or a part of one, as decode does.
func decodeJSON(body []byte, into any) error {
	if err := checkJSON(body, reflect.TypeOf(into).Elem()); err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(body))
	if err := d.Decode(into); err != nil {
		if wrong := openai.OutOfType(into, err); wrong != nil {
			return wrong
		}
		return asBodyError(err)
	}
	if wrong := openai.CheckNumbers(into); wrong != nil {
		return wrong
	}
	if rest := bytes.Trim(body[d.InputOffset():], " \t\r\n"); len(rest) > 0 { // only JSON's white space
		return bad("", "something follows the JSON value, from byte %d on", d.InputOffset())
	}
	return nil
}

// readBody reads a body within the bound set by receive, unless receive has already read it.
func readBody(r *http.Request) ([]byte, error) {
	if b, ok := r.Body.(received); ok {
		return b.raw, nil
	}
	var b bytes.Buffer
	if n := r.ContentLength; n > 0 {
		b.Grow(int(min(n, 1<<20)) + bytes.MinRead) // a claimed length alone allocates no more than this
	}
	if _, err := b.ReadFrom(r.Body); err != nil {
		return nil, asBodyError(err)
	}
	return b.Bytes(), nil
}

// embedded matches the names of embedded structs, which encoding/json puts before the names of their fields.
var embedded = regexp.MustCompile(`^(queries|Options|askSettings|searchSettings|Sampling|RerankV2Request)\.`)

// asBodyError converts an error of reading or decoding a body to one for the client.
func asBodyError(err error) error {
	var (
		size    *http.MaxBytesError
		types   *json.UnmarshalTypeError
		syntax  *json.SyntaxError
		request *requestError
		slow    interface{ Timeout() bool }
	)
	switch {
	case errors.As(err, &request):
		return request
	case errors.Is(err, retrieve.ErrFilter):
		return err
	case errors.As(err, &size):
		return tooLarge(size.Limit, -1)
	case errors.As(err, &types):
		field := embedded.ReplaceAllString(types.Field, "")
		return bad(field, "%s must be %s, given %s (byte %d)", cmp.Or(field, "the value"), jsonType(types.Type),
			types.Value, types.Offset)
	case errors.As(err, &syntax):
		return bad("", "the body is not JSON: %v (byte %d)", syntax, syntax.Offset)
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return bad("", "the body breaks off")
	case errors.As(err, &slow) && slow.Timeout():
		return &requestError{Status: http.StatusRequestTimeout, Code: "slow_body", cause: err,
			Message: "the body did not arrive in time"}
	}
	return &requestError{Status: http.StatusBadRequest, Message: "the body cannot be read: " + err.Error(), cause: err}
}

// tooLarge returns the error of a body above a limit; given is its length, negative if unknown.
func tooLarge(limit, given int64) error {
	e := &requestError{Status: http.StatusRequestEntityTooLarge, Code: "body_too_large",
		Message: fmt.Sprintf("the body is larger than the limit of %d bytes", limit)}
	if given >= 0 {
		e.Message = fmt.Sprintf("the body has %d bytes, the limit is %d", given, limit)
	}
	return e
}

func jsonType(t reflect.Type) string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch v := reflect.Zero(t); {
	case t.Kind() == reflect.String, reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]()):
		return "a string"
	case t.Kind() == reflect.Bool:
		return "true or false"
	case t.Kind() == reflect.Slice:
		return "a list"
	case v.CanInt(), v.CanUint():
		return "a whole number"
	case v.CanFloat():
		return "a number"
	}
	return "an object"
}

// container is an open object or array of the text.
type container struct {
	names map[string]bool // names of the object so far; nil: an array
	key   bool            // the next string is a name
	of    reflect.Type    // the struct that the object is decoded into; nil: anything
	next  reflect.Type    // the type that the next value is decoded into; nil: anything
}

// contain returns the container that begins with { or [ and is decoded into a type; nil: into anything.
func contain(begin byte, t reflect.Type) (c container) {
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if begin == '{' {
		c.names, c.key = map[string]bool{}, true
	}
	switch {
	case t == nil || t == reflect.TypeFor[json.RawMessage]():
	case begin == '{' && t.Kind() == reflect.Struct:
		c.of = t
	case begin == '[' && t.Kind() == reflect.Slice:
		c.next = t.Elem()
	}
	return c
}

// name checks a name of an object.
func (c *container) name(name string, at int) error {
	folded := strings.ToLower(name)
	if c.names[folded] {
		return bad(name, "an object has the field %q twice (byte %d)", name, at)
	}
	c.names[folded], c.next = true, nil
	if c.of == nil {
		return nil
	}
	f, ok := openai.FieldOf(c.of, name)
	if !ok { // encoding/json would accept "Store" for "store"
		return bad(name, "there is no field %q", shortened(name))
	}
	c.next = f.Type
	return nil
}

// checkJSON checks a text that is decoded into a type for errors that encoding/json does not report. Syntax errors may
// pass, because encoding/json reports them. It blanks the zero fraction of whole numbers such as 4.0, because
// encoding/json does not decode them into integers.
func checkJSON(b []byte, into reflect.Type) error {
	switch {
	case !utf8.Valid(b):
		return bad("", "the body is not UTF-8")
	case string(bytes.TrimSpace(b)) == "null":
		return bad("", "the body is null, a JSON object is wanted")
	}
	var open []container
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case '{', '[':
			if len(open) == maxDepth {
				return bad("", "values lie more than %d deep in each other (byte %d)", maxDepth, i)
			}
			t := into
			if n := len(open); n > 0 {
				t = open[n-1].next
			}
			open = append(open, contain(b[i], t))
		case '}', ']':
			if len(open) > 0 {
				open = open[:len(open)-1]
			}
		case ',':
			if n := len(open); n > 0 {
				open[n-1].key = open[n-1].names != nil
			}
		case '"':
			end := endOfString(b, i)
			if n := len(open); n > 0 && open[n-1].key {
				open[n-1].key = false
				var name string
				if end > len(b) || json.Unmarshal(b[i:end], &name) != nil {
					return nil // encoding/json has a better message
				}
				if err := open[n-1].name(name, i); err != nil {
					return err
				}
			}
			i = end - 1
		case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
			i += whole(b[i:]) - 1
		}
	}
	return nil
}

// whole overwrites a zero fraction of the number at the start of a text with spaces, and returns the number's length.
func whole(b []byte) int {
	n := 1
	for n < len(b) && strings.IndexByte("0123456789+-.eE", b[n]) >= 0 {
		n++
	}
	if at := bytes.IndexByte(b[:n], '.'); at > 0 && at < n-1 && len(bytes.Trim(b[at+1:n], "0")) == 0 {
		copy(b[at:n], bytes.Repeat([]byte{' '}, n-at))
	}
	return n
}

// endOfString returns the position after the closing quote of a string, or one beyond the text if it is not closed.
func endOfString(b []byte, at int) int {
	for i := at + 1; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(b) + 1
}

// bounded limits the size of a request's body and the time to read it.
func bounded(w http.ResponseWriter, r *http.Request, limit int64, within time.Duration) error {
	if r.ContentLength > limit {
		w.Header().Set("Connection", "close") // the unread rest cannot be skipped
		drain(w, r)
		return tooLarge(limit, r.ContentLength)
	}
	if r.Body == nil || r.Body == http.NoBody {
		return nil
	}
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(within)) // fails only for the connections of tests
	r.Body = &timedBody{http.MaxBytesReader(w, r.Body, limit), control}
	return nil
}

// drain reads and discards a body, because many clients read no response before they have sent the whole body, and
// would see a broken connection. A client that waits for permission to send (curl), or would send too much, is answered
// at once.
func drain(w http.ResponseWriter, r *http.Request) {
	const (
		most   = 64 << 20
		within = 5 * time.Second
	)
	if r.ContentLength > most || r.Header.Get("Expect") != "" {
		return
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(within)) // as above
	_, _ = io.Copy(io.Discard, io.LimitReader(r.Body, most))
}

// timedBody removes the read deadline when the body has been read, because net/http keeps reading from the connection
// to notice that the client leaves.
type timedBody struct {
	io.ReadCloser
	control *http.ResponseController
}

func (b *timedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF { //nolint:errorlint // readers return it as it is
		_ = b.control.SetReadDeadline(time.Time{})
	}
	return n, err
}
