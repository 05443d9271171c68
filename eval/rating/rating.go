// Package rating has people rate answers of several systems: each rater gets all answers in a random order of their
// own, without the systems' names. Input: Items, as JSON lines. Output: ratings, as JSON lines, and a Report of
// agreement.
package rating

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-rag/sluice/eval/metric"
	"github.com/sluice-rag/sluice/internal/jsonl"
)

// ErrRating means that a line is not an item or rating, or does not match the others.
var ErrRating = errors.New("rating: not usable")

// Max is the best rating; 1 is the worst.
const Max = 5

// Item is a question with the answers of systems.
type Item struct {
	ID       string            `json:"id"`
	Question string            `json:"question"`
	Answers  map[string]string `json:"answers"` // by system
	// Correct has, by system, the measure of a judge that finds the answer correct (1) or not (0); may be nil.
	Correct map[string]map[string]float64 `json:"correct,omitempty"`
}

// Pair is a question and one answer, as a rater sees it. Rating is 0 until it is given.
type Pair struct {
	Key      string `json:"key"` // of item and system, which it does not tell
	Question string `json:"question"`
	Answer   string `json:"answer"`
	Rating   int    `json:"rating"`
}

// Rating is one rater's judgement.
type Rating struct {
	Rater  string `json:"rater"`
	Key    string `json:"key"`
	Rating int    `json:"rating"`
}

// ReadItems reads {"id","question","answers":{SYSTEM:TEXT}} lines. A duplicated id, or an item without answers, is
// ErrRating with its line.
func ReadItems(r io.Reader) ([]Item, error) {
	seen := map[string]bool{}
	return lines(r, func(it Item) error {
		if it.ID == "" || strings.TrimSpace(it.Question) == "" || len(it.Answers) == 0 {
			return errors.New(`"id", "question" or "answers" is missing`)
		}
		if seen[it.ID] {
			return fmt.Errorf("the id %q was there", it.ID)
		}
		seen[it.ID] = true
		return nil
	})
}

// ReadRatings reads ratings; one outside of 1 … Max is ErrRating with its line.
func ReadRatings(r io.Reader) ([]Rating, error) {
	return lines(r, func(x Rating) error {
		if x.Rater == "" || x.Key == "" || x.Rating < 1 || x.Rating > Max {
			return fmt.Errorf("a rating needs rater, key and a number from 1 to %d", Max)
		}
		return nil
	})
}

// ReadPairs reads pairs that a rater has filled in, as ratings; unrated ones (0) are left out and counted.
func ReadPairs(r io.Reader, rater string) (ratings []Rating, open int, err error) {
	pairs, err := lines(r, func(p Pair) error {
		if p.Key == "" || p.Rating < 0 || p.Rating > Max {
			return fmt.Errorf("a pair needs a key and a rating from 1 to %d, or 0 for none", Max)
		}
		return nil
	})
	for _, p := range pairs {
		if p.Rating == 0 {
			open++
			continue
		}
		ratings = append(ratings, Rating{rater, p.Key, p.Rating})
	}
	return ratings, open, err
}

func lines[T any](r io.Reader, check func(T) error) (list []T, err error) {
	for line, err := range jsonl.Lines(r, jsonl.MaxLineBytes) {
		if err == nil && len(line.Text()) == 0 {
			continue
		}
		var v T
		if err == nil {
			err = json.Unmarshal(line.Text(), &v)
		}
		if err == nil {
			err = check(v)
		}
		if err != nil {
			return nil, fmt.Errorf("%w: line %d: %w", ErrRating, line.Number, err)
		}
		list = append(list, v)
	}
	return list, nil
}

// key names an answer without telling its system.
func key(item, system string) string {
	sum := sha256.Sum256([]byte(item + "\x00" + system))
	return hex.EncodeToString(sum[:8])
}

// Pairs returns all answers in a rater's order.
func Pairs(items []Item, rater string, seed uint64) (pairs []Pair) {
	for _, it := range items {
		for _, system := range slices.Sorted(maps.Keys(it.Answers)) {
			pairs = append(pairs, Pair{Key: key(it.ID, system), Question: it.Question, Answer: it.Answers[system]})
		}
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(rater)) // of a hash: never fails
	random := rand.New(rand.NewPCG(seed, h.Sum64()))
	random.Shuffle(len(pairs), func(i, j int) { pairs[i], pairs[j] = pairs[j], pairs[i] })
	return pairs
}

// Ask shows pairs that have no rating of the rater yet, and hands each rating to save. An empty line passes over a
// pair, q or the end of the input ends it.
func Ask(in io.Reader, out io.Writer, pairs []Pair, rater string, done []Rating, save func(Rating) error) error {
	lines := bufio.NewReader(in)
	rated := map[string]bool{}
	for _, x := range done {
		if x.Rater == rater {
			rated[x.Key] = true
		}
	}
	for i, p := range pairs {
		if rated[p.Key] {
			continue
		}
		if _, err := fmt.Fprintf(out, "\n%d of %d\nQuestion: %s\nAnswer:   %s\n", i+1, len(pairs), p.Question,
			p.Answer); err != nil {
			return err
		}
		for {
			if _, err := fmt.Fprintf(out, "1 (bad) … %d (good), empty to pass over, q to end: ", Max); err != nil {
				return err
			}
			line, err := lines.ReadString('\n')
			text := strings.TrimSpace(line)
			if text == "q" || line == "" && errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil && !errors.Is(err, io.EOF) {
				return err
			}
			if text == "" {
				break
			}
			if n, err := strconv.Atoi(text); err == nil && n >= 1 && n <= Max {
				if err := save(Rating{rater, p.Key, n}); err != nil {
					return err
				}
				break
			}
		}
	}
	return nil
}

// last returns the ratings by key and rater: the last one counts.
func last(ratings []Rating) map[string]map[string]int {
	given := map[string]map[string]int{}
	for _, x := range ratings {
		if given[x.Key] == nil {
			given[x.Key] = map[string]int{}
		}
		given[x.Key][x.Rater] = x.Rating
	}
	return given
}

// Report compares two raters.
type Report struct {
	Raters    []string                    `json:"raters"`
	Both      int                         `json:"rated_by_both"`
	Kappa     float64                     `json:"kappa"`     // Cohen's; 0 without a pair that both have rated
	Agreement float64                     `json:"agreement"` // share of equal ratings
	Systems   map[string]map[string][]int `json:"histogram"` // by system and rater: counts of 1 … Max
	Means     map[string]float64          `json:"means"`     // by system, over all raters
	Unknown   int                         `json:"unknown"`   // ratings of answers that are not among the items
	Judges    map[string]Agreement        `json:"judges,omitempty"`
}

// Summarise makes the report. Of several ratings of an answer by a rater the last one counts. Other than two raters is
// ErrRating.
func Summarise(items []Item, ratings []Rating) (*Report, error) {
	system := map[string]string{}
	for _, it := range items {
		for s := range it.Answers {
			system[key(it.ID, s)] = s
		}
	}
	r := &Report{Systems: map[string]map[string][]int{}, Means: map[string]float64{}}
	for _, x := range ratings {
		if system[x.Key] == "" {
			r.Unknown++
		} else if !slices.Contains(r.Raters, x.Rater) {
			r.Raters = append(r.Raters, x.Rater)
		}
	}
	if slices.Sort(r.Raters); len(r.Raters) != 2 {
		return nil, fmt.Errorf("%w: agreement is that of two raters, these are %q", ErrRating, r.Raters)
	}
	var first, second []string
	sums, counts := map[string]int{}, map[string]int{}
	given := last(ratings)
	for _, k := range slices.Sorted(maps.Keys(given)) {
		s := system[k]
		if s == "" {
			continue
		}
		if r.Systems[s] == nil {
			r.Systems[s] = map[string][]int{r.Raters[0]: make([]int, Max), r.Raters[1]: make([]int, Max)}
		}
		for rater, n := range given[k] {
			r.Systems[s][rater][n-1]++
			sums[s] += n
			counts[s]++
		}
		if a, b := given[k][r.Raters[0]], given[k][r.Raters[1]]; a > 0 && b > 0 {
			first, second = append(first, strconv.Itoa(a)), append(second, strconv.Itoa(b))
		}
	}
	r.Judges = Judges(items, ratings)
	for s := range sums {
		r.Means[s] = float64(sums[s]) / float64(counts[s])
	}
	if r.Both = len(first); r.Both > 0 {
		c, err := metric.Compare(first, second)
		if err != nil {
			return nil, err
		}
		r.Kappa, r.Agreement = c.Kappa, c.Accuracy
	}
	return r, nil
}

// Text returns the report for a person, with a bar for each rating.
func (r *Report) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "raters %s: %d answers rated by both, agreement %.3f, Cohen's kappa %.3f\n",
		strings.Join(r.Raters, " and "), r.Both, r.Agreement, r.Kappa)
	for _, s := range slices.Sorted(maps.Keys(r.Systems)) {
		fmt.Fprintf(&b, "\n%s: mean %.2f\n", s, r.Means[s])
		for n := Max; n >= 1; n-- {
			count := 0
			for _, rater := range r.Raters {
				count += r.Systems[s][rater][n-1]
			}
			fmt.Fprintf(&b, "  %d %4d %s\n", n, count, strings.Repeat("█", min(count, 60)))
		}
	}
	for _, m := range slices.Sorted(maps.Keys(r.Judges)) {
		fmt.Fprintf(&b, "\n%s: the judge agrees with %s\n", m, r.Judges[m])
	}
	if r.Unknown > 0 {
		fmt.Fprintf(&b, "\n%d ratings are of answers that are not among the items\n", r.Unknown)
	}
	return b.String()
}
