package experiment

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/sluice-rag/sluice/eval/metric"
	"github.com/sluice-rag/sluice/internal/filelock"
)

// Item is the result of a question in a cell.
type Item struct {
	Scores    map[string]metric.Score `json:"scores"`
	MS        map[string]float64      `json:"ms,omitempty"` // milliseconds by stage
	Calls     int                     `json:"calls"`        // of the generator
	Open      *bool                   `json:"open,omitempty"`
	Tokens    int                     `json:"tokens,omitempty"`  // of language models: prompts and completions
	Visits    map[string]int          `json:"visits,omitempty"`  // of the nodes of the graph
	Retries   int                     `json:"retries,omitempty"` // retry edges taken
	Unknown   bool                    `json:"unknown,omitempty"` // the answer is "I don't know"
	Retrieved []string                `json:"retrieved,omitempty"`
	Answer    string                  `json:"answer,omitempty"`
	Model     string                  `json:"model,omitempty"` // digest of the weights that were trained for it
	Asked     *Asked                  `json:"asked,omitempty"` // of an answer
}

// Asked says what an answer is the answer to, for readers of the journal who do not have the experiment.
type Asked struct {
	Part     string `json:"part"`
	Cell     string `json:"cell"`  // names the combination by what is not the default in it
	Model    string `json:"model"` // generator
	Question string `json:"question"`
}

// journal keeps finished items: a line with its version, then a line for each item. Lines are appended whole; what a
// kill has torn is cut off.
type journal struct {
	path string
	lock *filelock.Lock
	f    *os.File
	done map[string]map[string]Item // by cell and id
}

// Journal is the name of the journal in the folder of the results.
const Journal = "journal.jsonl"

const journalVersion = 1

type journalHead struct {
	Version int `json:"sluice_experiment"`
}

type journalLine struct {
	Cell string `json:"cell"`
	ID   string `json:"id"`
	Item Item   `json:"item"`
}

func openJournal(path string) (_ *journal, err error) {
	j := &journal{path: path, done: map[string]map[string]Item{}}
	if j.lock, err = filelock.Take(path); err != nil {
		return nil, fmt.Errorf("experiment: journal: %w", err)
	}
	if j.f, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644); err != nil {
		return nil, errors.Join(fmt.Errorf("experiment: journal: %w", err), j.lock.Release())
	}
	if err := j.read(); err != nil {
		return nil, errors.Join(err, j.close())
	}
	return j, nil
}

func (j *journal) read() error {
	text, err := io.ReadAll(j.f)
	if err != nil {
		return fmt.Errorf("experiment: journal: %w", err)
	}
	head, err := json.Marshal(journalHead{journalVersion})
	if err != nil {
		return err
	}
	whole := text[:bytes.LastIndexByte(text, '\n')+1]
	if len(whole) == 0 && !bytes.HasPrefix(head, text) {
		return fmt.Errorf("%w: %s is not the journal of an experiment; name another folder", ErrJournal, j.path)
	}
	n := 0
	for line := range bytes.Lines(whole) {
		if n++; n == 1 {
			var h journalHead
			if err := json.Unmarshal(line, &h); err != nil || h.Version != journalVersion {
				return fmt.Errorf("%w: %s is not a journal of version %d; name another folder, or remove it",
					ErrJournal, j.path, journalVersion)
			}
			continue
		}
		var l journalLine
		if err := json.Unmarshal(line, &l); err != nil || l.Cell == "" {
			return fmt.Errorf("%w: %s:%d is damaged; remove that line", ErrJournal, j.path, n)
		}
		j.keep(l)
	}
	err = j.f.Truncate(int64(len(whole)))
	if err == nil {
		_, err = j.f.Seek(int64(len(whole)), io.SeekStart)
	}
	if err == nil && len(whole) == 0 {
		err = j.write(journalHead{journalVersion})
	}
	if err != nil {
		return fmt.Errorf("experiment: journal %s: %w", j.path, err)
	}
	return nil
}

func (j *journal) keep(l journalLine) {
	if j.done[l.Cell] == nil {
		j.done[l.Cell] = map[string]Item{}
	}
	j.done[l.Cell][l.ID] = l.Item
}

// add appends an item. It is with the system then, which a kill of this process does not take back.
func (j *journal) add(cell, id string, it Item) error {
	l := journalLine{cell, id, it}
	if err := j.write(l); err != nil {
		return fmt.Errorf("experiment: journal %s: %w", j.path, err)
	}
	j.keep(l)
	return nil
}

func (j *journal) write(v any) error {
	line, err := json.Marshal(v)
	if err == nil {
		_, err = j.f.Write(append(line, '\n'))
	}
	return err
}

func (j *journal) close() error { return errors.Join(j.f.Sync(), j.f.Close(), j.lock.Release()) }
