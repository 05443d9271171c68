package report

import (
	"bytes"
	"encoding/binary"
	"io"
	"math"
	"strconv"
)

// column is a column of a flat table: one of the slices, without nulls.
type column struct {
	name    string
	texts   []string
	doubles []float64
	longs   []int64
}

// Parquet's numbers (apache/parquet-format, parquet.thrift).
const (
	typeInt64, typeDouble, typeBytes = 2, 5, 6
	encodingPlain, encodingRLE       = 0, 3
	convertedUTF8, required          = 0, 0
)

func (c column) kind() int64 {
	switch {
	case c.texts != nil:
		return typeBytes
	case c.doubles != nil:
		return typeDouble
	}
	return typeInt64
}

// text returns the i-th value as it is printed.
func (c column) text(i int) string {
	switch {
	case c.texts != nil:
		return c.texts[i]
	case c.doubles != nil:
		return strconv.FormatFloat(c.doubles[i], 'g', -1, 64)
	}
	return strconv.FormatInt(c.longs[i], 10)
}

// plain returns the values in the encoding PLAIN.
func (c column) plain() (b []byte) {
	for _, s := range c.texts {
		b = binary.LittleEndian.AppendUint32(b, uint32(len(s)))
		b = append(b, s...)
	}
	for _, v := range c.doubles {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(v))
	}
	for _, v := range c.longs {
		b = binary.LittleEndian.AppendUint64(b, uint64(v))
	}
	return b
}

// writeParquet writes columns of n rows as a Parquet file: required columns, one row group, one uncompressed data page
// each. That is all a table of results needs; the well-known library adds 16 MB to the program
// (docs/adr/0026-evaluation.md).
func writeParquet(w io.Writer, columns []column, n int, created string) error {
	var file bytes.Buffer
	file.WriteString("PAR1")
	var chunks []any
	for _, c := range columns {
		if n == 0 {
			break
		}
		data, at := c.plain(), int64(file.Len())
		size := int64(len(data))
		file.Write(thrift(fields{1: int32(0), 2: int32(size), 3: int32(size),
			5: fields{1: int32(n), 2: int32(encodingPlain),
				3: int32(encodingRLE), 4: int32(encodingRLE)}}))
		file.Write(data)
		length := int64(file.Len()) - at
		chunks = append(chunks, fields{2: at, 3: fields{1: int32(c.kind()), 2: []any{int32(encodingPlain)},
			3: []any{c.name}, 4: int32(0), 5: int64(n), 6: length, 7: length, 9: at}})
	}
	schema := []any{fields{4: "results", 5: int32(len(columns))}}
	for _, c := range columns {
		f := fields{1: int32(c.kind()), 3: int32(required), 4: c.name}
		if c.kind() == typeBytes {
			f[6] = int32(convertedUTF8)
		}
		schema = append(schema, f)
	}
	groups := []any{}
	if n > 0 {
		groups = append(groups, fields{1: chunks, 2: int64(file.Len() - 4), 3: int64(n)})
	}
	meta := thrift(fields{1: int32(1), 2: schema, 3: int64(n), 4: groups, 6: created})
	file.Write(meta)
	file.Write(binary.LittleEndian.AppendUint32(nil, uint32(len(meta))))
	file.WriteString("PAR1")
	_, err := file.WriteTo(w)
	return err
}

// fields is a struct of Thrift's compact protocol: int32, int64, string, []any or fields by number.
type fields map[int16]any

const (
	thriftInt32, thriftInt64, thriftString, thriftList, thriftStruct = 5, 6, 8, 9, 12
	maxField                                                         = 10
)

func thriftType(v any) byte {
	switch v.(type) {
	case int32:
		return thriftInt32
	case int64:
		return thriftInt64
	case string:
		return thriftString
	case []any:
		return thriftList
	}
	return thriftStruct
}

// thrift returns a value in the compact protocol.
func thrift(v any) (b []byte) {
	switch v := v.(type) {
	case int32:
		return binary.AppendVarint(nil, int64(v)) // zigzag
	case int64:
		return binary.AppendVarint(nil, v)
	case string:
		return append(binary.AppendUvarint(nil, uint64(len(v))), v...)
	case []any:
		kind := byte(thriftStruct)
		if len(v) > 0 {
			kind = thriftType(v[0])
		}
		if len(v) < 15 {
			b = append(b, byte(len(v))<<4|kind)
		} else {
			b = binary.AppendUvarint(append(b, 0xf0|kind), uint64(len(v)))
		}
		for _, x := range v {
			b = append(b, thrift(x)...)
		}
		return b
	}
	last := int16(0)
	for id := int16(1); id <= maxField; id++ {
		if x, ok := v.(fields)[id]; ok {
			b = append(append(b, byte(id-last)<<4|thriftType(x)), thrift(x)...)
			last = id
		}
	}
	return append(b, 0)
}
