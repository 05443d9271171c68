package charset

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/abadojack/whatlanggo"
	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/htmlindex"
)

// charsetSample is the number of bytes, of lines with characters outside of ASCII, from which an encoding is guessed.
const charsetSample = 4 << 10

// minPlausible is the least plausible score of the best encoding; below it no encoding is accepted.
const minPlausible = .5

// Guess returns the encoding of a text that is not Unicode, by its name in the WHATWG's list, or "" if it is not
// plausible as text in any. It tries each encoding and takes the one in which the text is most plausible: letters of
// one language, in words, in the right case. Japanese, Korean and Chinese are recognised by their scripts, which other
// encodings do not produce.
func Guess(raw string) string {
	sample := charsetLines(raw)
	if name := guessWide(sample); name != "" {
		return name
	}
	best, score := "", minPlausible
	for name := range strings.FieldsSeq("windows-1252 windows-1251 windows-1250 windows-1253 windows-1254 " +
		"windows-1255 " +
		"windows-1256 koi8-u koi8-r windows-1257 iso-8859-2 iso-8859-7 iso-8859-5 iso-8859-8 iso-8859-6 windows-874 " +
		"iso-8859-15 windows-1258 iso-8859-16 iso-8859-4 iso-8859-13 ibm866 macintosh x-mac-cyrillic") {
		text, ok := DecodedAs(name, sample)
		if !ok {
			continue
		}
		if p := plausible(text, name); p > score+.004 { // the first of equal scores wins
			best, score = name, p
		}
	}
	return best
}

// charsetLines returns lines of raw with bytes outside of ASCII, up to charsetSample bytes of them.
func charsetLines(raw string) string {
	var b strings.Builder
	for line := range strings.Lines(raw) {
		if !strings.ContainsFunc(line, func(r rune) bool { return r >= utf8.RuneSelf }) {
			continue
		}
		if b.Len()+len(line) > charsetSample {
			if b.Len() == 0 {
				first := 0
				for line[first] < utf8.RuneSelf {
					first++
				}
				line = line[max(0, first-charsetSample/8):]
				b.WriteString(line[:min(len(line), charsetSample)])
			}
			break
		}
		b.WriteString(line)
	}
	return b.String()
}

// DecodedAs decodes raw from the named encoding; ok is false if raw is not valid in it.
func DecodedAs(name, raw string) (text string, ok bool) {
	e, err := htmlindex.Get(name)
	if err != nil {
		return "", false
	}
	text, err = e.NewDecoder().String(raw)
	return text, err == nil
}

// guessWide recognises the encodings of Japanese, Korean and Chinese by the share of a text that is in the characters
// common in each: it must exceed the share that texts in other encodings reach.
func guessWide(sample string) string {
	for _, c := range []struct {
		name   string
		least  float64
		common func(r rune, bytes string) bool
	}{
		{"shift_jis", .2, isHiragana}, {"euc-jp", .2, isHiragana}, {"iso-2022-jp", .2, isHiragana},
		{"euc-kr", .95, func(r rune, _ string) bool { return unicode.Is(unicode.Hangul, r) }},
		// the first of the two planes into which GB 2312 and Big5 divide their characters by frequency
		{"gb18030", .85, func(_ rune, b string) bool {
			return len(b) == 2 && b[0] >= 0xb0 && b[0] <= 0xd7 && b[1] >= 0xa1
		}},
		{"big5", .85, func(_ rune, b string) bool { return len(b) == 2 && b[0] >= 0xa4 && b[0] <= 0xc6 }},
	} {
		e, err := htmlindex.Get(c.name)
		if err != nil {
			continue
		}
		letters, common, bad, end := 0, 0, 0, 0
		characters(e, sample, func(r string, at, n int) bool {
			first, _ := utf8.DecodeRuneInString(r)
			switch {
			case first == utf8.RuneError && at+n < len(sample)-3: // the sample may end within a character
				bad++
			case unicode.IsLetter(first) && first >= utf8.RuneSelf:
				if letters++; c.common(first, sample[at:at+n]) {
					common++
				}
			}
			end = at + n
			return bad*50 <= letters+20
		})
		if end == len(sample) && letters > 0 && float64(common) >= c.least*float64(letters) && bad*50 <= letters {
			return c.name
		}
	}
	return ""
}

func isHiragana(r rune, _ string) bool { return unicode.Is(unicode.Hiragana, r) }

// characters calls f with each character of raw in an encoding: as UTF-8, its position and its length in bytes, until f
// returns false. An invalid byte is U+FFFD, of length one. Bytes that change the state of the encoding are left out.
func characters(e encoding.Encoding, raw string, f func(text string, at, n int) bool) {
	d := e.NewDecoder()
	var to [64]byte
	src := make([]byte, 0, 16)
	for at := 0; at < len(raw); {
		src = src[:0]
		for written := 0; ; {
			src = append(src, raw[at+len(src)])
			last := at+len(src) == len(raw) || len(src) == cap(src)
			n, used, err := d.Transform(to[:], src, last)
			if used == 0 && !last && (err != nil || n == 0) {
				continue // a longer character
			}
			if written = n; used == 0 {
				used, written = 1, copy(to[:], "\ufffd")
				d.Reset()
			}
			if written > 0 && !f(string(to[:written]), at, used) {
				return
			}
			at += used
			break
		}
	}
}

// plausible scores how well a text reads in a language that an encoding is used for, at most 1.
func plausible(text, name string) float64 {
	languages := charsetLanguages(name)
	o := whatlanggo.Options{Whitelist: map[whatlanggo.Lang]bool{}}
	for _, code := range languages {
		o.Whitelist[whatlanggo.CodeToLang(code)] = true
	}
	sure := whatlanggo.DetectLangWithOptions(text, o).Iso6393()
	best := 0.
	for _, code := range languages {
		p := inLanguage(text, alphabet(code)) + frequencyWeight*(frequency(text, code)-.5)
		if code != sure {
			p -= .02
		}
		best = max(best, p)
	}
	return best
}

// frequencyWeight is the weight of the share of a language's frequent letters: it distinguishes scripts whose letters
// have the same bytes, such as Hebrew and Cyrillic.
const frequencyWeight = .5

// frequency returns, for a language in a script other than Latin, the share of its ten or so most frequent letters
// among all letters; for languages in Latin script, .5.
func frequency(text, code string) float64 {
	frequent := map[string]string{"rus": "оеаинтсрвл", "ukr": "оанивтеірс", "bul": "аоиетнрсвл", "srp": "аиоенрсјту",
		"bel": "аніеорстлы", "ell": "αοιετσνηυρς", "heb": "יוהלאתמרבש", "arb": "اليمنوترهبعة", "pes": "ایردنهوتمس",
		"tha": "านรอกเง่มยลวดท้ส"}[code]
	if frequent == "" {
		return .5
	}
	letters, hits := 0, 0
	for _, r := range text {
		if unicode.IsLetter(r) || unicode.IsMark(r) {
			if letters++; strings.ContainsRune(frequent, unicode.ToLower(r)) {
				hits++
			}
		}
	}
	return float64(hits) / float64(max(letters, 1))
}

// inLanguage returns the share of the characters outside of ASCII that are letters of an alphabet within words, less
// what texts do not have: controls, symbols in words, capitals after small letters, words of two scripts.
func inLanguage(text, letters string) float64 {
	points, n := 0., 0.
	before := ' '
	for _, r := range text {
		was := before
		before = r
		wordly := unicode.IsLetter(was) || unicode.IsMark(was)
		if r < utf8.RuneSelf {
			if wordly && was >= utf8.RuneSelf && unicode.IsLetter(r) &&
				(unicode.IsUpper(r) && unicode.IsLower(was) || !sameScript(was, r)) {
				points--
			}
			continue
		}
		n++
		switch {
		case unicode.IsControl(r) || r == utf8.RuneError || unicode.Is(unicode.Co, r):
			points -= 3
		case unicode.IsLetter(r) || unicode.IsMark(r):
			p := .3
			if strings.ContainsRune(letters, unicode.ToLower(r)) {
				p = 1
			}
			if wordly && (unicode.IsUpper(r) && unicode.IsLower(was) || !sameScript(was, r)) {
				p -= 1.5
			}
			if r == 'ª' || r == 'º' {
				p = .2
			}
			points += p
		case strings.ContainsRune("“”„‘’‚–—…«»‹›°§€£•·¡¿©®\u00a0№、。，\u200e\u200f", r):
			points += .6
			if wordly && strings.ContainsRune("¡¿„‚", r) {
				points -= 1.5
			}
		default:
			points -= .5
		}
	}
	if n == 0 {
		return 0
	}
	return points / n
}

func sameScript(a, b rune) bool {
	for _, t := range []*unicode.RangeTable{unicode.Latin, unicode.Cyrillic, unicode.Greek, unicode.Hebrew,
		unicode.Arabic, unicode.Thai} {
		if unicode.Is(t, a) {
			return unicode.Is(t, b) || unicode.Is(unicode.Inherited, b)
		}
	}
	return true
}

// charsetLanguages returns the languages that an encoding is used for, in ISO 639-3.
func charsetLanguages(name string) []string {
	codes := map[string]string{
		"windows-1252": "eng deu fra spa ita por nld swe dan nob fin cat isl", "iso-8859-15": "fra fin deu",
		"macintosh":    "eng deu fra spa ita por nld swe dan nob fin",
		"windows-1250": "pol ces hun slk hrv ron slv", "iso-8859-2": "pol ces hun slk hrv ron slv",
		"iso-8859-16":  "ron",
		"windows-1251": "rus ukr bul srp bel", "koi8-r": "rus", "koi8-u": "ukr", "iso-8859-5": "rus bul srp bel",
		"ibm866": "rus", "x-mac-cyrillic": "rus", "windows-1253": "ell", "iso-8859-7": "ell", "windows-1254": "tur",
		"windows-1255": "heb",
		"iso-8859-8":   "heb", "windows-1256": "arb pes", "iso-8859-6": "arb", "windows-1257": "lit lav est",
		"iso-8859-13": "lit lav est", "iso-8859-4": "lit lav est", "windows-1258": "vie", "windows-874": "tha",
	}[name]
	return strings.Fields(codes)
}

// alphabet returns the small letters outside of ASCII of a language, by its code in ISO 639-3.
func alphabet(code string) string {
	const cyrillic = "абвгдежзийклмнопрстуфхцчшщьюя"
	return map[string]string{
		"eng": "éèïüöçñàâêôûæœäáíóúëî", "deu": "äöüßéàè", "fra": "àâæçéèêëîïôœùûüÿ", "spa": "áéíñóúüç",
		"ita": "àèéìòùî",
		"por": "áâãàçéêíóôõúü", "nld": "éëïóöüèáêíú", "swe": "åäöéàü", "dan": "æøåéáü", "nob": "æøåéòóôüä",
		"fin": "äöåšžé",
		"cat": "àçéèíïóòúü", "isl": "áðéíóúýþæö",
		"pol": "ąćęłńóśźż", "ces": "áčďéěíňóřšťúůýž", "hun": "áéíóöőúüű", "slk": "áäčďéíĺľňóôŕšťúýž", "hrv": "čćđšž",
		"ron": "ăâîșțşţ", "slv": "čšž", "rus": cyrillic + "ёъыэ", "ukr": cyrillic + "іїєґ", "bul": cyrillic + "ъ",
		"srp": "абвгдђежзијклљмнњопрстћуфхцчџш", "bel": "абвгдеёжзійклмнопрстуўфхцчшыьэюя",
		"ell": "αβγδεζηθικλμνξοπρσςτυφχψωάέήίόύώϊϋΐΰ", "tur": "çğıöşüâîûi̇", "heb": "אבגדהוזחטיךכלםמןנסעףפץצקרשת",
		"arb": "ءآأؤإئابةتثجحخدذرزسشصضطظعغفقكلمنهوىيًٌٍَُِّْـ", "pes": "آأؤئابپتثجچحخدذرزژسشصضطظعغفقکكگلمنهوىي",
		"lit": "ąčęėįšųūž", "lav": "āčēģīķļņšūž", "est": "äõöüšž",
		"vie": "àâăđèéêìíòóôơùúưý\u0300\u0301\u0303\u0309\u0323",
		"tha": "กขฃคฅฆงจฉชซฌญฎฏฐฑฒณดตถทธนบปผฝพฟภมยรลวศษสหฬอฮะัาำิีึืุูเแโใไๅๆ็่้๊๋์",
	}[code]
}
