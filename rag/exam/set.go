package exam

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

//go:embed data/*.yaml
var data embed.FS

// rules is counted up when the examination asks or judges otherwise than before: older cards are out of date then.
const rules = 3

// Set is the examination in one language. What its passages say is invented, so that no model knows it.
type Set struct {
	Language string   `yaml:"language"` // ISO 639-1
	Passages []Item   `yaml:"passages"`
	Own      []string `yaml:"own"` // what a user may say that needs no document
}

// Item is a passage with what is asked about it.
type Item struct {
	Topic      string   `yaml:"topic"`
	Text       string   `yaml:"text"`
	Question   string   `yaml:"question"`
	Accepted   []string `yaml:"accepted"`   // a right answer contains one of them
	Answer     string   `yaml:"answer"`     // right, in other words than the passage's
	Wrong      string   `yaml:"wrong"`      // contradicts the passage
	Unanswered string   `yaml:"unanswered"` // on the same subject; no passage of the set answers it; may be empty
	Foreign    string   `yaml:"foreign"`    // Question in another language; may be empty
}

// ErrSet is wrapped by the error of a set that cannot be used.
var ErrSet = errors.New("exam: bad set of questions")

// Sets returns the sets that Sluice brings, English first.
func Sets() ([]Set, error) {
	var sets []Set
	for _, language := range []string{"en", "de"} {
		text, err := fs.ReadFile(data, path.Join("data", language+".yaml"))
		if err != nil {
			return nil, err
		}
		s, err := ParseSet(text)
		if err != nil {
			return nil, err
		}
		sets = append(sets, s)
	}
	return sets, nil
}

// ParseSet reads a set. An unknown key and an item that lacks something or contradicts itself are ErrSet.
func ParseSet(text []byte) (s Set, err error) {
	dec := yaml.NewDecoder(bytes.NewReader(text))
	dec.KnownFields(true)
	if err := dec.Decode(&s); err != nil {
		return s, fmt.Errorf("%w: %w", ErrSet, err)
	}
	if s.Language == "" || len(s.Passages) < shownPassages+1 || len(s.Own) == 0 {
		return s, fmt.Errorf("%w: language %q, %d passages (at least %d), %d sentences without passages (at least 1)",
			ErrSet, s.Language, len(s.Passages), shownPassages+1, len(s.Own))
	}
	for i, p := range s.Passages {
		if err := p.check(); err != nil {
			return s, fmt.Errorf("%w: passage %d (%s): %w", ErrSet, i+1, p.Topic, err)
		}
	}
	return s, nil
}

func (p Item) check() error {
	switch {
	case p.Topic == "" || p.Text == "" || p.Question == "" || p.Answer == "" || p.Wrong == "":
		return errors.New("topic, text, question, answer and wrong are needed")
	case len(p.Accepted) == 0 || !strings.Contains(p.Text, p.Accepted[0]):
		return fmt.Errorf("the first accepted answer of %q does not stand in the text", p.Accepted)
	case !holds(p.Answer, p.Accepted):
		return fmt.Errorf("the right answer has none of %q", p.Accepted)
	case holds(p.Wrong, p.Accepted):
		return fmt.Errorf("the wrong answer has one of %q", p.Accepted)
	}
	return nil
}

// Version identifies the questions and rules of the examination.
func Version() (string, error) {
	h := sha256.New()
	_, _ = fmt.Fprintf(h, "rules %d\n", rules)
	err := fs.WalkDir(data, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := fs.ReadFile(data, name)
		_, _ = fmt.Fprintf(h, "%s %d\n%s", name, len(text), text)
		return err
	})
	return hex.EncodeToString(h.Sum(nil))[:16], err
}

// holds reports whether a text has one of some answers as whole words, whatever the case and the ending: up to two more
// letters (plurals, the cases of German).
func holds(text string, accepted []string) bool {
	text = plain(text)
	for _, a := range accepted {
		a = plain(a)
		for from := 0; a != ""; {
			i := strings.Index(text[from:], a)
			if i < 0 {
				break
			}
			i += from
			rest := text[i+len(a):]
			for range ending {
				if r, size := utf8.DecodeRuneInString(rest); joined(a, rest) && unicode.IsLetter(r) {
					rest = rest[size:]
				}
			}
			if !joined(text[:i], a) && !joined(a, rest) {
				return true
			}
			from = i + 1
		}
	}
	return false
}

// ending is how many letters a word may have more than the one that is looked for.
const ending = 2

// plain returns a text in lower case, with single spaces.
func plain(text string) string { return strings.ToLower(strings.Join(strings.Fields(text), " ")) }

// joined reports whether a word or number goes on from the end of one text to the beginning of the next.
func joined(before, after string) bool {
	inWord := func(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) }
	last, _ := utf8.DecodeLastRuneInString(before)
	first, _ := utf8.DecodeRuneInString(after)
	return inWord(last) && inWord(first)
}
