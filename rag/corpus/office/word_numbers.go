package office

import (
	"encoding/xml"
	"strconv"
	"strings"

	"github.com/sluice-rag/sluice/rag/corpus/build"
	"github.com/sluice-rag/sluice/rag/corpus/doc"
)

// wordNumbers gives the items of a Word document's lists their numbers (ECMA-376, 17.9).
type wordNumbers struct {
	lists  map[string]*wordList   // by the ids of their definitions
	of     map[string]string      // these ids, by the ids that paragraphs refer to
	starts map[string]map[int]int // where a paragraph's list restarts, by level
}

const wordLevels = 9

// wordList is a list, with its last numbers.
type wordList struct {
	levels      [wordLevels]wordLevel
	counts      [wordLevels]int
	begun       [wordLevels]bool
	style, link string // the style that it defines, or that defines it
}

// wordLevel is the numbering of a level of a list.
type wordLevel struct {
	start, restart int    // restart: the level below which it begins again; -1: any above
	format, text   string // "%1.%2"
	decimal        bool   // all numbers in it are
}

// readNumbers reads the part that defines the lists.
func (a *Archive) readNumbers(part string) (*wordNumbers, error) {
	n := &wordNumbers{lists: map[string]*wordList{}, of: map[string]string{}, starts: map[string]map[int]int{}}
	var list *wordList
	level, num := -1, ""
	err := a.starts(part, func(e xml.StartElement) {
		val := attribute(e, "val")
		number, err := strconv.Atoi(val)
		switch e.Name.Local {
		case "abstractNum":
			list, num = &wordList{}, ""
			for i := range list.levels {
				list.levels[i] = wordLevel{restart: -1}
			}
			n.lists[attribute(e, "abstractNumId")] = list
		case "num":
			list, num = nil, attribute(e, "numId")
		case "abstractNumId":
			n.of[num] = val
		case "styleLink", "numStyleLink":
			if list != nil && e.Name.Local == "styleLink" {
				list.style = val
			} else if list != nil {
				list.link = val
			}
		case "lvl", "lvlOverride":
			if level, err = strconv.Atoi(attribute(e, "ilvl")); err != nil || level < 0 || level >= wordLevels {
				level = -1
			}
		case "startOverride":
			if level >= 0 && num != "" && err == nil {
				if n.starts[num] == nil {
					n.starts[num] = map[int]int{}
				}
				n.starts[num][level] = number
			}
		default:
			if list != nil && level >= 0 {
				list.levels[level].set(e.Name.Local, val, number)
			}
		}
	})
	return n, optional(err)
}

// set reads an element of a level.
func (l *wordLevel) set(name, val string, number int) {
	switch name {
	case "start":
		l.start = number
	case "numFmt":
		l.format = val
	case "lvlText":
		l.text = val
	case "lvlRestart":
		l.restart = number
	case "isLgl":
		l.decimal = isOn(val)
	}
}

// isOn reports whether the value of a property means on.
func isOn(val string) bool { return val != "0" && val != "false" && val != "off" }

// listOf returns the list of a paragraph, or nil.
func (n *wordNumbers) listOf(num string) *wordList {
	list := n.lists[n.of[num]]
	if list != nil && list.link != "" {
		for _, other := range n.lists {
			if other.style == list.link {
				return other
			}
		}
	}
	return list
}

// next returns the marker of the next paragraph of a list: its number, preceded by those of the levels above that it
// does not include ("3(a)"), else a dash.
func (n *wordNumbers) next(num string, level int) string {
	list := n.listOf(num)
	if list == nil || level < 0 || level >= wordLevels {
		return "-"
	}
	if start, ok := n.starts[num][level]; ok {
		list.counts[level], list.begun[level] = start-1, true
		delete(n.starts[num], level)
	}
	for i := range level + 1 {
		if !list.begun[i] {
			list.counts[i], list.begun[i] = list.levels[i].start, true
			if i == level {
				list.counts[i]--
			}
		}
	}
	list.counts[level]++
	for i := level + 1; i < wordLevels; i++ {
		if restart := list.levels[i].restart; restart < 0 || level < restart {
			list.begun[i] = false
		}
	}
	if text := list.number(level); text != "" {
		return text
	}
	return "-"
}

// number returns the last number of a level; "" for a bullet.
func (l *wordList) number(level int) string {
	at := l.levels[level]
	if at.format == "bullet" || at.format == "none" || !strings.Contains(at.text, "%") {
		return ""
	}
	text, above := at.text, level > 0
	for i := range level + 1 {
		place := "%" + strconv.Itoa(i+1)
		if !strings.Contains(text, place) {
			continue
		}
		format := l.levels[i].format
		if at.decimal {
			format = "decimal"
		}
		text = strings.ReplaceAll(text, place, build.Numeral(format, l.counts[i]))
		above = above && i == level
	}
	if text = strings.TrimSpace(text); !above {
		return text
	}
	before := strings.TrimRight(l.number(level-1), ".")
	if before != "" && doc.IsAlnum(before[len(before)-1]) && text != "" && doc.IsAlnum(text[0]) {
		before += "."
	}
	return before + text
}

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
