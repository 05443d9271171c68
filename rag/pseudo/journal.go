package pseudo

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/sluice-rag/sluice/internal/durable"
	"github.com/sluice-rag/sluice/internal/filelock"
)

// settings hold what the model's answers depend on besides the context. They are the journal's first line; a journal
// with other settings is refused, because this run would get different answers.
type settings struct {
	Journal     int    `json:"sluice_journal"`
	Model       string `json:"model"`
	ModelSHA256 string `json:"model_sha256"`
	PerContext  int    `json:"per_context"`
	MaxTokens   int    `json:"max_tokens"`
	Seed        uint64 `json:"seed"`
}

const journalVersion = 1

// entry is the model's answer about one context. The filters are applied again in each run: they are cheap, and depend
// on the whole base.
type entry struct {
	Context string `json:"context"`
	Digest  string `json:"digest"` // of the requests: an entry about an older text or prompt is not used
	// Text is the digest of the requests without their seeds, which depend on the context's id: a context that got
	// another id, because its file has moved, has been asked about already.
	Text string   `json:"text"`
	Raw  []answer `json:"raw"`
}

// answer is a line of a completion; Cut says that it ran into a limit.
type answer struct {
	Text string `json:"text"`
	Cut  bool   `json:"cut,omitempty"`
}

// journal keeps finished contexts in a JSONL file. A nil *journal keeps nothing.
type journal struct {
	mu   sync.Mutex
	lock *filelock.Lock
	f    *os.File
	done map[string]entry // by context id
	text map[string]entry // by entry.Text
}

// openJournal opens or begins the journal at path ("" = none). A last line without its end is the trace of
// a kill and is cut off; anything else that cannot be read is ErrJournal. While another journal is open at the path it
// is filelock.ErrHeld: the lines of two would mix, and the last line of a writer looks like the trace of a kill.
func openJournal(path string, s settings) (_ *journal, err error) {
	if path == "" {
		return nil, nil
	}
	j := &journal{done: map[string]entry{}, text: map[string]entry{}}
	if j.lock, err = filelock.Take(path); err != nil {
		return nil, fmt.Errorf("pseudo: journal: %w", err)
	}
	if j.f, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE, durable.FileMode(filepath.Dir(path))); err != nil {
		return nil, errors.Join(fmt.Errorf("pseudo: journal: %w", err), j.lock.Release())
	}
	if err := errors.Join(durable.SyncDir(filepath.Dir(path)), j.read(path, s)); err != nil {
		return nil, errors.Join(err, j.close())
	}
	return j, nil
}

func (j *journal) read(path string, s settings) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("pseudo: journal: %w", err)
	}
	head, err := json.Marshal(s)
	if err != nil {
		return err
	}
	whole := text[:bytes.LastIndexByte(text, '\n')+1]
	if len(whole) == 0 && !bytes.HasPrefix(head, text) { // not even the trace of a kill at the first line
		return fmt.Errorf("%w: %s: it is not a journal of pseudo-queries; name another file", ErrJournal, path)
	}
	for i, line := range slices.Collect(bytes.Lines(whole)) {
		if i == 0 {
			if err := s.same(line); err != nil {
				return fmt.Errorf("%w: %s: %w; name another file or remove it", ErrJournal, path, err)
			}
			continue
		}
		var e entry
		if err := json.Unmarshal(line, &e); err != nil || e.Context == "" {
			return fmt.Errorf("%w: %s:%d is damaged; name another file or remove it", ErrJournal, path, i+1)
		}
		j.learn(e)
	}
	if err := j.f.Truncate(int64(len(whole))); err != nil {
		return fmt.Errorf("pseudo: journal %s: %w", path, err)
	}
	if _, err := j.f.Seek(int64(len(whole)), io.SeekStart); err != nil {
		return fmt.Errorf("pseudo: journal %s: %w", path, err)
	}
	if len(whole) == 0 {
		return j.append(s)
	}
	return nil
}

// same returns the first setting in which a journal's first line differs.
func (s settings) same(line []byte) error {
	var other settings
	if err := json.Unmarshal(line, &other); err != nil || other.Journal == 0 {
		return errors.New("it is not a journal of pseudo-queries")
	}
	for _, x := range []struct {
		name       string
		then, here any
	}{
		{"journal version", other.Journal, s.Journal},
		{"model", other.Model + " " + other.ModelSHA256, s.Model + " " + s.ModelSHA256},
		{"questions per context", other.PerContext, s.PerContext},
		{"maximum of tokens", other.MaxTokens, s.MaxTokens},
		{"seed", other.Seed, s.Seed},
	} {
		if x.then != x.here {
			return fmt.Errorf("it was made with %s %v, now it is %v", x.name, x.then, x.here)
		}
	}
	return nil
}

// learn takes an entry in.
func (j *journal) learn(e entry) {
	j.done[e.Context] = e
	j.text[e.Text] = e
}

// find returns what the journal holds about a context, if it was asked the same, or about another one with its text.
func (j *journal) find(context, digest, text string) (entry, bool) {
	if j == nil {
		return entry{}, false
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if e, ok := j.done[context]; ok && e.Digest == digest {
		return e, true
	}
	e, ok := j.text[text]
	return e, ok
}

// add makes a finished context durable.
func (j *journal) add(e entry) error {
	if j == nil {
		return nil
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.append(e)
}

func (j *journal) append(v any) error {
	line, err := json.Marshal(v)
	if err == nil {
		_, err = j.f.Write(append(line, '\n'))
	}
	if err == nil {
		err = j.f.Sync()
	}
	if err != nil {
		return fmt.Errorf("pseudo: journal: %w", err)
	}
	return nil
}

func (j *journal) close() error {
	if j == nil {
		return nil
	}
	return errors.Join(j.f.Close(), j.lock.Release())
}

// Asked returns the ids of the contexts that a journal holds answers about; none of one that is not there or cannot be
// read.
func Asked(path string) map[string]bool {
	asked := map[string]bool{}
	text, err := os.ReadFile(path)
	if err != nil {
		return asked
	}
	for line := range bytes.Lines(text) {
		var e entry
		if json.Unmarshal(line, &e) == nil && e.Context != "" {
			asked[e.Context] = true
		}
	}
	return asked
}
