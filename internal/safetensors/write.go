package safetensors

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strings"
)

// Entry is a tensor to write: Offset and Length of its Tensor are filled in by Header.
type Entry struct {
	Name string
	Tensor
}

// Header returns the start of a file with contiguous entries, and sets their places. The first begins at a multiple of
// 64 bytes, so that mapped data are aligned if every length is a multiple of its type.
func Header(entries []Entry, metadata map[string]string) ([]byte, error) {
	var b bytes.Buffer
	b.Write(make([]byte, 8))
	b.WriteString(`{"__metadata__":`)
	field := func(v any) error {
		text, err := json.Marshal(v)
		b.Write(text)
		return err
	}
	if metadata == nil {
		metadata = map[string]string{}
	}
	if err := field(metadata); err != nil {
		return nil, err
	}
	var next int64
	for i := range entries {
		e := &entries[i]
		width, known := dtypeBytes(e.DType)
		n, fits := product(e.Shape, width)
		if !known || !fits || next > next+n {
			return nil,
				fmt.Errorf("safetensors: tensor %q: type %q, shape %v: unknown, negative or too large", e.Name, e.DType,
					e.Shape)
		}
		e.Offset, e.Length = next, n
		next += n
		b.WriteByte(',')
		if err := field(e.Name); err != nil {
			return nil, err
		}
		b.WriteByte(':')
		if err := field(entry{e.DType, append([]int64{}, e.Shape...), []int64{e.Offset, next}}); err != nil {
			return nil, err
		}
	}
	b.WriteByte('}')
	b.WriteString(strings.Repeat(" ", -b.Len()&63))
	if b.Len() > maxHeader {
		return nil, fmt.Errorf("safetensors: a header of %d bytes, at most %d are allowed", b.Len(), maxHeader)
	}
	for i := range entries {
		entries[i].Offset += int64(b.Len())
	}
	head := b.Bytes()
	binary.LittleEndian.PutUint64(head, uint64(len(head)-8))
	return head, nil
}
