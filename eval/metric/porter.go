package metric

import "strings"

// Porter returns the stem of an English word in lower case, by Porter's algorithm (1980) with the extensions that
// NLTK's PorterStemmer has by default, which rouge-score uses. Snowball's "porter" differs from it.
func Porter(word string) string {
	if s := irregular(word); s != "" {
		return s
	}
	if len(word) <= 2 {
		return word
	}
	w := porter(word)
	for _, step := range []func(porter) porter{porter.plural, porter.past, porter.y, porter.double, porter.suffix,
		porter.ending, porter.finalE, porter.finalL} {
		w = step(w)
	}
	return string(w)
}

func irregular(word string) string {
	switch word {
	case "sky", "skies":
		return "sky"
	case "dying":
		return "die"
	case "lying":
		return "lie"
	case "tying":
		return "tie"
	case "news", "howe", "proceed", "exceed", "succeed", "inning", "outing", "canning":
		return word
	case "innings", "outings", "cannings":
		return word[:len(word)-1]
	}
	return ""
}

// porter is a word on its way to its stem.
type porter string

func (w porter) ends(suffix string) (stem porter, ok bool) {
	s, ok := strings.CutSuffix(string(w), suffix)
	return porter(s), ok
}

// consonant reports whether the letter at i is a consonant; y is one at the beginning and after a vowel.
func (w porter) consonant(i int) bool {
	switch w[i] {
	case 'a', 'e', 'i', 'o', 'u':
		return false
	case 'y':
		return i == 0 || !w.consonant(i-1)
	}
	return true
}

// measure is how often a consonant follows a vowel.
func (w porter) measure() (m int) {
	for i := 1; i < len(w); i++ {
		if !w.consonant(i-1) && w.consonant(i) {
			m++
		}
	}
	return m
}

func (w porter) hasVowel() bool {
	for i := range len(w) {
		if !w.consonant(i) {
			return true
		}
	}
	return false
}

// short reports whether a word ends with consonant, vowel, consonant, the last one not w, x or y; or consists of vowel,
// consonant.
func (w porter) short() bool {
	n := len(w)
	if n == 2 {
		return !w.consonant(0) && w.consonant(1)
	}
	return n > 2 && w.consonant(n-3) && !w.consonant(n-2) && w.consonant(n-1) && !strings.ContainsRune("wxy",
		rune(w[n-1]))
}

func (w porter) plural() porter {
	if s, ok := w.ends("ies"); ok {
		if len(w) == 4 {
			return s + "ie"
		}
		return s + "i"
	}
	if s, ok := w.ends("sses"); ok {
		return s + "ss"
	}
	if s, ok := w.ends("s"); ok && !strings.HasSuffix(string(w), "ss") {
		return s
	}
	return w
}

func (w porter) past() porter {
	if s, ok := w.ends("ied"); ok {
		if len(w) == 4 {
			return s + "ie"
		}
		return s + "i"
	}
	if s, ok := w.ends("eed"); ok {
		if s.measure() > 0 {
			return s + "ee"
		}
		return w
	}
	s, ok := w.ends("ed")
	if !ok || !s.hasVowel() {
		if s, ok = w.ends("ing"); !ok || !s.hasVowel() {
			return w
		}
	}
	for _, e := range []string{"at", "bl", "iz"} {
		if strings.HasSuffix(string(s), e) {
			return s + "e"
		}
	}
	n := len(s)
	switch {
	case n >= 2 && s[n-1] == s[n-2] && s.consonant(n-1):
		if strings.ContainsRune("lsz", rune(s[n-1])) {
			return s
		}
		return s[:n-1]
	case s.measure() == 1 && s.short():
		return s + "e"
	}
	return s
}

func (w porter) y() porter {
	if s, ok := w.ends("y"); ok && len(s) > 1 && s.consonant(len(s)-1) {
		return s + "i"
	}
	return w
}

// first replaces the first suffix of "suffix:replacement" pairs that the word has, if what is left has a measure above
// least; no other pair is tried then.
func (w porter) first(pairs string, least int) porter {
	for p := range strings.FieldsSeq(pairs) {
		suffix, by, _ := strings.Cut(p, ":")
		s, ok := w.ends(suffix)
		if !ok {
			continue
		}
		if s.measure() > least {
			return s + porter(by)
		}
		return w
	}
	return w
}

func (w porter) double() porter {
	if s, ok := w.ends("alli"); ok && s.measure() > 0 {
		return (s + "al").double()
	}
	if s, ok := w.ends("logi"); ok {
		if (s + "l").measure() > 0 {
			return s + "log"
		}
		return w
	}
	return w.first("ational:ate tional:tion enci:ence anci:ance izer:ize bli:ble alli:al entli:ent eli:e ousli:ous "+
		"ization:ize ation:ate ator:ate alism:al iveness:ive fulness:ful ousness:ous aliti:al iviti:ive biliti:ble "+
		"fulli:ful", 0)
}

func (w porter) suffix() porter {
	return w.first("icate:ic ative: alize:al iciti:ic ical:ic ful: ness:", 0)
}

func (w porter) ending() porter {
	if s, ok := w.ends("ion"); ok {
		if s.measure() > 1 && strings.ContainsRune("st", rune(s[len(s)-1])) {
			return s
		}
		return w
	}
	return w.first("al: ance: ence: er: ic: able: ible: ant: ement: ment: ent: ou: ism: ate: iti: ous: ive: ize:", 1)
}

func (w porter) finalE() porter {
	s, ok := w.ends("e")
	if m := s.measure(); ok && (m > 1 || m == 1 && !s.short()) {
		return s
	}
	return w
}

func (w porter) finalL() porter {
	if s := w[:max(len(w)-1, 0)]; strings.HasSuffix(string(w), "ll") && s.measure() > 1 {
		return s
	}
	return w
}
