package embed

import "slices"

// windowed cuts the tokens of a text into as few windows of at most limit tokens as possible, whose own tokens are
// equally many, but for one. Each has the first front tokens (special ones and the prefix's) and the last closing ones.
func windowed(ids []uint32, front, closing, limit int) [][]uint32 {
	room := limit - front - closing
	if len(ids) <= limit || room < 1 {
		ids, _ = truncate(ids, limit, closing)
		return [][]uint32{ids}
	}
	own, end := ids[front:len(ids)-closing], ids[len(ids)-closing:]
	n := (len(own) + room - 1) / room
	out := make([][]uint32, n)
	for k := range out {
		out[k] = slices.Concat(ids[:front], own[k*len(own)/n:(k+1)*len(own)/n], end)
	}
	return out
}
