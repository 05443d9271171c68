package prompt

import "testing"

// TestUnnamed streams answers in pieces of every size; four passages were shown.
func TestUnnamed(t *testing.T) {
	for _, c := range []struct {
		answer, want string
		removed      int
	}{
		{"Yes [1]. No [5].", "Yes [1]. No.", 1},
		{"Deferred [1][5][6] calls [7] run [10].", "Deferred [1] calls run.", 4},
		{"[9] First. Both [1, 7] and [3-9].", "First. Both [1] and [3-4].", 3},
		{"[Passage 8] and [source 3], 【12】 or 【2, 12】.", "and [source 3], or 【2】.", 3},
		{"[0] is none, [2–4] are three.", "is none, [2–4] are three.", 1},
		{"`a[9]` and array[9] and x_1[7].", "`a[9]` and array[9] and x_1[7].", 0},
		{"```\nb[9]\n``` but [9].", "```\nb[9]\n``` but.", 1},
		{"an open ` tick\nthen [9] more", "an open ` tick\nthen more", 1},
		{"[not a citation] [1", "[not a citation] [1", 0},
		{"[ 2023 ] [x [9] y]", "[x y]", 2},
		{"ends [9]", "ends", 1},
		{"line [9]\n[8] next", "line\nnext", 2},
		{"two  spaces and trailing  ", "two  spaces and trailing  ", 0},
		{"", "", 0},
	} {
		for size := 1; size <= max(len([]rune(c.answer)), 1); size++ {
			u := Unnamed{Passages: 4}
			got := ""
			for rest := []rune(c.answer); len(rest) > 0; {
				n := min(size, len(rest))
				got += u.Write(string(rest[:n]))
				rest = rest[n:]
			}
			if got += u.Flush(); got != c.want || u.Removed != c.removed {
				t.Errorf("%q in pieces of %d: %q with %d removed, want %q with %d",
					c.answer, size, got, u.Removed, c.want, c.removed)
				break
			}
		}
	}
}
