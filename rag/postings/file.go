package postings

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"unsafe"

	"github.com/sluice-rag/sluice/internal/durable"
)

// The file of an index is a cache: one that is damaged, of other rows or of another version is not used. All numbers
// are little-endian, each part begins at a multiple of 8 bytes:
//
//	0   8  magic with the version
//	8   4  version of the analysis
//	12  4  number of languages
//	16  32 numbers: rows, terms, postings, bytes of all terms (8 bytes each)
//	48  32 digest that names the rows
//	80  …  ends, begins, at, tf, length, language of the one segment; its terms; the languages, each with its length
//	…   4  CRC-32C of all that
const (
	magic      = "slcpost\x01"
	headerSize = 80
)

// Save writes the index as a file; digest names its rows for Load.
func (x *Index) Save(ctx context.Context, name string, digest [32]byte) error {
	s := &segment{begins: []uint64{0}}
	if len(x.segments) > 0 {
		s = merge(x.segments)
	}
	err := durable.Replace(name, func(w io.Writer) error { return s.write(ctx, w, digest) })
	if err != nil {
		return fmt.Errorf("postings: writing %s: %w", name, err)
	}
	return nil
}

func (s *segment) write(ctx context.Context, to io.Writer, digest [32]byte) error {
	sum := durable.NewChecksum()
	w := bufio.NewWriter(io.MultiWriter(to, sum)) // Flush returns the first error
	header := append([]byte(magic), make([]byte, 8)...)
	binary.LittleEndian.PutUint32(header[8:], analysis)
	binary.LittleEndian.PutUint32(header[12:], uint32(len(s.languages)))
	for _, n := range []int{s.rows(), s.terms(), len(s.at), len(s.text)} {
		header = binary.LittleEndian.AppendUint64(header, uint64(n))
	}
	_, _ = w.Write(append(header, digest[:]...))
	var languages []byte
	for _, l := range s.languages {
		languages = append(append(languages, byte(len(l))), l...)
	}
	for _, part := range [][]byte{bytesOf(s.ends), bytesOf(s.begins), bytesOf(s.at), bytesOf(s.tf), bytesOf(s.length),
		s.language, []byte(s.text), languages} {
		for piece := range slices.Chunk(part, 1<<22) {
			if err := ctx.Err(); err != nil {
				return err
			}
			_, _ = w.Write(piece)
		}
		_, _ = w.Write(make([]byte, -len(part)&7))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := to.Write(binary.LittleEndian.AppendUint32(nil, sum.Sum32()))
	return err
}

// bytesOf are numbers as they lie in memory: on the machines that Sluice runs on, little-endian.
func bytesOf[T uint16 | uint32 | uint64](v []T) []byte {
	if len(v) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&v[0])), len(v)*int(unsafe.Sizeof(v[0])))
}

func numbersOf[T uint8 | uint16 | uint32 | uint64](b []byte, n int) []T {
	if n == 0 {
		return nil
	}
	return unsafe.Slice((*T)(unsafe.Pointer(&b[0])), n)
}

// Load reads a file that Save wrote for the rows that digest names: it is asked with their number. What is not whole,
// of another version or of other rows is ErrFile; a file that is not there is fs.ErrNotExist.
func Load(name string, digest func(rows int) ([32]byte, error)) (*Index, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("postings: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("postings: %w", err)
	}
	if info.Size() < headerSize+4 || info.Size() > 1<<40 || !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%w: %s: %d bytes", ErrFile, name, info.Size())
	}
	words := make([]uint64, (info.Size()+7)/8) // whole numbers lie at multiples of their size
	b := numbersOf[byte](bytesOf(words), int(info.Size()))
	if _, err := io.ReadFull(f, b); err != nil {
		return nil, fmt.Errorf("postings: reading %s: %w", name, err)
	}
	s, given, err := decode(b)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrFile, name, err)
	}
	want, err := digest(s.rows())
	if err != nil || want != given {
		return nil, fmt.Errorf("%w: %s is of other rows", ErrFile, name)
	}
	x := New()
	if s.rows() > 0 {
		x.segments = []*segment{s}
	}
	x.count()
	return x, nil
}

// decode reads a file that lies in memory at a multiple of 8 bytes, and checks all of it.
func decode(b []byte) (s *segment, digest [32]byte, err error) {
	bad := func(what string) (*segment, [32]byte, error) { return nil, digest, errors.New(what) }
	if len(b) < headerSize+4 || string(b[:8]) != magic {
		return bad("not such a file")
	}
	body := b[:len(b)-4]
	if durable.Checksum(body) != binary.LittleEndian.Uint32(b[len(body):]) {
		return bad("the checksum is wrong")
	}
	if v := binary.LittleEndian.Uint32(b[8:]); v != analysis {
		return bad(fmt.Sprintf("analysis %d, this is %d", v, analysis))
	}
	var n [4]int
	for i := range n {
		v := binary.LittleEndian.Uint64(b[16+8*i:])
		if v > uint64(len(b)) {
			return bad("it is too short")
		}
		n[i] = int(v)
	}
	rows, terms, postings, text := n[0], n[1], n[2], n[3]
	copy(digest[:], b[48:])
	at := headerSize
	take := func(bytes int) []byte {
		if at > len(body) || bytes > len(body)-at {
			at = len(body) + 1
			return nil
		}
		part := body[at : at+bytes]
		at += (bytes + 7) &^ 7
		return part
	}
	ends, begins, rowsOf, tf := take(4*terms), take(8*(terms+1)), take(4*postings), take(2*postings)
	length, language, all := take(4*rows), take(rows), take(text)
	if at > len(body) {
		return bad("it is too short")
	}
	s = &segment{ends: numbersOf[uint32](ends, terms), begins: numbersOf[uint64](begins, terms+1),
		at: numbersOf[uint32](rowsOf, postings), tf: numbersOf[uint16](tf, postings),
		length: numbersOf[uint32](length, rows), language: numbersOf[uint8](language, rows), text: string(all)}
	for range binary.LittleEndian.Uint32(b[12:]) {
		if at >= len(body) || at+1+int(body[at]) > len(body) {
			return bad("its languages are cut short")
		}
		s.languages = append(s.languages, string(body[at+1:at+1+int(body[at])]))
		at += 1 + int(body[at])
	}
	return s, digest, s.check()
}

// check looks for what searches rely on.
func (s *segment) check() error {
	for i, end := range s.ends {
		if int(end) > len(s.text) || i > 0 && (end < s.ends[i-1] || s.term(i) <= s.term(i-1)) {
			return fmt.Errorf("term %d is out of order", i)
		}
	}
	if s.begins[0] != 0 || s.begins[s.terms()] != uint64(len(s.at)) {
		return errors.New("lists that are not all postings")
	}
	for i := range s.terms() {
		if s.begins[i] > s.begins[i+1] || s.begins[i+1] > uint64(len(s.at)) {
			return fmt.Errorf("list %d ends before it begins", i)
		}
		before := -1
		for _, at := range s.at[s.begins[i]:s.begins[i+1]] {
			if int(at) <= before || int(at) >= s.rows() {
				return fmt.Errorf("list %d is out of order", i)
			}
			before = int(at)
		}
	}
	for i, l := range s.language {
		if int(l) >= len(s.languages) {
			return fmt.Errorf("row %d has no language", i)
		}
	}
	return nil
}
