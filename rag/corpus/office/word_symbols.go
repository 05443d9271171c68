package office

import (
	"strconv"
	"strings"

	"github.com/sluice-rag/sluice/rag/corpus/internal/doc"
)

// symbolFont holds the characters of Adobe's font Symbol from 0x20 on, by its encoding vector; "\x00": no character.
const symbolFont = " !∀#∃%&∋()∗+,−./0123456789:;<=>?≅ΑΒΧΔΕΦΓΗΙϑΚΛΜΝΟΠΘΡΣΤΥςΩΞΨΖ" +
	"[∴]⊥_\x00αβχδεφγηιϕκλμνοπθρστυϖωξψζ{|}∼\x00" +
	noSymbols + noSymbols +
	"€ϒ′≤⁄∞ƒ♣♦♥♠↔←↑→↓°±″≥×∝∂•÷≠≡≈…\x00\x00↵ℵℑℜ℘⊗⊕∅∩∪⊃⊇⊄⊂⊆∈∉∠∇®©™∏√⋅¬∧∨⇔⇐⇑⇒⇓◊⟨®©™∑⎛⎜⎝⎡⎢⎣⎧⎨⎩⎪\x00⟩∫⌠⎮⌡⎞⎟⎠⎤⎥⎦⎫⎬⎭"

// noSymbols stands for sixteen characters that the font does not have.
const noSymbols = "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"

// symbolOf returns a character of a font whose characters have no Unicode code; "" if it is unknown.
func symbolOf(font string, code rune) string {
	at := int(code&0xff) - 0x20
	switch font = strings.ToLower(font); {
	case code < 0xf000 || code > 0xf0ff:
		if code < 0x20 || code >= 0xe000 && code <= 0xf8ff {
			return ""
		}
		return doc.Clean(string(code))
	case font == "symbol":
		if symbols := []rune(symbolFont); at >= 0 && at < len(symbols) && symbols[at] != 0 {
			return string(symbols[at])
		}
	case font == "wingdings":
		return map[int]string{0x28: "☎", 0x2a: "✉", 0x4a: "☺", 0x4c: "☹", 0x6c: "●", 0x6e: "■", 0x6f: "□", 0x71: "❑",
			0x72: "❒", 0x76: "❖", 0xa7: "▪", 0xa8: "◻", 0xab: "★", 0xd8: "➢", 0xdf: "←", 0xe0: "→", 0xe1: "↑",
			0xe2: "↓",
			0xe8: "➔", 0xf0: "⇨", 0xfb: "✗", 0xfc: "✓", 0xfd: "☒", 0xfe: "☑"}[at+0x20]
	}
	return ""
}

// symbolAt returns the character of an element that names a font and a code.
func symbolAt(font, char string) string {
	code, err := strconv.ParseUint(char, 16, 16)
	if err != nil {
		return ""
	}
	return symbolOf(font, rune(code))
}
