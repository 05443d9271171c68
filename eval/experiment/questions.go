package experiment

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/sluice-rag/sluice/eval/dataset"
	"github.com/sluice-rag/sluice/internal/jsonl"
)

// question is a question with its group.
type question struct {
	dataset.Query
	group string
	known bool // its context is in the base
}

// The groups of questions by scope.
const (
	Answerable   = "answerable"
	Unanswerable = "unanswerable" // its context is in the base, and does not answer it
	OutOfScope   = "out of scope"
)

// The groups of questions with conversations before them; the third is OutOfScope.
const (
	FollowUp = "follow-up"       // cannot be understood without the question before
	Change   = "change of topic" // can, and the question before is about another topic
)

// data is the collection and the questions of a part.
type data struct {
	base      []dataset.Context
	pseudo    []dataset.Query
	questions []question
	files     []string    // the base, instead
	draws     []*labelled // of classifiers, instead
	digest    string
	notes     []string // what is wrong with it, or was not there
}

// folder returns the folder of a set: the data folder or one below it.
func folder(root, set string) string {
	if _, err := os.Stat(filepath.Join(root, dataset.ContextsFile)); err == nil || set == "" {
		return root
	}
	return filepath.Join(root, set)
}

func load(root string, p Part, seed uint64) (*data, error) {
	set, err := dataset.Open(folder(root, p.Base.Set))
	if err != nil {
		return nil, err
	}
	d := &data{}
	if text := set.Faults.String(); text != "" {
		d.notes = append(d.notes, text)
	}
	in := map[string]bool{}
	var topics []string
	for _, c := range set.Contexts {
		topics = append(topics, c.Topic)
	}
	slices.Sort(topics)
	if topics = slices.Compact(topics); p.Base.Topics > 0 {
		topics = topics[:min(p.Base.Topics, len(topics))]
	}
	for _, c := range set.Contexts {
		if p.Base.Topics == 0 || slices.Contains(topics, c.Topic) {
			d.base = append(d.base, c)
			in[c.ID] = true
		}
	}
	pseudo := map[string]int{}
	for _, q := range set.Queries {
		x := question{Query: q, known: in[q.ContextID]}
		if x.known && q.CanAnswer() && pseudo[q.ContextID] < p.Base.Pseudo {
			pseudo[q.ContextID]++
			d.pseudo = append(d.pseudo, q)
			continue
		}
		d.questions = append(d.questions, x)
	}
	for _, name := range p.Base.OutOfScope {
		if err := d.outOfScope(filepath.Join(root, filepath.FromSlash(name)), name); err != nil {
			return nil, err
		}
	}
	if p.Base.FollowUps {
		d.followUps()
	} else {
		d.group(p.GroupBy)
	}
	d.digest = digest([]any{d.base, d.pseudo})
	d.questions = draw(d.questions, p.Sample, seed)
	if len(d.questions) == 0 && p.Kind == Questions {
		return nil, fmt.Errorf("%w: part %s: no question is left to ask", ErrMissing, p.Name)
	}
	return d, nil
}

// outOfScope adds the questions of a file; one that is not there is a note.
func (d *data) outOfScope(path, name string) error {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		d.notes = append(d.notes, name+" is not there: none of its questions is asked")
		return nil
	}
	if err != nil {
		return fmt.Errorf("%w: %w", dataset.ErrData, err)
	}
	defer f.Close()
	d.eachLine(f, name, func(line jsonl.Line) bool {
		var q struct{ ID, Text, Domain string }
		if json.Unmarshal(line.Text(), &q) != nil || strings.TrimSpace(q.Text) == "" {
			return false
		}
		id := fmt.Sprintf("%s:%d", name, line.Number)
		d.questions = append(d.questions, question{Query: dataset.Query{ID: id, Topic: q.Domain, Text: q.Text}})
		return true
	})
	return nil
}

// eachLine calls take for each line of a file that is not blank. It notes how many lines cannot be read or are refused
// by take.
func (d *data) eachLine(r io.Reader, name string, take func(line jsonl.Line) bool) {
	bad := 0
	for line, err := range jsonl.Lines(r, jsonl.MaxLineBytes) {
		if err == nil && len(line.Text()) == 0 {
			continue
		}
		if err != nil || !take(line) {
			bad++
		}
	}
	if bad > 0 {
		d.notes = append(d.notes, fmt.Sprintf("%s: %d bad lines", name, bad))
	}
}

func (d *data) group(by GroupBy) {
	if by == ByType {
		d.types()
		return
	}
	for i := range d.questions {
		q := &d.questions[i]
		switch {
		case !q.known && by == ByDistance && q.ContextID == "":
			q.group = Far
		case !q.known && by == ByDistance:
			q.group = Near
		case !q.known:
			q.group = OutOfScope
		case q.CanAnswer():
			q.group = Answerable
		default:
			q.group = Unanswerable
		}
	}
}

// followUps makes conversations of the questions.
func (d *data) followUps() {
	var known, outside []dataset.Query
	for _, q := range d.questions {
		switch {
		case !q.known:
			outside = append(outside, q.Query)
		case q.CanAnswer():
			known = append(known, q.Query)
		}
	}
	d.questions = nil
	for _, x := range []struct {
		group string
		list  []dataset.Query
	}{{FollowUp, dataset.FollowUps(known)}, {Change, dataset.Changes(known, known)},
		{OutOfScope, dataset.Changes(outside, known)}} {
		for _, q := range x.list {
			d.questions = append(d.questions, question{Query: q, group: x.group, known: x.group != OutOfScope})
		}
	}
}

var reason = regexp.MustCompile(`(?i)\b(why|how come|explain|what (caused|causes|led|made|makes)|(reason|cause|purpose|` +
	`effect|consequence)s?|how (?:do|does|did|is|are|was|were|can|could|has|have|had|would|will)|warum|wieso|weshalb|` +
	`wodurch)\b`)

// types sorts the answerable questions into four groups. A question is of reason if it asks why, how it comes or goes
// about, for a cause, purpose or effect; else it is factual. It is dense if a true answer of it is in two contexts of
// the base or more, else sparse.
func (d *data) types() {
	kept := d.questions[:0]
	for _, q := range d.questions {
		if !q.known || !q.CanAnswer() || len(q.Answers) == 0 {
			continue
		}
		q.group = "factual"
		if reason.MatchString(q.Text) {
			q.group = "reason"
		}
		n := 0
		for _, c := range d.base {
			if n < 2 && contains(c.Text, q.Answers) {
				n++
			}
		}
		q.group += map[bool]string{false: ", sparse", true: ", dense"}[n > 1]
		kept = append(kept, q)
	}
	d.questions = kept
}

func notWord(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsNumber(r) }

// draw takes a number of questions of each group, at random under a seed, in the order of the file.
func draw(all []question, sample map[string]int, seed uint64) (kept []question) {
	if len(sample) == 0 {
		return all
	}
	groups := map[string][]int{}
	for i, q := range all {
		groups[q.group] = append(groups[q.group], i)
	}
	var rows []int
	for name, list := range groups {
		n, ok := sample[name]
		if !ok {
			n = sample["*"]
		}
		h := fnv.New64a()
		_, _ = h.Write([]byte(name)) // of a hash: never fails
		random := rand.New(rand.NewPCG(seed, h.Sum64()))
		random.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		rows = append(rows, list[:min(n, len(list))]...)
	}
	slices.Sort(rows)
	for _, i := range rows {
		kept = append(kept, all[i])
	}
	return kept
}
