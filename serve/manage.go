package serve

import (
	"errors"
	"net/http"
	"time"

	"github.com/sluice-rag/sluice/serve/keys"
)

// keyInfo is a key as the routes for keys show it, without the key.
type keyInfo struct {
	Name    string     `json:"name"`
	Bases   []string   `json:"bases"`  // null: all
	Groups  []string   `json:"groups"` // null: it reads everything, and may change it
	Expires *time.Time `json:"expires,omitempty"`
	Expired bool       `json:"expired,omitempty"`
}

// keyList is the response of GET /v1/keys.
type keyList struct {
	Keys []keyInfo `json:"keys"`
}

// newKey is the body of POST /v1/keys.
type newKey struct {
	Name   string   `json:"name"`
	Bases  []string `json:"bases"`                // none: all
	Groups []string `json:"groups"`               // absent: it reads everything, and may change it
	Days   int      `json:"days" bounds:"0,3650"` // after which it expires; 0: never
}

// keyMade is the response to a new key, the only one that has it.
type keyMade struct {
	Name string `json:"name"`
	Key  string `json:"key"`
}

// keyRotation is the body of POST /v1/keys/{name}/rotate.
type keyRotation struct {
	Hours int `json:"hours" bounds:"0,8760"` // for which the earlier key is still valid
}

// keyFile returns the file of keys for a request whose key may do everything.
func (s *Server) keyFile(r *http.Request) (*keys.File, error) {
	switch {
	case s.cfg.Keys == nil || s.cfg.Keys.file.Path() == "":
		return nil, &requestError{Status: http.StatusNotFound, Code: "no_keys",
			Message: "this server has no file of keys", Hint: "it was started without --api-key-file"}
	case !keyOf(r.Context()).Manages():
		return nil, &requestError{Status: http.StatusForbidden, Code: "restricted_key",
			Message: "keys are managed with a key for all knowledge bases and without groups"}
	}
	return s.cfg.Keys.file, nil
}

// keyError returns an error about keys as a response.
func keyError(err error) error {
	if errors.Is(err, keys.ErrName) || errors.Is(err, keys.ErrFile) {
		return bad("name", "%v", err)
	}
	return err
}

func (s *Server) listKeys(w http.ResponseWriter, r *http.Request) error {
	file, err := s.keyFile(r)
	if err != nil {
		return err
	}
	list, err := file.List()
	if err != nil {
		return err
	}
	out := keyList{Keys: []keyInfo{}}
	for _, k := range list {
		one := keyInfo{Name: k.Name, Bases: k.Bases, Groups: k.Groups, Expired: k.Expired(time.Now())}
		if !k.Expires.IsZero() {
			one.Expires = &k.Expires
		}
		out.Keys = append(out.Keys, one)
	}
	return writeJSON(w, http.StatusOK, out)
}

func (s *Server) addKey(w http.ResponseWriter, r *http.Request, in *newKey) error {
	file, err := s.keyFile(r)
	if err != nil {
		return err
	}
	for _, name := range in.Bases {
		if s.bases[name] == nil {
			return bad("bases", "there is no knowledge base %q", shortened(name))
		}
	}
	k := keys.Key{Name: in.Name, Groups: in.Groups}
	if len(in.Bases) > 0 {
		k.Bases = in.Bases
	}
	if in.Days > 0 {
		k.Expires = time.Now().Add(time.Duration(in.Days) * 24 * time.Hour).UTC().Truncate(time.Second)
	}
	text, err := file.Add(k)
	if err != nil {
		return keyError(err)
	}
	return writeJSON(w, http.StatusCreated, keyMade{in.Name, text})
}

// rotateKey answers POST /v1/keys/{name}/rotate.
func (s *Server) rotateKey(w http.ResponseWriter, r *http.Request, in *keyRotation) error {
	file, err := s.keyFile(r)
	if err != nil {
		return err
	}
	name := r.PathValue("name")
	text, err := file.Rotate(name, time.Now().Add(time.Duration(in.Hours)*time.Hour))
	if err != nil {
		return keyError(err)
	}
	return writeJSON(w, http.StatusCreated, keyMade{name, text})
}

// removeKey answers DELETE /v1/keys/{name}.
func (s *Server) removeKey(w http.ResponseWriter, r *http.Request) error {
	file, err := s.keyFile(r)
	if err != nil {
		return err
	}
	if err := file.Remove(r.PathValue("name")); err != nil {
		return keyError(err)
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}
