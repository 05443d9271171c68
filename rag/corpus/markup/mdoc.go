package markup

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// mdocKinds returns what mdoc's macros do with the words behind them, by name:
//
//	"x y"  an enclosure in x and y, to the end of the line
//	"x "   an opening mark, " y" a closing one, of an enclosure over lines
//	"x"    a text of its own
//	""     nothing: the words are text
func mdocKinds() map[string]string {
	kinds := map[string]string{"Bx": "BSD", "Ux": "UNIX", "Fx": "FreeBSD", "Nx": "NetBSD", "Ox": "OpenBSD",
		"Dx": "DragonFly", "At": "AT&T UNIX", "Nd": "–", "Ta": "|"}
	for name, kind := range named("Op [_] Pq (_) Bq [_] Brq {_} Aq ⟨_⟩ Dq “_” Sq ‘_’ Ql ‘_’ Qq \"_\" Oo [_ Oc _] Po (_ " +
		"Pc _) Bo [_ Bc _] Bro {_ Brc _} Ao ⟨_ Ac _⟩ Do “_ Dc _” So ‘_ Sc _’ Qo \"_ Qc _\"") {
		kinds[name] = strings.Replace(kind, "_", " ", 1)
	}
	for name := range strings.FieldsSeq("Nm Ar Fl Em Sy Li Pa Ic Cm Va Vt Ev Dv Er No Ns Pf Ap Xr Fn Fa Fo Fc Ft In Fd Lk " +
		"Xo Xc Mt An St Tn Ad Cd Ms Lb %A %B %C %D %I %J %N %O %P %Q %R %T %U %V Ex Rv") {
		kinds[name] = ""
	}
	return kinds
}

// macro reads a macro of mdoc. Unknown macros add no text.
func (m *manual) macro(r *lightReader, name string, args []argument, at int) []stretch {
	switch name {
	case "Bl":
		mark := ""
		for _, a := range args {
			switch a.text {
			case "-bullet", "-dash", "-hyphen", "-enum":
				mark = "- "
			}
		}
		r.b.EndBlock("\n\n")
		m.lists = append(m.lists, mark)
		return nil
	case "El":
		r.b.EndBlock("\n\n")
		m.lists = m.lists[:max(len(m.lists)-1, 0)]
		return nil
	case "It":
		r.b.EndBlock("\n\n")
		if n := len(m.lists); n > 0 {
			r.b.Marker = m.lists[n-1]
		}
		m.term = r.b.Marker == ""
		m.extended = slices.ContainsFunc(args, func(a argument) bool { return a.text == "Xo" })
		return m.words(args)
	case "Xc":
		m.extended = false
	case "Bd":
		r.b.EndBlock("\n\n")
		if slices.ContainsFunc(args, func(a argument) bool { return a.text == "-literal" || a.text == "-unfilled" }) {
			r.code = "Ed"
		}
		return nil
	case "Ed":
		r.b.EndBlock("\n\n")
		r.code = ""
		return nil
	case "Dl", "D1":
		r.b.EndBlock("\n\n")
		m.add(r, m.words(args))
		r.b.EndBlock("\n\n")
		return nil
	}
	if _, known := m.kinds[name]; !known {
		return nil
	}
	return m.words(append([]argument{{name, at}}, args...))
}

// marks are words that stand at the one before them.
const marks = " . , ; : ? ! ) ] "

func isMark(a argument) bool { return strings.Contains(marks, " "+a.text+" ") }

// mdocLine is the words of a line of mdoc, among which are macros.
type mdocLine struct {
	m     *manual
	args  []argument
	parts []stretch
	ends  []argument // of enclosures
	flag  bool       // words are flags
}

// words returns the text of the words of a line.
func (m *manual) words(args []argument) []stretch {
	w := &mdocLine{m: m, args: args}
	tail := len(args) // marks behind all words
	for tail > 0 && isMark(args[tail-1]) {
		tail--
	}
	for n := 0; n < len(args); n++ {
		if n == tail {
			w.end()
		}
		if kind, isMacro := m.kinds[args[n].text]; !isMacro {
			w.word(n)
		} else if kind != "" {
			w.shown(kind, args[n].at)
		} else if w.macro(n) {
			w.end()
			return w.parts
		}
	}
	w.end()
	m.glued = false
	if n := len(args); n > 0 {
		m.glued = args[n-1].text == "Ns" || strings.HasSuffix(m.kinds[args[n-1].text], " ")
	}
	return w.parts
}

// say adds a word of the line.
func (w *mdocLine) say(a argument) { w.add(stretch{a, false, w.m.glued}) }

// made adds a text that is not in the line.
func (w *mdocLine) made(text string, at int) { w.add(stretch{argument{text, at}, true, w.m.glued}) }

func (w *mdocLine) add(s stretch) {
	w.parts = append(w.parts, s)
	w.m.glued = false
}

// glue adds a text that stands at the one before it.
func (w *mdocLine) glue(text string, at int) {
	w.m.glued = true
	w.made(text, at)
}

// end ends the enclosures.
func (w *mdocLine) end() {
	for _, a := range slices.Backward(w.ends) {
		w.glue(a.text, a.at)
	}
	w.ends = nil
}

// shown adds the text of a macro, or the marks of an enclosure.
func (w *mdocLine) shown(kind string, at int) {
	w.flag = false
	opening, closing, encloses := strings.Cut(kind, " ")
	switch {
	case !encloses:
		w.made(kind, at)
	case opening == "":
		w.glue(closing, at)
	default:
		w.made(opening, at)
		if w.m.glued = true; closing != "" {
			w.ends = append(w.ends, argument{closing, at})
		}
	}
}

// macro reads a macro without a text of its own. It returns true if it has read the rest of the line.
func (w *mdocLine) macro(n int) bool {
	name, at := w.args[n].text, w.args[n].at
	rest := w.args[n+1:]
	plain := len(rest) > 0 && !isMark(rest[0]) // a word follows
	if plain {
		_, isMacro := w.m.kinds[rest[0].text]
		plain = !isMacro
	}
	w.flag = name == "Fl"
	switch {
	case name == "Ns":
		w.m.glued = true
	case name == "Ap":
		w.glue("'", at)
		w.m.glued = true
	case w.flag && !plain:
		w.made("-", at)
	case name == "Nm" && plain && w.m.name == "":
		w.m.name = rest[0].text
	case name == "Nm" && !plain && w.m.name != "":
		w.made(w.m.name, at)
	case name == "Ar" && !plain:
		w.made("file ...", at)
	case name == "Fn" && plain:
		w.say(rest[0])
		w.parts = append(w.parts, called(rest)...)
		return true
	case name == "Fo" && plain:
		w.say(rest[0])
		w.glue("(", at)
		w.m.glued = true
		return true
	case name == "Fa":
		for _, x := range rest {
			w.say(x)
			w.glue(",", x.at)
		}
		return true
	case name == "Fc":
		w.glue(")", at)
	case name == "In" && plain:
		w.made("#include <", at)
		w.parts = append(append(w.parts, inGlue(rest[:1])...), stretch{argument{">", at}, true, true})
		w.parts = append(w.parts, inGlue(rest[1:])...)
		return true
	case name == "Ex":
		w.made("The "+w.m.name+" utility exits 0 on success, and >0 if an error occurs.", at)
		return true
	}
	return false
}

// word reads a word that is not a macro.
func (w *mdocLine) word(n int) {
	a := w.args[n]
	switch {
	case isMark(a):
		w.m.glued = true
		w.say(a)
	case a.text == "(" || a.text == "[":
		w.say(a)
		w.m.glued = true
	case w.flag:
		w.made("-", a.at)
		w.m.glued = true
		w.say(a)
	case n > 1 && w.args[n-2].text == "Xr": // the section
		w.glue("(", a.at)
		w.m.glued = true
		w.say(a)
		w.glue(")", a.at)
	default:
		w.say(a)
		w.m.glued = n > 0 && w.args[n-1].text == "Pf"
	}
}

// called returns the parameters of a function, whose name comes first, and the marks behind them.
func called(args []argument) (parts []stretch) {
	parts = append(parts, stretch{argument{"(", args[0].at}, true, true})
	last := len(args)
	for last > 1 && isMark(args[last-1]) {
		last--
	}
	for n, a := range args[1:last] {
		if n > 0 {
			parts = append(parts, stretch{argument{",", a.at}, true, true})
		}
		parts = append(parts, stretch{a, false, n == 0})
	}
	return append(append(parts, stretch{argument{")", args[0].at}, true, true}), inGlue(args[last:])...)
}

// escapes matches what groff(7) calls escape sequences.
const escapes = `\\f(?:\[\w*\]|\(..|.)|\\s(?:[-+]?\d+|\([-+]?..|\[[^\]]*\])|\\\((..)` +
	`|\\\[([^\]]*)\]|\\\*(?:\(..|\[[^\]]*\]|.)` +
	`|\\[nmMkFgVY](?:[-+]?\(..|[-+]?\[[^\]]*\]|[-+]?.)|\\[hvwxlLDNobBARSXZHC]'[^']*'|\\.`

var charName = regexp.MustCompile(`^u([0-9A-Fa-f]{4,6})$`)

// plain returns the visible text of an escape.
func (m *manual) plain(match string) string {
	if name, ok := strings.CutPrefix(match, `\*`); ok {
		name = strings.Trim(name, "([]")
		if text, ok := m.defined[name]; ok {
			if m.expanded += len(text); m.expanded > mostExpanded {
				return ""
			}
			return text
		}
		return m.characters[name]
	}
	switch {
	case len(match) == 2:
		return map[string]string{"\\`": "`", `\-`: "-", `\e`: `\`, `\\`: `\`,
			`\ `: " ", `\~`: " ", `\0`: " ", `\.`: ".", `\'`: "´"}[match]
	case strings.HasPrefix(match, `\(`), strings.HasPrefix(match, `\[`):
		return m.character(strings.Trim(match[2:], "]"))
	case strings.HasPrefix(match, `\N'`):
		code, _ := strconv.Atoi(strings.Trim(match[3:], "'"))
		if code < ' ' || code > '~' {
			return ""
		}
		return string(rune(code))
	case strings.HasPrefix(match, `\C'`):
		return m.character(strings.Trim(match[3:], "'"))
	}
	return ""
}

// character returns a character by its name in groff_char(7).
func (m *manual) character(name string) string {
	if text, ok := m.characters[name]; ok {
		return text
	}
	if code := charName.FindStringSubmatch(name); code != nil {
		n, err := strconv.ParseInt(code[1], 16, 32)
		if err == nil && n >= ' ' && n <= '\U0010ffff' {
			return string(rune(n))
		}
	}
	accents := map[byte]string{'\'': "\u0301", '`': "\u0300", '^': "\u0302", ':': "\u0308", '~': "\u0303",
		',': "\u0327", 'o': "\u030a", 'v': "\u030c"}
	if len(name) == 2 && accents[name[0]] != "" && (name[1]|0x20 >= 'a' && name[1]|0x20 <= 'z') {
		return name[1:] + accents[name[0]] // normalised with the document
	}
	return ""
}

// groffCharacters are characters with names of their own, each behind its name.
const groffCharacters = `Aq ' lq “ rq ” R ® Tm ™ aq ' dq " bu • em — en – co © rg ® tm ™ oq ‘ cq ’ ha ^ ti ~ rs \
	mi - hy - aa ´ -> → <- ← <> ↔ ua ↑ da ↓ => ⇒ at @ sh # Do $ ul _ ba | bv │ or | br │ sl / ** * pl + eq = <= ≤ >= ≥
	!= ≠ == ≡ +- ± mu × di ÷ de ° sc § ps ¶ ct ¢ Po £ Eu € Ye ¥ lB [ rB ] lC { rC } la ⟨ ra ⟩ Fo « Fc » Bq „ bq ‚ ss ß
	AE Æ ae æ /O Ø /o ø /L Ł /l ł 14 ¼ 12 ½ 34 ¾ S1 ¹ S2 ² S3 ³ sq □ ci ○ dg † dd ‡ if ∞ no ¬ OK ✓ *a α *b β *g γ *d δ
	*e ε *h θ *l λ *m μ *p π *s σ *w ω *D Δ *S Σ *W Ω`

// named returns what stands behind each name in a list of names and texts.
func named(list string) map[string]string {
	m, fields := map[string]string{}, strings.Fields(list)
	for i := 0; i+1 < len(fields); i += 2 {
		m[fields[i]] = fields[i+1]
	}
	return m
}
