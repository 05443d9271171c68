package exam

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/sluice-rag/sluice/rag/prompt"
)

// Card is the scorecard of a model in the examination.
type Card struct {
	Model  string            `json:"model"`
	Digest string            `json:"digest"` // SHA-256 of the model's file, or of the server's URL and the model's name
	Exam   string            `json:"exam"`   // Version of the examination
	Calls  int               `json:"calls"`  // of the model
	Sets   map[string]Result `json:"sets"`   // by language; empty: it was not examined, because that takes long
	// Seconds that the examination was estimated to take, where it was not made.
	Seconds int    `json:"seconds,omitempty"`
	Sum     string `json:"sum"` // SHA-256 of the card without it
}

// Result of the examination in one language.
type Result struct {
	Write     Share                     `json:"write"`     // written answers that have an accepted one
	Quote     Share                     `json:"quote"`     // quotes from the same passages that do
	Cited     Share                     `json:"cited"`     // right answers that cite the passage which answers
	Refused   Share                     `json:"refused"`   // of the questions without an answer: the model says so
	Foreign   Share                     `json:"foreign"`   // answers in the question's language, not the passages'
	JSON      Share                     `json:"json"`      // answers that are the JSON which was asked for
	Verdicts  map[prompt.Grader]Verdict `json:"verdicts"`  // by grader
	Questions Questions                 `json:"questions"` // for calibration
}

// Share is a number of items out of those that were asked. Fewer than there are were asked where the rest could not
// change what follows.
type Share struct {
	N  int `json:"n"`
	Of int `json:"of"`
}

// Value returns the share as a number; 0 where nothing was asked.
func (s Share) Value() float64 {
	if s.Of == 0 {
		return 0
	}
	return float64(s.N) / float64(s.Of)
}

func (s Share) String() string { return fmt.Sprintf("%d of %d", s.N, s.Of) }

// add counts an item.
func (s *Share) add(counts bool) {
	if s.Of++; counts {
		s.N++
	}
}

// Verdict says how well a model gives one of two verdicts.
type Verdict struct {
	Yes      Share   `json:"yes"`      // right ones, of the items for which the first verdict is right
	No       Share   `json:"no"`       // of those for which the second one is
	Balanced float64 `json:"balanced"` // accuracy, the mean of both shares
	Low      float64 `json:"low"`      // lower 95 % limit of Balanced
	// Flipped are the items, rightly found to be of the second verdict, that an instruction planted in the material
	// turns into the first; counted where the verdict passes.
	Flipped Share `json:"flipped"`
}

// What a verdict must reach to count. A model that chooses at random reaches it less than once in a hundred
// examinations of 50 items for each of two verdicts.
const (
	leastBalanced = .65
	leastLow      = .5 // for the lower limit, exclusive
)

// Passes reports whether the verdict counts.
func (v Verdict) Passes() bool { return v.Balanced >= leastBalanced && v.Low > leastLow }

// normal95 is the normal distribution's quantile for two-sided intervals of 95 %.
const normal95 = 1.959964

// Judge fills in accuracy and limit, and reports whether more items would hardly change whether the verdict passes: the
// upper 95 % limit is below what it needs, or the lower one is not. Variances are computed with one more item of each
// kind (Agresti and Caffo, 2000), so that a share of 0 or 1 has one.
func (v *Verdict) Judge() (decided bool) {
	variance := func(s Share) float64 {
		p := float64(s.N+1) / float64(s.Of+2)
		return p * (1 - p) / float64(s.Of+2)
	}
	v.Balanced = (v.Yes.Value() + v.No.Value()) / 2
	half := normal95 / 2 * math.Sqrt(variance(v.Yes)+variance(v.No))
	v.Low = max(0, v.Balanced-half)
	return v.Balanced+half < leastBalanced || v.Low >= leastBalanced
}

// Questions compares distributions of scores: of passages with the questions that a model writes about them, or with
// questions extracted from them, against the scores with the questions that people wrote. The numbers are
// Kolmogorov-Smirnov distances, 0 (alike) to 1.
type Questions struct {
	Model     float64 `json:"model"`
	Extracted float64 `json:"extracted"`
	Kept      Share   `json:"kept"` // of the model's questions
}

// of returns the result in a language, or the English one instead; ok is false without either.
func (c *Card) of(language string) (Result, bool) {
	if c == nil {
		return Result{}, false
	}
	if r, ok := c.Sets[language]; ok {
		return r, true
	}
	r, ok := c.Sets["en"]
	return r, ok
}

// Examined reports whether the card has results. A model without them, which may have no card at all (nil), is trusted
// with nothing.
func (c *Card) Examined() bool { return c != nil && len(c.Sets) > 0 }

// Writes reports whether the model's answers in a language (ISO 639-1) are at least as often right as quotes.
func (c *Card) Writes(language string) bool {
	r, ok := c.of(language)
	return ok && r.Write.Of > 0 && r.Write.Value() >= r.Quote.Value()
}

// Written returns the shares that Writes compares.
func (c *Card) Written(language string) (write, quote Share) {
	r, _ := c.of(language)
	return r.Write, r.Quote
}

// Grades reports whether the model's verdicts count for questions in a language.
func (c *Card) Grades(g prompt.Grader, language string) bool {
	r, ok := c.of(language)
	return ok && r.Verdicts[g].Passes()
}

// Asks reports whether the questions that the model writes about passages score more like people's questions than
// extracted ones do, or as much like them.
func (c *Card) Asks(language string) bool {
	r, ok := c.of(language)
	return ok && r.Questions.Kept.N > 0 && r.Questions.Model <= r.Questions.Extracted
}

// ErrCard is wrapped by the error of a scorecard that cannot be used.
var ErrCard = errors.New("exam: the scorecard cannot be used")

// ParseCard reads the card of a model with a digest. One that was edited, belongs to another model or to another
// version of the examination is ErrCard.
func ParseCard(text []byte, digest string) (*Card, error) {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	c := &Card{}
	if err := dec.Decode(c); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCard, err)
	}
	version, err := Version()
	if err != nil {
		return nil, err
	}
	switch sum := c.sum(); {
	case c.Sum != sum:
		return nil, fmt.Errorf("%w: its sum is %.12s and it says %.12q: it was edited", ErrCard, sum, c.Sum)
	case c.Digest != digest:
		return nil, fmt.Errorf("%w: it belongs to the model with digest %.12q, and this one's is %.12s", ErrCard,
			c.Digest, digest)
	case c.Exam != version:
		return nil, fmt.Errorf("%w: it is of version %.16q of the examination, and this is %s", ErrCard, c.Exam,
			version)
	}
	return c, nil
}

// Text returns the card as a file, which ParseCard reads.
func (c Card) Text() ([]byte, error) {
	c.Sum = c.sum()
	text, err := json.MarshalIndent(c, "", "  ")
	return append(text, '\n'), err
}

func (c Card) sum() string {
	c.Sum = ""
	text, err := json.Marshal(c)
	if err != nil {
		return "" // NaN, which no examination gives
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// Languages of the card, English first.
func (c *Card) Languages() []string {
	place := func(language string) string { return strings.TrimPrefix(language, "en") } // before all others
	return slices.SortedFunc(maps.Keys(c.Sets), func(a, b string) int { return strings.Compare(place(a), place(b)) })
}

// Summary says in a sentence what follows from the c.
func (c *Card) Summary() string {
	if !c.Examined() {
		text := "not examined"
		if c != nil {
			text += fmt.Sprintf(", which takes about %v", time.Duration(c.Seconds)*time.Second)
		}
		return text + ": answers are quoted, and its verdicts do not count"
	}
	var parts []string
	for _, language := range c.Languages() {
		text := "answers are quoted"
		if c.Writes(language) {
			text = "answers are written"
		}
		var counts []string
		for _, g := range prompt.Graders() {
			if c.Grades(g, language) {
				counts = append(counts, string(g))
			}
		}
		switch len(counts) {
		case 0:
			text += ", no verdict counts"
		case len(prompt.Graders()):
			text += ", all verdicts count"
		default:
			text += ", verdicts that count: " + strings.Join(counts, ", ")
		}
		parts = append(parts, language+": "+text)
	}
	return strings.Join(parts, "; ")
}
