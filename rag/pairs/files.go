package pairs

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/internal/durable"
	"github.com/sluice-rag/sluice/internal/filemap"
)

// A state is the file that Keep names, and parts beside it that it lists. Parts never change: a new state has new ones
// beside those it takes over. The file is replaced at last and at once, and then what it does not list is removed:
//
//	magic with a version · length of a JSON header · header · contexts · queries · CRC-32C, all little-endian

const stateMagic = "SLCSTAT\x01"

// header is the JSON of a state.
type header struct {
	Config   config           `json:"config"`
	Brackets *engine.Brackets `json:"brackets"`
	Parts    []partFile       `json:"parts"`
	Contexts int              `json:"contexts"`
	Queries  int              `json:"queries"`
}

// config holds what the counts of a state depend on besides the rows.
type config struct {
	Encoder   string              `json:"encoder"`
	Metric    string              `json:"metric"`
	Negatives engine.NegativeKind `json:"negatives"`
	Dim       int                 `json:"dim"`
	Quantiles []float64           `json:"quantiles"`
	Bins      int                 `json:"bins"`
	Groups    bool                `json:"groups"` // contexts are in more than one
	Limit     int64               `json:"limit"`
}

// partFile is a part beside the state.
type partFile struct {
	Name string `json:"name"`
	Size int64  `json:"size"`
	Sum  uint32 `json:"sum"` // the CRC-32C that the file ends with
}

// piece is a part with the file that holds it, if one does.
type piece struct {
	part *engine.Part
	file *partFile
}

// state is the state kept by an earlier call.
type state struct {
	header
	contexts []contextRow
	queries  []queryRow
	pieces   []piece
	mapped   [][]byte
	size     int64 // bytes of its files
}

func (s *state) close() {
	for _, m := range s.mapped {
		_ = filemap.Unmap(m) // of what was mapped it does not fail
	}
	s.mapped = nil
}

func (c *counting) config() config {
	in := &c.in
	more := slices.ContainsFunc(in.Group, func(g int32) bool { return g != in.Group[0] })
	return config{in.Encoder, in.Metric.String(), in.Negatives.Kind, in.Contexts.Dim, in.Quantiles, in.Bins, more,
		in.Limit}
}

// differs names what the counts of a state do not fit in; "" if they do.
func (s config) differs(now config) string {
	switch {
	case s.Encoder != now.Encoder || s.Dim != now.Dim:
		return "the kept counts are of another encoder"
	case s.Metric != now.Metric:
		return fmt.Sprintf("the kept counts are of the metric %s", s.Metric)
	case s.Negatives != now.Negatives:
		return "the kept counts are of other negatives"
	case s.Groups != now.Groups:
		return "the kept counts are of one topic, or of several, and now it is otherwise"
	case !slices.Equal(s.Quantiles, now.Quantiles) || s.Bins != now.Bins || s.Limit != now.Limit:
		return "the kept counts are of other quantiles, bins or of another limit"
	}
	return ""
}

// open reads the state; without one that fits, a reason.
func (c *counting) open() (s *state, reason string) {
	data, err := os.ReadFile(c.in.File)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, "nothing is kept yet"
	}
	if err != nil {
		return nil, fmt.Sprintf("the kept counts cannot be read: %v", err)
	}
	if s, err = decodeState(data); err != nil {
		return nil, fmt.Sprintf("the kept counts are damaged, or of another version: %v", err)
	}
	if reason := s.Config.differs(c.config()); reason != "" {
		return nil, reason
	}
	s.size = int64(len(data))
	for i := range s.Parts {
		if err := s.read(filepath.Dir(c.in.File), &s.Parts[i]); err != nil {
			s.close()
			return nil, fmt.Sprintf("the kept counts are damaged, or of another version: %v", err)
		}
	}
	return s, ""
}

// read maps a part.
func (s *state) read(dir string, f *partFile) error {
	if f.Name != filepath.Base(f.Name) {
		return fmt.Errorf("%q is no name of a part", f.Name)
	}
	file, err := os.Open(filepath.Join(dir, f.Name))
	if err != nil {
		return err
	}
	defer file.Close() // the mapping outlives it
	info, err := file.Stat()
	if err != nil {
		return err
	}
	data, err := filemap.Map(file, info.Size(), true) // all of it is read for the checksum
	if err != nil {
		return err
	}
	s.mapped = append(s.mapped, data)
	if int64(len(data)) != f.Size || len(data) < 4 || binary.LittleEndian.Uint32(data[len(data)-4:]) != f.Sum {
		return fmt.Errorf("%s is not the part that was written", f.Name)
	}
	p := new(engine.Part)
	if err := p.UnmarshalShared(data); err != nil {
		return err
	}
	s.pieces, s.size = append(s.pieces, piece{p, f}), s.size+f.Size
	return nil
}

const (
	contextBytes = 8 + 8 + 4 + 4
	queryBytes   = 8 + 4 + 4 + 32
)

var errState = errors.New("pairs: not a state")

func decodeState(data []byte) (*state, error) {
	le := binary.LittleEndian
	if len(data) < len(stateMagic)+8 || string(data[:len(stateMagic)]) != stateMagic {
		return nil, fmt.Errorf("%w of this version: %d bytes", errState, len(data))
	}
	body, want := data[:len(data)-4], le.Uint32(data[len(data)-4:])
	if got := durable.Checksum(body); got != want {
		return nil, fmt.Errorf("%w: checksum %08x, want %08x", errState, got, want)
	}
	body = body[len(stateMagic):]
	size := int64(le.Uint32(body))
	if body = body[4:]; size > int64(len(body)) {
		return nil, fmt.Errorf("%w: a header of %d bytes", errState, size)
	}
	s := &state{}
	if err := json.Unmarshal(body[:size], &s.header); err != nil {
		return nil, fmt.Errorf("%w: %w", errState, err)
	}
	body = body[size:]
	if s.Contexts < 0 || s.Queries < 0 || s.Brackets == nil || len(s.Parts) == 0 ||
		int64(len(body)) != contextBytes*int64(s.Contexts)+queryBytes*int64(s.Queries) {
		return nil, fmt.Errorf("%w: %d contexts and %d queries in %d bytes, %d parts", errState, s.Contexts, s.Queries,
			len(body), len(s.Parts))
	}
	s.contexts, s.queries = make([]contextRow, s.Contexts), make([]queryRow, s.Queries)
	for i := range s.contexts {
		s.contexts[i] = contextRow{le.Uint64(body), int64(le.Uint64(body[8:])), int32(le.Uint32(body[16:])),
			le.Uint32(body[20:])}
		body = body[contextBytes:]
	}
	for i := range s.queries {
		s.queries[i] = queryRow{le.Uint64(body), int32(le.Uint32(body[8:])), le.Uint32(body[12:]),
			[32]byte(body[16:48])}
		if o := s.queries[i].owner; o < 0 || int(o) >= s.Contexts {
			return nil, fmt.Errorf("%w: query %d of context %d of %d", errState, i, o, s.Contexts)
		}
		body = body[queryBytes:]
	}
	return s, nil
}

func encodeState(h header, contexts []contextRow, queries []queryRow) ([]byte, error) {
	le := binary.LittleEndian
	h.Contexts, h.Queries = len(contexts), len(queries)
	text, err := json.Marshal(h)
	if err != nil {
		return nil, err
	}
	out := make([]byte, 0, 64+len(text)+contextBytes*len(contexts)+queryBytes*len(queries))
	out = append(le.AppendUint32(append(out, stateMagic...), uint32(len(text))), text...)
	for _, c := range contexts {
		out = le.AppendUint32(le.AppendUint64(le.AppendUint64(out, c.id), uint64(c.row)), uint32(c.group))
		out = le.AppendUint32(out, c.crc)
	}
	for _, q := range queries {
		out = le.AppendUint32(le.AppendUint32(le.AppendUint64(out, q.id), uint32(q.owner)), q.crc)
		out = append(out, q.name[:]...)
	}
	return le.AppendUint32(out, durable.Checksum(out)), nil
}

// write puts a state in the place of the last one, and returns the bytes of its files.
func (c *counting) write(b *engine.Brackets, pieces []piece) (size int64, err error) {
	h := header{Config: c.config(), Brackets: b}
	if err := c.writeParts(pieces); err != nil {
		return 0, err
	}
	for _, p := range pieces {
		h.Parts = append(h.Parts, *p.file)
		size += p.file.Size
	}
	contexts, queries := c.rows()
	data, err := encodeState(h, contexts, queries)
	if err != nil {
		return 0, err
	}
	err = durable.Replace(c.in.File, func(w io.Writer) error { _, err := w.Write(data); return err })
	if err != nil {
		return 0, err
	}
	c.clean(h.Parts)
	return size + int64(len(data)), nil
}

// writeParts writes those that have no file yet.
func (c *counting) writeParts(pieces []piece) (err error) {
	for i := range pieces {
		if pieces[i].file == nil && err == nil {
			pieces[i].file, err = c.writePart(pieces[i].part)
		}
	}
	return err
}

// writePart writes a part under a new name.
func (c *counting) writePart(p *engine.Part) (*partFile, error) {
	out := &partFile{}
	dir, base := filepath.Dir(c.in.File), filepath.Base(c.in.File)
	err := create(dir, base+".*"+partSuffix, func(f *os.File) (err error) {
		out.Name = filepath.Base(f.Name())
		w := bufio.NewWriterSize(f, 1<<20)
		if out.Size, err = p.WriteTo(w); err != nil {
			return err
		}
		if err = w.Flush(); err != nil {
			return err
		}
		var sum [4]byte
		_, err = f.ReadAt(sum[:], out.Size-4)
		out.Sum = binary.LittleEndian.Uint32(sum[:])
		return err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

const partSuffix = ".part"

// create makes a file under a new name after the pattern, which is on the disk when it returns.
func create(dir, pattern string, write func(*os.File) error) (err error) {
	f, err := os.CreateTemp(dir, pattern)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_, _ = f.Close(), os.Remove(f.Name())
		}
	}()
	for _, step := range []func() error{func() error { return write(f) }, f.Sync, f.Close} {
		if err = step(); err != nil {
			return err
		}
	}
	return durable.SyncDir(dir)
}

// clean removes the parts that the state does not list. What cannot be removed stays: it costs space and harms nobody.
func (c *counting) clean(keep []partFile) {
	dir, base := filepath.Dir(c.in.File), filepath.Base(c.in.File)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		name := e.Name()
		part := strings.HasPrefix(name, base+".") && strings.HasSuffix(name, partSuffix)
		torn := strings.HasPrefix(name, "."+base+".") // of a process that was killed
		if part && !slices.ContainsFunc(keep, func(f partFile) bool { return f.Name == name }) || torn {
			_ = os.Remove(filepath.Join(dir, name))
		}
	}
}

// forget removes the state: what it says is of no use any more.
func (c *counting) forget() {
	_ = os.Remove(c.in.File)
	c.clean(nil)
}
