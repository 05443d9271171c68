// Package keys holds the API keys of a server: which knowledge bases a key is for, what its user may read of them, and
// until when. A file of keys has one a line; it is edited by this package or by hand, and a running server sees the
// change.
package keys

import (
	"bufio"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"
)

var (
	// ErrFile is wrapped by errors about a file of keys.
	ErrFile = errors.New("bad file of keys")
	// ErrNone: there is no key, so that nobody could be let in.
	ErrNone = fmt.Errorf("%w: it holds none ('sluice keys add' makes one)", ErrFile)
	// ErrName is wrapped by errors about the name of a key that does not exist, exists already, or cannot be one.
	ErrName = errors.New("bad name of a key")
)

// minimum is the least length of a key, against guessing.
const minimum = 16

// The words behind a key in its line.
const (
	digestWord  = "sha256:"
	nameWord    = "name="
	groupsWord  = "groups="
	expiresWord = "expires="
)

// Key is an API key, of which only the digest is known.
type Key struct {
	Name    string // "" for a key that was written by hand without one
	Digest  [sha256.Size]byte
	Bases   []string  // knowledge bases that it is for; nil: all
	Groups  []string  // that its user belongs to, sorted; nil: it reads everything, and may change it
	Expires time.Time // zero: never
}

// Manages reports whether the key may do everything, with other keys as well.
func (k Key) Manages() bool { return k.Bases == nil && k.Groups == nil }

// May reports whether the key is for a base.
func (k Key) May(base string) bool { return len(k.Bases) == 0 || slices.Contains(k.Bases, base) }

// Expired reports whether the key has ended.
func (k Key) Expired(now time.Time) bool { return !k.Expires.IsZero() && !now.Before(k.Expires) }

// Read reads one key a line, and what it is for behind it: names of knowledge bases (none: all), groups=A,B (it reads
// what is for everybody or for one of these groups, and changes nothing; groups= alone: what is for everybody), name=N
// and expires=TIME (RFC 3339). Instead of the key, sha256:HEX may stand, its digest. Empty lines and lines that begin
// with # are skipped. ErrFile names the line of a mistake, never the key.
func Read(r io.Reader) ([]Key, error) {
	list := []Key{}
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		words := strings.Fields(lines.Text())
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		one, err := parse(words)
		switch {
		case err != nil:
			return nil, fmt.Errorf("%w: line %d: %w", ErrFile, n, err)
		case slices.ContainsFunc(list, func(x Key) bool { return x.Digest == one.Digest }):
			return nil, fmt.Errorf("%w: the key of line %d is there twice", ErrFile, n)
		case one.Name != "" && slices.ContainsFunc(list, func(x Key) bool { return x.Name == one.Name }):
			return nil, fmt.Errorf("%w: the name %q of line %d is there twice", ErrFile, one.Name, n)
		}
		list = append(list, one)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFile, err)
	}
	return list, nil
}

func parse(words []string) (k Key, err error) {
	if text, ok := strings.CutPrefix(words[0], digestWord); ok {
		raw, err := hex.DecodeString(text)
		if err != nil || len(raw) != len(k.Digest) {
			return k, fmt.Errorf("%s needs %d hexadecimal digits", digestWord, 2*len(k.Digest))
		}
		k.Digest = [sha256.Size]byte(raw)
	} else {
		if len(words[0]) < minimum {
			return k, fmt.Errorf("the key has %d characters, at least %d are needed ('sluice keys add' makes one)",
				len(words[0]), minimum)
		}
		k.Digest = sha256.Sum256([]byte(words[0]))
	}
	given := map[string]bool{}
	for _, word := range words[1:] {
		at := strings.IndexByte(word, '=') + 1
		if at > 0 && given[word[:at]] {
			return k, fmt.Errorf("%s is there twice", word[:at])
		}
		given[word[:at]] = true
		switch text := word[at:]; word[:at] {
		case "":
			k.Bases = append(k.Bases, word)
		case nameWord:
			k.Name, err = text, checkName(text)
		case groupsWord:
			k.Groups = Groups(text)
		case expiresWord:
			if k.Expires, err = time.Parse(time.RFC3339, text); err != nil {
				err = fmt.Errorf("%s needs a time such as 2027-01-31T00:00:00Z, given %.40q", expiresWord, text)
			}
		default:
			err = fmt.Errorf("%.40q is unknown", word[:at])
		}
		if err != nil {
			return k, err
		}
	}
	return k, nil
}

// Groups reads a list of groups with commas between; it is not nil.
func Groups(text string) []string {
	groups := slices.DeleteFunc(strings.Split(text, ","), func(g string) bool { return g == "" })
	slices.Sort(groups)
	return slices.Compact(groups)
}

var names = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._@-]{0,63}$`)

func checkName(name string) error {
	if !names.MatchString(name) {
		return fmt.Errorf("%w: %.80q: letters, digits, '.', '_', '@' and '-' only, at most 64", ErrName, name)
	}
	return nil
}

// line writes a key as Read reads it.
func (k Key) line() string {
	words := []string{digestWord + hex.EncodeToString(k.Digest[:])}
	words = append(words, k.Bases...)
	if k.Name != "" {
		words = append(words, nameWord+k.Name)
	}
	if k.Groups != nil {
		words = append(words, groupsWord+strings.Join(k.Groups, ","))
	}
	if !k.Expires.IsZero() {
		words = append(words, expiresWord+k.Expires.UTC().Format(time.RFC3339))
	}
	return strings.Join(words, " ")
}

// find returns the key with a text, in constant time.
func find(list []Key, text string) (Key, bool) {
	digest, at := sha256.Sum256([]byte(text)), -1
	for i := range list {
		if subtle.ConstantTimeCompare(digest[:], list[i].Digest[:]) == 1 {
			at = i
		}
	}
	if at < 0 {
		return Key{}, false
	}
	return list[at], true
}

func draw() (text string, digest [sha256.Size]byte) {
	text = "slc-" + strings.ToLower(rand.Text())
	return text, sha256.Sum256([]byte(text))
}
