//go:build unix && !linux

package pairs

const populate = 0
