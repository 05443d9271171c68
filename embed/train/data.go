package train

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/sluice-rag/sluice/internal/jsonl"
)

// ErrData is wrapped by errors about labelled texts and pairs that cannot be used for training.
var ErrData = errors.New("train: the data cannot be used")

// Example is a labelled text.
type Example struct {
	Text   string
	Labels []string
	Line   int
}

// Data is what a file holds to train on.
type Data[T any] struct {
	Source string
	Digest string // sha256 of the file
	List   []T
	Multi  bool // of examples: the lines have "labels"
}

// The data of classifiers, encoders and readers.
type (
	Examples  = Data[Example]
	Pairs     = Data[Pair]
	Questions = Data[Question]
)

// shown is the number of bad lines that an error names.
const shown = 5

// ReadExamples reads lines of the form {"text","label"} or {"text","labels":[…]}, all of the same form; other fields
// are ignored. Bad lines are an error that gives the numbers of the first few.
func ReadExamples(r io.Reader, source string) (*Examples, error) {
	first := 0 // line of the first example
	return readData(r, source, "labelled texts", func(e *Examples, line int, raw []byte) error {
		var v struct {
			Text   *string   `json:"text"`
			Label  *string   `json:"label"`
			Labels *[]string `json:"labels"`
		}
		if err := decodeLine(raw, &v); err != nil {
			return err
		}
		if err := needText("text", v.Text); err != nil {
			return err
		}
		x := Example{Text: *v.Text, Line: line}
		switch {
		case v.Label == nil && v.Labels == nil:
			return errors.New(`"label" is missing (or "labels", a list)`)
		case v.Label != nil && v.Labels != nil:
			return errors.New(`it has "label" and "labels": one of them is expected`)
		case v.Label != nil:
			x.Labels = []string{*v.Label}
		default:
			x.Labels = slices.Compact(slices.Sorted(slices.Values(*v.Labels)))
		}
		if slices.Contains(x.Labels, "") {
			return errors.New("a label is empty")
		}
		if multi := v.Labels != nil; first == 0 {
			e.Multi, first = multi, line
		} else if multi != e.Multi {
			return fmt.Errorf(`it has %s, line %d has %s: a file has one kind`, kindOf(multi), first, kindOf(e.Multi))
		}
		e.List = append(e.List, x)
		return nil
	})
}

func kindOf(multi bool) string {
	if multi {
		return `"labels"`
	}
	return `"label"`
}

// Pair is a query and a context that answers it.
type Pair struct {
	Query, Context string
	Group          string // kept together in validation and training, for example a topic; "": the context
}

// ReadPairs reads lines of the form {"query","context"}, optionally with "group"; other fields are ignored.
func ReadPairs(r io.Reader, source string) (*Pairs, error) {
	return readData(r, source, "pairs", func(p *Pairs, _ int, raw []byte) error {
		var v struct {
			Query   *string `json:"query"`
			Context *string `json:"context"`
			Group   string  `json:"group"`
		}
		if err := decodeLine(raw, &v); err != nil {
			return err
		}
		if err := needText("query", v.Query); err != nil {
			return err
		}
		if err := needText("context", v.Context); err != nil {
			return err
		}
		p.List = append(p.List, Pair{*v.Query, *v.Context, v.Group})
		return nil
	})
}

// readData calls add for each line of a file that is not blank. Errors call the examples by the name in what.
func readData[T any](
	r io.Reader, source, what string, add func(d *Data[T], line int, raw []byte) error,
) (*Data[T], error) {
	d := &Data[T]{Source: source}
	var err error
	d.Digest, err = readLines(r, source, func(line int, raw []byte) error { return add(d, line, raw) })
	if err == nil && len(d.List) == 0 {
		err = fmt.Errorf("%w: %s: no %s in it", ErrData, source, what)
	}
	return d, err
}

// badData collects the errors of parts of the data, and keeps the first few.
type badData struct {
	first []error
	count int
}

func (b *badData) add(err error) {
	if b.count++; b.count <= shown {
		b.first = append(b.first, err)
	}
}

// err returns the errors as one, or nil without any. what is what the parts are called.
func (b *badData) err(what string) error {
	if b.count == 0 {
		return nil
	}
	if b.count > shown {
		b.first = append(b.first, fmt.Errorf("… and %d more", b.count-shown))
	}
	return fmt.Errorf("%w: bad %s: %d\n%w", ErrData, what, b.count, errors.Join(b.first...))
}

// readLines calls each for every non-blank line of r and returns the digest of the input.
func readLines(r io.Reader, source string, each func(line int, raw []byte) error) (digest string, err error) {
	hash := sha256.New()
	var bad badData
	for line, err := range jsonl.Lines(io.TeeReader(r, hash), jsonl.MaxLineBytes) {
		if err != nil && !errors.Is(err, jsonl.ErrLong) {
			return "", fmt.Errorf("%s: reading line %d: %w", source, line.Number, err)
		}
		raw := line.Text()
		if err == nil && len(raw) > 0 {
			err = each(line.Number, raw)
		}
		if err != nil {
			bad.add(&jsonl.LineError{Source: source, Line: line.Number, Err: err})
		}
	}
	if err := bad.err("lines"); err != nil {
		return "", err
	}
	return "sha256:" + hex.EncodeToString(hash.Sum(nil)), nil
}

func decodeLine(raw []byte, to any) error {
	if !utf8.Valid(raw) {
		return errors.New("not valid UTF-8")
	}
	err := json.Unmarshal(raw, to)
	var typed *json.UnmarshalTypeError
	if errors.As(err, &typed) {
		if typed.Field == "" {
			return fmt.Errorf("a JSON %s where an object is wanted", typed.Value)
		}
		return fmt.Errorf("%q is a JSON %s, which is not wanted there", typed.Field, typed.Value)
	}
	return err
}

// targetsOf returns the class ids of examples. A label that is missing in labels is an error that names its line.
func targetsOf(e *Examples, list []Example, labels []string) ([]target, error) {
	ids := make(map[string]int32, len(labels))
	for i, l := range labels {
		ids[l] = int32(i)
	}
	out := make([]target, len(list))
	for i, x := range list {
		for _, l := range x.Labels {
			id, ok := ids[l]
			if !ok {
				return nil, fmt.Errorf("%w: %s:%d: the label %q is in none of the texts that are trained on", ErrData,
					e.Source, x.Line, l)
			}
			out[i] = append(out[i], id)
		}
	}
	return out, nil
}

// countOf returns how many of the examples have each label.
func countOf(list []Example) map[string]int {
	count := map[string]int{}
	for _, x := range list {
		for _, l := range x.Labels {
			count[l]++
		}
	}
	return count
}

// split returns what to train on and what to validate with, for which it takes a share where no data are given, label
// by label (a text with several labels counts for its
// rarest), so that each label with at least two examples keeps one for training.
func split(in ClassifierInput) (training, validation []Example) {
	list := in.Training.List
	if in.Validation != nil {
		return list, in.Validation.List
	}
	count := countOf(list)
	groups := map[string][]int{}
	for i, x := range list {
		rarest := ""
		for _, l := range x.Labels {
			if rarest == "" || count[l] < count[rarest] {
				rarest = l
			}
		}
		groups[rarest] = append(groups[rarest], i)
	}
	held := make([]bool, len(list))
	r := rand.New(rand.NewPCG(in.Settings.Seed, 1))
	for _, name := range slices.Sorted(maps.Keys(groups)) {
		members := groups[name]
		r.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
		n := int(in.Settings.ValidationShare*float64(len(members)) + .5)
		if n == 0 && len(members) > 1 {
			n = 1
		}
		for _, i := range members[:min(n, len(members)-1)] {
			held[i] = true
		}
	}
	for i, x := range list {
		if held[i] {
			validation = append(validation, x)
		} else {
			training = append(training, x)
		}
	}
	return training, validation
}

// splitGroups returns the examples to train on and to validate with. Without validation data it validates with a share
// of the groups of the training data, so that no group is on both sides. It is an error, which calls the examples by
// the name in what, if one side has no examples.
func splitGroups[T any](in Input[T], what string, group func(T) string) (training, validation []T, err error) {
	if in.Validation != nil {
		training, validation = in.Training.List, in.Validation.List
	} else {
		training, validation = shareOfGroups(in, group)
	}
	if len(training) == 0 || len(validation) == 0 {
		return nil, nil, fmt.Errorf("%w: %s: %d %s to train on and %d to validate with are left: there are too few "+
			"contexts, or the validation share of %v is too small", ErrData, in.Training.Source, len(training), what,
			len(validation), in.Settings.ValidationShare)
	}
	return training, validation, nil
}

// shareOfGroups divides the groups of the training data by the validation share.
func shareOfGroups[T any](in Input[T], group func(T) string) (training, validation []T) {
	list := in.Training.List
	var groups []string
	held := map[string]bool{}
	for _, x := range list {
		if _, seen := held[group(x)]; !seen {
			held[group(x)] = false
			groups = append(groups, group(x))
		}
	}
	r := rand.New(rand.NewPCG(in.Settings.Seed, 1))
	r.Shuffle(len(groups), func(i, j int) { groups[i], groups[j] = groups[j], groups[i] })
	count := int(in.Settings.ValidationShare*float64(len(groups)) + .5)
	for _, g := range groups[:min(count, max(len(groups)-1, 0))] {
		held[g] = true
	}
	for _, x := range list {
		if held[group(x)] {
			validation = append(validation, x)
		} else {
			training = append(training, x)
		}
	}
	return training, validation
}

// balanced returns class weights: the inverse of the frequency of each label, with a mean of 1 over the texts.
func balanced(targets []target, labels int) []float64 {
	count := make([]float64, labels)
	var total float64
	for _, t := range targets {
		for _, id := range t {
			count[id]++
			total++
		}
	}
	out := make([]float64, labels)
	for i, c := range count {
		out[i] = total / (float64(labels) * max(c, 1))
	}
	return out
}

func needText(name string, text *string) error {
	switch {
	case text == nil:
		return fmt.Errorf("%q is missing", name)
	case strings.TrimSpace(*text) == "":
		return fmt.Errorf("%q is empty", name)
	}
	return nil
}
