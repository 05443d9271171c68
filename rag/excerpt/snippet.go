package excerpt

import (
	"strings"
	"unicode/utf8"
)

// Part is a stretch of a passage as a reader is shown it.
type Part struct {
	Text    string
	Nearest bool // the sentence that is nearest to the question
}

// Parts cuts a passage into what stands before its nearest sentence, the sentence, and what follows; without a sentence
// it is one part. Lines are kept; parts without words are left out.
func Parts(passage string, s *Sentence) []Part {
	if s == nil || s.Start < 0 || s.End > len(passage) || s.Start > s.End {
		return compact(Part{Text: passage})
	}
	return compact(Part{Text: passage[:s.Start]}, Part{Text: passage[s.Start:s.End], Nearest: true},
		Part{Text: passage[s.End:]})
}

// Snippet returns Parts on one line each, together at most about the given number of runes: the sentence with the text
// right before and behind it, cut between words, with an ellipsis where something is missing.
func Snippet(passage string, s *Sentence, runes int) []Part {
	parts := Parts(passage, s)
	at := -1
	for i := range parts {
		parts[i].Text = strings.Join(strings.Fields(parts[i].Text), " ")
		if parts[i].Nearest {
			at = i
		}
	}
	if at < 0 {
		for i := range parts {
			parts[i].Text = beginning(parts[i].Text, runes)
		}
		return compact(parts...)
	}
	if whole := parts[at].Text; utf8.RuneCountInString(whole) > runes { // what follows would not be what comes next
		parts[at].Text, parts = beginning(whole, runes), parts[:at+1]
	}
	left := runes - utf8.RuneCountInString(parts[at].Text)
	before := left / 2
	if at+1 < len(parts) {
		before = max(before, left-utf8.RuneCountInString(parts[at+1].Text))
	} else {
		before = left
	}
	if at > 0 {
		parts[at-1].Text = ending(parts[at-1].Text, before)
		left -= utf8.RuneCountInString(parts[at-1].Text)
	}
	if at+1 < len(parts) {
		parts[at+1].Text = beginning(parts[at+1].Text, left)
	}
	return compact(parts...)
}

// compact leaves out what holds no words, and the white space around.
func compact(parts ...Part) (kept []Part) {
	for _, p := range parts {
		p.Text = strings.Trim(p.Text, "\r\n")
		if !p.Nearest {
			p.Text = strings.TrimRight(p.Text, " \t\r\n")
		}
		if strings.TrimSpace(p.Text) != "" {
			kept = append(kept, p)
		}
	}
	return kept
}

// beginning returns as many words as fit, with an ellipsis if some do not; "" if no word fits.
func beginning(text string, runes int) string {
	if utf8.RuneCountInString(text) <= runes {
		return text
	}
	cut := string([]rune(text)[:max(runes-2, 0)])
	if i := strings.LastIndexByte(cut, ' '); i > 0 {
		cut = cut[:i]
	} else if len(cut) < runes/2 {
		return ""
	}
	if cut == "" {
		return ""
	}
	return cut + " …"
}

// ending is beginning from behind.
func ending(text string, runes int) string {
	all := []rune(text)
	if len(all) <= runes {
		return text
	}
	cut := string(all[len(all)-max(runes-2, 0):])
	i := strings.IndexByte(cut, ' ')
	if i < 0 || strings.TrimSpace(cut[i:]) == "" {
		return ""
	}
	return "… " + strings.TrimSpace(cut[i:])
}
