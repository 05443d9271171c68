package serve

import (
	"crypto/sha256"
	"io"
	"net/http"
	"strings"
	"sync"

	"github.com/sluice-rag/sluice/llm"
	"github.com/sluice-rag/sluice/serve/keys"
)

// Keys are the API keys of a server.
type Keys struct {
	file   *keys.File
	mu     sync.Mutex
	scopes map[[sha256.Size]byte]*llm.Scope
}

// ReadKeys reads keys that stay as they are (keys.Read). The error wraps keys.ErrFile.
func ReadKeys(r io.Reader) (*Keys, error) {
	list, err := keys.Read(r)
	if err == nil && len(list) == 0 {
		err = keys.ErrNone
	}
	if err != nil {
		return nil, err
	}
	return &Keys{file: keys.Of(list)}, nil
}

// OpenKeys reads a file of keys, whose changes count within a second (keys.Open).
func OpenKeys(path string) (*Keys, error) {
	file, err := keys.Open(path)
	if err != nil {
		return nil, err
	}
	return &Keys{file: file}, nil
}

// key is the key of a request; the zero value, without Keys, may do everything.
type key struct {
	keys.Key
	scope *llm.Scope // prompt scope of its requests: other keys must not learn what they contain; nil without Keys
}

// whole returns an error if the key may not read everything.
func (k key) whole() error {
	if k.Groups == nil {
		return nil
	}
	return &requestError{Status: http.StatusForbidden, Code: "restricted_key",
		Message: "this key reads what its groups may, and changes nothing", Hint: "use a key without groups"}
}

// bases returns the bases that keys name.
func (k *Keys) bases() (names []string) {
	if k != nil {
		list, _ := k.file.List() // the keys that there are
		for _, one := range list {
			names = append(names, one.Bases...)
		}
	}
	return names
}

// scope returns the prompt scope of a key.
func (k *Keys) scope(digest [sha256.Size]byte) *llm.Scope {
	k.mu.Lock()
	defer k.mu.Unlock()
	s := k.scopes[digest]
	if s == nil {
		if k.scopes == nil {
			k.scopes = map[[sha256.Size]byte]*llm.Scope{}
		}
		s = llm.NewScope()
		k.scopes[digest] = s
	}
	return s
}

// of returns the key of a request. Without Keys everything is allowed.
func (k *Keys) of(r *http.Request) (key, error) {
	if k == nil {
		return key{}, nil
	}
	scheme, text, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") { // RFC 9110: case-insensitive
		text = r.Header.Get("X-Api-Key")
	}
	found, ok := k.file.Find(strings.TrimSpace(text))
	if !ok {
		e := &requestError{Status: http.StatusUnauthorized, Code: "invalid_api_key",
			Message: "this API key is not known",
			Hint:    "send 'Authorization: Bearer KEY' with a key of the server's --api-key-file"}
		if text == "" {
			e.Message = "an API key is needed"
		}
		return key{}, e
	}
	return key{found, k.scope(found.Digest)}, nil
}
