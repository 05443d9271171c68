package metric

// overlap is how many tokens two bags have in common.
func overlap(a, b map[string]int) (n int) {
	for t, k := range a {
		n += min(k, b[t])
	}
	return n
}
