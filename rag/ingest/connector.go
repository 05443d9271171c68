package ingest

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"time"

	"github.com/sluice-rag/sluice/internal/panics"
	"github.com/sluice-rag/sluice/rag/corpus"
	"github.com/sluice-rag/sluice/rag/corpus/doc"
	"github.com/sluice-rag/sluice/rag/knowledge"
	"github.com/sluice-rag/sluice/rag/store"
)

// ErrConnector is wrapped by the error of a connector that has failed.
var ErrConnector = errors.New("ingest: the connector failed")

// CursorVariable is the environment variable in which a connector finds its last cursor, "" the first time.
const CursorVariable = "SLUICE_CURSOR"

// Connector is a program that writes documents to its standard output, one JSON object a line:
//
//	{"id","text","title"?,"topic"?,"source"?,"access"?,…}  a document; other fields are its metadata
//	{"id","bytes","type","source"?,"access"?}              a file in base64; type is an ending (pdf) or a media type
//	{"id","deleted":true}                                  a document that is gone
//	{"cursor"}                                             a text: all before it need not be written again
//
// Documents are kept under their ids. A cursor is kept when what came before it is durable, and the program finds it in
// CursorVariable the next time. What it says on its standard error goes to Stderr.
type Connector struct {
	Command string // for sh -c
	Stderr  io.Writer
	// Ending returns the ending of files of a media type; nil if only endings are given.
	Ending func(mediaType string) string
}

const (
	connectorBatch = 256             // documents that are ingested together
	connectorBytes = 16 << 20        // or so many bytes
	connectorIdle  = time.Second     // or what has come when nothing more comes for so long
	connectorGrace = 5 * time.Second // for a program that is asked to end
	maxIDBytes     = 4 << 10
)

// connectorLine is what a line is looked at for before its other fields are read.
type connectorLine struct {
	ID      string          `json:"id"`
	Bytes   *string         `json:"bytes"`
	Type    string          `json:"type"`
	Source  string          `json:"source"`
	Deleted bool            `json:"deleted"`
	Cursor  *string         `json:"cursor"`
	Access  json.RawMessage `json:"access"`
}

// connecting is one run of a connector.
type connecting struct {
	Connector
	base   *knowledge.Base
	in     Input
	result Result

	dir   string
	texts strings.Builder // documents with a text, as JSON lines
	files []connectedFile
	ids   map[string]bool // of both
	size  int
	lines int
}

type connectedFile struct {
	path   string
	line   connectorLine
	groups []string
}

// Connect ingests what a connector writes, with the options of in, whose Paths are not used. It returns when the
// program has ended, with an ErrConnector if that was with an error; what it wrote before is kept.
func Connect(ctx context.Context, base *knowledge.Base, c Connector, in Input) (_ Result, err error) {
	x := &connecting{Connector: c, base: base, in: in, ids: map[string]bool{}}
	started := time.Now()
	if x.dir, err = os.MkdirTemp("", "sluice-connector-"); err != nil {
		return x.result, err
	}
	defer os.RemoveAll(x.dir) //nolint:errcheck // it is of this run alone
	cursor, err := x.cursor(ctx)
	if err != nil {
		return x.result, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", c.Command)
	cmd.Env = append(os.Environ(), CursorVariable+"="+cursor)
	cmd.Stderr = c.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // what it has started ends with it
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = connectorGrace
	out, err := cmd.StdoutPipe()
	if err != nil {
		return x.result, err
	}
	if err := cmd.Start(); err != nil {
		return x.result, fmt.Errorf("%w: %w", ErrConnector, err)
	}
	err = x.read(ctx, out)
	if err != nil {
		cancel()
	}
	ended := cmd.Wait()
	x.result.Seconds = time.Since(started).Seconds()
	switch {
	case err != nil:
		return x.result, err
	case ended != nil && ctx.Err() != nil:
		return x.result, ctx.Err()
	case ended != nil:
		return x.result, fmt.Errorf("%w: %w", ErrConnector, ended)
	}
	return x.result, nil
}

// cursorKey is where the store keeps the cursor of a command.
func (x *connecting) cursorKey() string {
	sum := sha256.Sum256([]byte(x.Command))
	return "cursor " + hex.EncodeToString(sum[:16])
}

func (x *connecting) cursor(ctx context.Context) (string, error) {
	st, err := x.base.Reader(ctx)
	if errors.Is(err, store.ErrNotFound) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	raw, err := st.Meta(ctx, x.cursorKey())
	if errors.Is(err, store.ErrNotFound) {
		return "", nil
	}
	return string(raw), err
}

// read reads lines until the end of the output. Lines that came are ingested when nothing more comes for a while.
func (x *connecting) read(ctx context.Context, out io.Reader) error {
	limit := x.in.MaxFileBytes
	if limit <= 0 {
		limit = corpus.DefaultMaxFileBytes
	}
	lines := make(chan []byte)
	failed := make(chan error, 1)
	go func() {
		defer close(lines)
		var err error
		defer func() { failed <- err }()
		defer panics.Into(&err)
		s := bufio.NewScanner(out)
		s.Buffer(make([]byte, 64<<10), int(min(2*limit, 1<<30))) // bytes are in base64
		for s.Scan() {
			select {
			case lines <- append([]byte(nil), s.Bytes()...):
			case <-ctx.Done():
				return
			}
		}
		if err = s.Err(); errors.Is(err, bufio.ErrTooLong) {
			err = fmt.Errorf("%w: a line is longer than %d bytes (ingest.max_file_mib)", ErrConnector, 2*limit)
		}
	}()
	for {
		var idle <-chan time.Time
		if len(x.ids) > 0 {
			idle = time.After(connectorIdle)
		}
		select {
		case line, ok := <-lines:
			if !ok {
				err := <-failed
				if ctx.Err() != nil {
					return ctx.Err()
				}
				return errors.Join(x.flush(ctx), err)
			}
			if err := x.line(ctx, line); err != nil {
				return err
			}
		case <-idle:
			if err := x.flush(ctx); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// line takes one line.
func (x *connecting) line(ctx context.Context, raw []byte) error {
	x.lines++
	if len(strings.TrimSpace(string(raw))) == 0 {
		return nil
	}
	var l connectorLine
	err := json.Unmarshal(raw, &l)
	switch {
	case err == nil && l.Cursor != nil && l.ID == "":
		if err := x.flush(ctx); err != nil {
			return err
		}
		return x.keep(ctx, *l.Cursor)
	case err == nil && (l.ID == "" || len(l.ID) > maxIDBytes):
		err = fmt.Errorf("an id of 1 to %d bytes is needed, given %d", maxIDBytes, len(l.ID))
	case err == nil && l.Deleted:
		return x.remove(ctx, l.ID)
	}
	if err == nil && (x.ids[l.ID] || len(x.ids) >= connectorBatch || x.size+len(raw) > connectorBytes) {
		if err := x.flush(ctx); err != nil {
			return err
		}
	}
	if err == nil && l.Bytes != nil {
		err = x.file(l)
	}
	if err != nil {
		return x.skip(fmt.Errorf("%w: %w", corpus.ErrFormat, err))
	}
	if l.Bytes == nil {
		x.texts.Write(raw)
		x.texts.WriteByte('\n')
	}
	x.ids[l.ID] = true
	x.size += len(raw)
	return nil
}

// skip reports a line that cannot be read.
func (x *connecting) skip(err error) error {
	source := fmt.Sprintf("line %d of the connector", x.lines)
	if x.in.Strict {
		return fmt.Errorf("%s: %w", source, err)
	}
	x.result.Skipped++
	if x.in.OnSkip != nil {
		x.in.OnSkip(corpus.Skipped{Source: source, Err: err})
	}
	return nil
}

// file writes the bytes of a document into a file of its format.
func (x *connecting) file(l connectorLine) error {
	ending := strings.TrimPrefix(strings.ToLower(l.Type), ".")
	if strings.Contains(ending, "/") && x.Ending != nil {
		ending = x.Ending(ending)
	}
	if ending == "" || strings.ContainsAny(ending, "/\x00") || !corpus.IsRead("."+ending) {
		return fmt.Errorf("type %.80q is no format that is read (it is an ending, such as pdf, or a media type)", l.Type)
	}
	content, err := base64.StdEncoding.DecodeString(*l.Bytes)
	if err != nil {
		return fmt.Errorf("bytes: %w", err)
	}
	f := connectedFile{path: filepath.Join(x.dir, fmt.Sprintf("%d.%s", x.lines, ending)), line: l}
	if len(l.Access) > 0 {
		if f.groups = doc.Groups(l.Access); len(f.groups) == 0 {
			return errors.New("access names no group")
		}
	}
	x.files = append(x.files, f)
	return os.WriteFile(f.path, content, 0o600)
}

// flush ingests what has come.
func (x *connecting) flush(ctx context.Context) error {
	if len(x.ids) == 0 {
		return nil
	}
	texts, files := x.texts.String(), x.files
	x.texts, x.files, x.ids, x.size = strings.Builder{}, nil, map[string]bool{}, 0
	if texts != "" {
		path := filepath.Join(x.dir, "texts.jsonl")
		if err := os.WriteFile(path, []byte(texts), 0o600); err != nil {
			return err
		}
		o := x.in.Options
		o.Pages, o.Sources = map[string]string{path: "connector"}, map[string]string{}
		if err := x.ingest(ctx, []string{path}, o); err != nil {
			return err
		}
	}
	for _, group := range byGroups(files) {
		o := x.in.Options
		o.Pages, o.Sources = map[string]string{}, map[string]string{}
		if group[0].groups != nil {
			o.Access = group[0].groups
		}
		var paths []string
		for _, f := range group {
			o.Pages[f.path], o.Sources[f.line.ID] = f.line.ID, f.line.Source
			paths = append(paths, f.path)
		}
		err := x.ingest(ctx, paths, o)
		for _, path := range paths {
			err = errors.Join(err, os.Remove(path))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// byGroups returns the files, those of the same groups together.
func byGroups(files []connectedFile) (all [][]connectedFile) {
	at := map[string]int{}
	for _, f := range files {
		key := strings.Join(f.groups, "\x00")
		i, ok := at[key]
		if !ok {
			i = len(all)
			at[key], all = i, append(all, nil)
		}
		all[i] = append(all[i], f)
	}
	return all
}

func (x *connecting) ingest(ctx context.Context, paths []string, o Options) error {
	in := x.in
	in.Paths, in.Options = paths, o
	r, err := Run(ctx, x.base, in)
	x.result.add(r)
	if errors.Is(err, corpus.ErrNoDocument) { // each was reported
		return nil
	}
	return err
}

// remove removes a document, if it is there.
func (x *connecting) remove(ctx context.Context, id string) error {
	if err := x.flush(ctx); err != nil {
		return err
	}
	st, err := x.base.Writer(ctx, nil)
	if err == nil {
		_, err = st.DeleteDocuments(ctx, []string{id})
	}
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err == nil {
		x.result.Removed++
	}
	return x.base.Changed(err)
}

// keep keeps a cursor; without a store there is nothing that it could be about.
func (x *connecting) keep(ctx context.Context, cursor string) error {
	st, err := x.base.Writer(ctx, nil)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	return st.SetMeta(ctx, x.cursorKey(), []byte(cursor))
}

// add adds the counts of another result.
func (r *Result) add(other Result) {
	to, from := reflect.ValueOf(r).Elem(), reflect.ValueOf(other)
	for i := range to.NumField() {
		if to.Field(i).Kind() == reflect.Int {
			to.Field(i).SetInt(to.Field(i).Int() + from.Field(i).Int())
		}
	}
	for key, n := range other.Foreign {
		if r.Foreign == nil {
			r.Foreign = map[string]int{}
		}
		r.Foreign[key] += n
	}
	for key, n := range other.Cleaned {
		if r.Cleaned == nil {
			r.Cleaned = map[corpus.Cleaner]int{}
		}
		r.Cleaned[key] += n
	}
}
