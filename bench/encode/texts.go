package encode

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// texts has the texts of all workloads in one list, which is sent to a competitor once; workloads are places in it.
type texts struct {
	all    []string
	places map[string]int // of a text in all
	tokens []int          // of each text, special tokens included, as the encoder cuts it

	loads []load
	sets  map[string]*set // what NDCG and AUROC are computed from, by name
}

// load is a fixed amount of work.
type load struct {
	workload, shape string
	places          []int
	single          bool // one text at a time
	rounds          int
	perRound        int // texts of a round, of a load of single texts
	checked         []int
}

// set are contexts, questions that each belong to one of them, and texts that belong to none.
type set struct {
	contexts, questions, foreign []int
	own                          []int // the context of a question, as an index into contexts
}

const (
	squad  = "squad16"
	german = "xquad-de"
)

type line struct {
	ID         string `json:"id"`
	ContextID  string `json:"context_id"`
	Text       string `json:"text"`
	Answerable *bool  `json:"answerable"`
	Intent     string `json:"intent"`
}

// readTexts reads what the workloads need. count counts the tokens of a text.
func readTexts(o Options, count func(string) (int, error)) (t texts, err error) {
	t = texts{places: map[string]int{}, sets: map[string]*set{}}
	limit := func(n, short int) int {
		if o.Short {
			return short
		}
		return n
	}
	contexts, questions, err := readSet(o.Data, squad)
	if err != nil {
		return t, err
	}
	if o.Short {
		contexts = contexts[:min(12, len(contexts))]
	}
	if t.sets[squad], err = t.set(contexts, questions, limit(len(questions), 24)); err != nil {
		return t, err
	}
	for _, w := range o.Workloads {
		switch w {
		case Mixed:
			n := limit(2000, 24)
			t.loads = append(t.loads, load{workload: w, shape: fmt.Sprintf("%d texts", n),
				places: t.add(sentences(contexts, questions, n)), rounds: 5})
		case Contexts:
			t.loads = append(t.loads, load{workload: w, shape: fmt.Sprintf("%d texts", len(contexts)),
				places: t.sets[squad].contexts, rounds: 3})
		case Question:
			n := limit(400, 6)
			short, err := ofTokens(questions, questionTokens, n, count)
			if err != nil {
				return t, err
			}
			t.loads = append(t.loads, load{workload: w, shape: fmt.Sprintf("%d tokens", questionTokens),
				places: t.add(short), single: true, rounds: 8, perRound: limit(50, 3)})
		case Quality:
			if err := t.addQuality(o, limit); err != nil {
				return t, err
			}
		}
	}
	for i := range t.loads {
		l := &t.loads[i]
		l.checked = spread(l.places, limit(64, 4))
		if l.workload == Contexts {
			l.checked = spread(l.places, limit(24, 4))
		}
	}
	return t, nil
}

// questionTokens is the length of the questions of the load of single ones, special tokens included.
const questionTokens = 12

func (t *texts) load(workload string) load {
	return t.loads[slices.IndexFunc(t.loads, func(l load) bool { return l.workload == workload })]
}

// add adds texts that are new, and returns the places of all.
func (t *texts) add(list []string) (places []int) {
	for _, text := range list {
		at, ok := t.places[text]
		if !ok {
			at = len(t.all)
			t.places[text], t.all = at, append(t.all, text)
		}
		places = append(places, at)
	}
	return places
}

// set adds contexts and the first most of the questions that one of them answers.
func (t *texts) set(contexts, questions []line, most int) (*set, error) {
	s, at := &set{}, map[string]int{}
	for i, c := range contexts {
		at[c.ID] = i
		s.contexts = append(s.contexts, t.add([]string{c.Text})...)
	}
	for _, q := range questions {
		own, ok := at[q.ContextID]
		if !ok || q.Answerable != nil && !*q.Answerable {
			continue
		}
		if len(s.questions) == most {
			break
		}
		s.questions, s.own = append(s.questions, t.add([]string{q.Text})...), append(s.own, own)
	}
	if len(s.questions) == 0 {
		return nil, fmt.Errorf("%w: no question has a context", ErrData)
	}
	return s, nil
}

func (t *texts) addQuality(o Options, limit func(int, int) int) error {
	contexts, questions, err := readSet(o.Data, german)
	if err != nil {
		return err
	}
	if t.sets[german], err = t.set(contexts[:limit(len(contexts), min(12, len(contexts)))], questions,
		limit(len(questions), 24)); err != nil {
		return err
	}
	for _, part := range []string{"test", "validation", "train"} {
		utterances, err := readLines(filepath.Join(o.Data, "clinc150", part+".jsonl"))
		if err != nil {
			return err
		}
		for _, u := range utterances {
			if u.Intent == "oos" && len(t.sets[squad].foreign) < limit(len(utterances), 24) {
				t.sets[squad].foreign = append(t.sets[squad].foreign, t.add([]string{u.Text})...)
			}
		}
	}
	return nil
}

func readSet(data, name string) (contexts, questions []line, err error) {
	if contexts, err = readLines(filepath.Join(data, name, "contexts.jsonl")); err != nil {
		return nil, nil, err
	}
	questions, err = readLines(filepath.Join(data, name, "queries.jsonl"))
	return contexts, questions, err
}

// readLines reads a file of JSON lines; one that is absent is ErrData.
func readLines(path string) (out []line, err error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %w (--data names the folder)", ErrData, err)
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	for d := json.NewDecoder(f); d.More(); {
		var l line
		if err := d.Decode(&l); err != nil {
			return nil, fmt.Errorf("bench: %s: %w", path, err)
		}
		out = append(out, l)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%w: %s is empty", ErrData, path)
	}
	return out, nil
}

// sentences returns n texts of mixed length: questions, and sentences of contexts, in turn.
func sentences(contexts, questions []line, n int) []string {
	var parts []string
	for _, c := range contexts {
		parts = append(parts, strings.SplitAfter(c.Text, ". ")...)
	}
	out := make([]string, n)
	for i := range out {
		out[i] = questions[(i*17)%len(questions)].Text
		if i%2 == 1 {
			out[i] = strings.TrimSpace(parts[(i*5)%len(parts)])
		}
	}
	return out
}

// ofTokens returns up to n different questions with a number of tokens.
func ofTokens(questions []line, tokens, n int, count func(string) (int, error)) (out []string, err error) {
	for _, q := range questions {
		if len(out) == n {
			break
		}
		c, err := count(q.Text)
		if err != nil {
			return nil, err
		}
		if c == tokens && !slices.Contains(out, q.Text) {
			out = append(out, q.Text)
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%w: no question has %d tokens", ErrData, tokens)
	}
	return out, nil
}

// spread returns n of the places at equal distances.
func spread(places []int, n int) (out []int) {
	n = min(n, len(places))
	for i := range n {
		out = append(out, places[i*len(places)/n])
	}
	return out
}
