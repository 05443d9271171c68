package markup

import (
	"regexp"
	"strconv"
	"strings"
)

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
