package train

import "math"

// dropout says which activations of a step are dropped. The mask of an element is a function of seed, step, place and
// index alone, so a resumed run drops what the interrupted one would have dropped.
type dropout struct {
	rate float64
	seed uint64
	step uint64
}

// mask returns the key and the threshold of a place's mask: element i is kept if mix(key^i)>>11, of 53 random bits,
// reaches the threshold.
func (d dropout) mask(place uint64) (key, threshold uint64) {
	return mix(mix(mix(d.seed)^d.step) ^ place), uint64(math.Ceil(d.rate * (1 << 53)))
}

// mix returns the finaliser of SplitMix64 (Steele, Lea and Flood 2014).
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// drop drops elements of x in place and returns what it multiplied by, or nil when nothing is dropped.
func (n *network[T]) drop(x []T, layer, place int) []T {
	if n.dropout.rate == 0 {
		return nil
	}
	mask := n.arena.get(len(x))
	keep := T(1 / (1 - n.dropout.rate))
	key, threshold := n.dropout.mask(uint64(layer)<<8 | uint64(place))
	n.spans(len(x), func(i0, i1 int) {
		for i := i0; i < i1; i++ {
			if mix(key^uint64(i))>>11 >= threshold {
				mask[i] = keep
			}
			x[i] *= mask[i]
		}
	})
	return mask
}

// masked is d times mask, a new matrix; d itself without a mask.
func (n *network[T]) masked(d, mask []T) []T {
	if mask == nil {
		return d
	}
	out := n.arena.get(len(d))
	for i, v := range d {
		out[i] = v * mask[i]
	}
	return out
}
