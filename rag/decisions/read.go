package decisions

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-rag/sluice/internal/filelock"
)

// maxLine of a log, bytes; longer ones are bad.
const maxLine = 1 << 20

// Contents is the content of a log.
type Contents struct {
	Entries []Entry        // decisions, oldest first, each with its last Thumb
	Bad     int            // lines that are no entries of this version
	Files   int            // that were read
	Orphans int            // feedback about decisions that are not in the log any more
	ByID    map[string]int // index of a decision in Entries
}

// Read reads a log with its renamed files, the oldest first. A log that is not there is fs.ErrNotExist.
func Read(file string) (*Contents, error) {
	files, err := openAll(file)
	if err != nil {
		return nil, err
	}
	defer func() {
		for _, f := range files {
			f.Close()
		}
	}()
	c := &Contents{ByID: map[string]int{}, Files: len(files)}
	for _, f := range files {
		if err := c.read(f); err != nil {
			return nil, fmt.Errorf("%w: %s: %w", ErrFile, f.Name(), err)
		}
	}
	return c, nil
}

// openAll opens the files of a log while none of them is renamed.
func openAll(file string) (files []*os.File, err error) {
	if lock, err := os.Open(file + filelock.Suffix); err == nil {
		defer lock.Close()
		_ = filelock.Wait(lock, true) // without it a file that is renamed meanwhile may be missed
	}
	dir, base := filepath.Split(file)
	older, _ := os.ReadDir(cmp.Or(dir, "."))
	type numbered struct {
		n    int
		name string
	}
	var list []numbered
	for _, e := range older {
		number, ok := strings.CutPrefix(e.Name(), base+".")
		if n, err := strconv.Atoi(number); ok && err == nil && n > 0 {
			list = append(list, numbered{n, dir + e.Name()})
		}
	}
	slices.SortFunc(list, func(a, b numbered) int { return cmp.Compare(b.n, a.n) })
	for _, x := range append(list, numbered{0, file}) {
		f, err := os.Open(x.name)
		switch {
		case errors.Is(err, fs.ErrNotExist) && len(list) > 0 && x.n == 0:
		case err != nil:
			for _, f := range files {
				f.Close()
			}
			return nil, fmt.Errorf("%w: %w", ErrFile, err)
		default:
			files = append(files, f)
		}
	}
	return files, nil
}

func (c *Contents) read(r io.Reader) error {
	in := bufio.NewReaderSize(r, 64<<10)
	for {
		line, err := readLine(in)
		if len(line) > 0 || err == nil {
			c.line(line)
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
}

// readLine returns a line without its end; of one that is too long, its beginning, which is bad.
func readLine(in *bufio.Reader) (line []byte, err error) {
	for {
		part, err := in.ReadSlice('\n')
		if len(line) <= maxLine {
			line = append(line, part...)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
	}
}

func (c *Contents) line(line []byte) {
	if len(strings.TrimSpace(string(line))) == 0 {
		return
	}
	var e Entry
	if len(line) > maxLine || json.Unmarshal(line, &e) != nil || e.Version != version || !plausible(e.ID) {
		c.Bad++
		return
	}
	at, known := c.ByID[e.ID]
	switch {
	case e.Kind == kindDecision && !known:
		e.Thumb = ""
		c.ByID[e.ID] = len(c.Entries)
		c.Entries = append(c.Entries, e)
	case e.Kind == kindFeedback && known && (e.Thumb == Up || e.Thumb == Down):
		c.Entries[at].Thumb = e.Thumb
	case e.Kind == kindFeedback && !known:
		c.Orphans++
	default:
		c.Bad++
	}
}

// Report counts what a log says.
type Report struct {
	Files     int `json:"files"`
	Bad       int `json:"bad_lines"`
	Decisions int `json:"decisions"`
	Open      int `json:"open"`
	Up        int `json:"up"`
	Down      int `json:"down"`
	InScope   int `json:"in_scope"`     // by feedback: the store should be used
	OutScope  int `json:"out_of_scope"` // by feedback: it should not
	// Shadows are counted for each shadow policy and threshold that was tried.
	Shadows []ShadowReport `json:"shadows,omitempty"`
}

// ShadowReport compares a shadow with the policies that were in force.
type ShadowReport struct {
	Policy    string  `json:"policy"`
	Threshold float64 `json:"threshold"`
	Decisions int     `json:"decisions"`
	Disagrees int     `json:"disagrees"`
	Opens     int     `json:"opens"`  // of Disagrees: it would open, the gate was closed
	Closes    int     `json:"closes"` // of Disagrees: it would close, the gate was open
	Right     int     `json:"right"`  // of Disagrees with feedback: the shadow was right
	Wrong     int     `json:"wrong"`  // of Disagrees with feedback: the gate was right
}

// InScope returns what feedback says about a question: whether the store should be used. Thumbs up confirm the
// decision, thumbs down reject it. ok is false without feedback, and if the query was not decided.
func (e Entry) InScope() (in, ok bool) {
	if e.Thumb == "" || e.Reason != "" {
		return false, false
	}
	return e.Retrieve == (e.Thumb == Up), true
}

// Report counts.
func (c *Contents) Report() Report {
	r := Report{Files: c.Files, Bad: c.Bad, Decisions: len(c.Entries)}
	for _, e := range c.Entries {
		if e.Retrieve {
			r.Open++
		}
		switch e.Thumb {
		case Up:
			r.Up++
		case Down:
			r.Down++
		}
		in, labelled := e.InScope()
		if labelled && in {
			r.InScope++
		} else if labelled {
			r.OutScope++
		}
		if e.Shadow != nil {
			r.shadow(e, in, labelled)
		}
	}
	return r
}

func (r *Report) shadow(e Entry, in, labelled bool) {
	i := slices.IndexFunc(r.Shadows, func(s ShadowReport) bool {
		return s.Policy == e.Shadow.Policy && s.Threshold == e.Shadow.Threshold
	})
	if i < 0 {
		i = len(r.Shadows)
		r.Shadows = append(r.Shadows, ShadowReport{Policy: e.Shadow.Policy, Threshold: e.Shadow.Threshold})
	}
	s := &r.Shadows[i]
	s.Decisions++
	if e.Shadow.Retrieve == e.Retrieve {
		return
	}
	s.Disagrees++
	if e.Shadow.Retrieve {
		s.Opens++
	} else {
		s.Closes++
	}
	switch {
	case !labelled:
	case e.Shadow.Retrieve == in:
		s.Right++
	default:
		s.Wrong++
	}
}
