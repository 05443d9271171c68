package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/sluice-rag/sluice/internal/durable"
	"github.com/sluice-rag/sluice/internal/filelock"
)

// sessionFolder is where a store's conversations are kept, a file each.
const sessionFolder = "chat"

var sessionName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// session is a conversation that is kept: a file of JSON lines, each a turn, or a line that what came before is
// forgotten. A line that was cut short by a crash is left out.
type session struct {
	file *os.File // nil: the conversation is not kept
	lock *filelock.Lock
}

// sessionLine is a line of the file.
type sessionLine struct {
	chatTurn
	Cleared bool `json:"cleared,omitempty"`
}

// openSession opens the conversation of a name in a store's folder and returns its turns.
func openSession(store, name string) (s session, turns []chatTurn, err error) {
	if !sessionName.MatchString(name) {
		return s, nil, usagef("--session %.80q: letters, digits, '.', '_' and '-' only, at most 64", name)
	}
	if _, err := os.Stat(store); err != nil {
		return s, nil, fmt.Errorf("a session is kept in the store: %w", err)
	}
	dir := filepath.Join(store, sessionFolder)
	if err := durable.MkdirPrivate(dir, durable.SyncDir); err != nil {
		return s, nil, err
	}
	path := filepath.Join(dir, name+".jsonl")
	if s.lock, err = filelock.Take(path); err != nil {
		return s, nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	if s.file, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return s, nil, err
	}
	whole, lines := int64(0), bufio.NewReader(s.file)
	for {
		raw, readErr := lines.ReadBytes('\n')
		if readErr != nil { // the end, or a line that was cut short
			break
		}
		var l sessionLine
		if err := json.Unmarshal(raw, &l); err != nil || l.Answer == nil && !l.Cleared {
			return s, nil, fmt.Errorf("%s: byte %d: not a turn of a conversation", path, whole)
		}
		whole += int64(len(raw))
		if turns = append(turns, l.chatTurn); l.Cleared {
			turns = nil
		}
	}
	if err = s.file.Truncate(whole); err == nil {
		_, err = s.file.Seek(whole, 0)
	}
	return s, turns[max(0, len(turns)-maxTurns):], err
}

// add keeps a turn, or that those before are forgotten.
func (s session) add(l sessionLine) error {
	if s.file == nil {
		return nil
	}
	raw, err := json.Marshal(l)
	if err == nil {
		_, err = s.file.Write(append(raw, '\n'))
	}
	return errors.Join(err, s.file.Sync())
}

func (s session) close() error {
	if s.file == nil {
		return s.lock.Release()
	}
	return errors.Join(s.file.Close(), s.lock.Release())
}

// listSessions prints the names of the kept conversations.
func (a *app) listSessions(store string) error {
	files, err := os.ReadDir(filepath.Join(store, sessionFolder))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, f := range files {
		name, ok := strings.CutSuffix(f.Name(), ".jsonl")
		info, infoErr := f.Info()
		if !ok || infoErr != nil {
			continue
		}
		if a.json {
			err = errors.Join(err, a.printJSON(map[string]any{"session": name, "modified": info.ModTime()}))
			continue
		}
		_, printErr := fmt.Fprintf(a.stdout, "%s  %s\n", info.ModTime().Format("2006-01-02 15:04"), name)
		err = errors.Join(err, printErr)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
