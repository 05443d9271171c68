package serve

import (
	"bufio"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/sluice-rag/sluice/llm"
)

// ErrKeys is wrapped by ReadKeys's errors about a file.
var ErrKeys = errors.New("serve: bad file of keys")

// minKey is the least length of a key, against guessing.
const minKey = 16

// Keys holds the API keys of a server, as digests.
type Keys struct{ list []key }

type key struct {
	digest [sha256.Size]byte
	bases  []string   // bases that the key may use; nil: all
	groups []string   // that its user belongs to, sorted; nil: the key may read everything, and change it
	scope  *llm.Scope // prompt scope of its requests: other keys must not learn what they contain; nil without Keys
}

// groupsWord begins a word of a line that names groups, "groups=a,b".
const groupsWord = "groups="

// ReadKeys reads one key per line, followed by the names of the knowledge bases that it may use; without names it may
// use all. A word groups=A,B gives the key the documents that are for everybody or for one of these groups, as if the
// bases held nothing else, and it changes nothing then; groups= alone gives it what is for everybody. Empty lines and
// lines that begin with # are skipped. ErrKeys names the line of a mistake, never the key.
func ReadKeys(r io.Reader) (*Keys, error) {
	k := &Keys{}
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		words := strings.Fields(lines.Text())
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		if len(words[0]) < minKey {
			return nil, fmt.Errorf("%w: the key of line %d has %d characters, at least %d are needed "+
				"('openssl rand -hex 24' makes one)", ErrKeys, n, len(words[0]), minKey)
		}
		one := key{digest: sha256.Sum256([]byte(words[0])), scope: llm.NewScope()}
		for _, word := range words[1:] {
			list, ok := strings.CutPrefix(word, groupsWord)
			switch {
			case !ok:
				one.bases = append(one.bases, word)
			case one.groups != nil:
				return nil, fmt.Errorf("%w: line %d names groups twice", ErrKeys, n)
			default:
				one.groups = groupsOf(list)
			}
		}
		if slices.ContainsFunc(k.list, func(x key) bool { return x.digest == one.digest }) {
			return nil, fmt.Errorf("%w: the key of line %d is there twice", ErrKeys, n)
		}
		k.list = append(k.list, one)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrKeys, err)
	}
	if len(k.list) == 0 {
		return nil, fmt.Errorf("%w: it holds none", ErrKeys)
	}
	return k, nil
}

// groupsOf reads a list of groups, which is not nil.
func groupsOf(list string) []string {
	groups := slices.DeleteFunc(strings.Split(list, ","), func(g string) bool { return g == "" })
	slices.Sort(groups)
	return slices.Compact(groups)
}

// whole returns an error if the key may not read everything.
func (k key) whole() error {
	if k.groups == nil {
		return nil
	}
	return &requestError{Status: http.StatusForbidden, Code: "restricted_key",
		Message: "this key reads what its groups may, and changes nothing", Hint: "use a key without groups"}
}

// bases returns the bases that keys name.
func (k *Keys) bases() (names []string) {
	if k != nil {
		for _, one := range k.list {
			names = append(names, one.bases...)
		}
	}
	return names
}

// find returns the key with a text, in constant time.
func (k *Keys) find(text string) (key, bool) {
	digest, at := sha256.Sum256([]byte(text)), -1
	for i := range k.list {
		if subtle.ConstantTimeCompare(digest[:], k.list[i].digest[:]) == 1 {
			at = i
		}
	}
	if at < 0 {
		return key{}, false
	}
	return k.list[at], true
}

// may reports whether the key may use a base.
func (k key) may(base string) bool { return len(k.bases) == 0 || slices.Contains(k.bases, base) }

// of returns the key of a request. Without Keys everything is allowed.
func (k *Keys) of(r *http.Request) (key, error) {
	if k == nil {
		return key{}, nil
	}
	scheme, text, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") { // RFC 9110: case-insensitive
		text = r.Header.Get("X-Api-Key")
	}
	found, ok := k.find(strings.TrimSpace(text))
	if !ok {
		e := &requestError{Status: http.StatusUnauthorized, Code: "invalid_api_key",
			Message: "this API key is not known",
			Hint:    "send 'Authorization: Bearer KEY' with a key of the server's --api-key-file"}
		if text == "" {
			e.Message = "an API key is needed"
		}
		return key{}, e
	}
	return found, nil
}
