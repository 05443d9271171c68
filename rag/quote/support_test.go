package quote

import "testing"

func TestMissing(t *testing.T) {
	passages := []string{"Rollo swore fealty to King Charles III in 911.", "Normandy paid 1,500.50 marks."}
	for _, x := range []struct {
		question, language string
		numbers, names     int
	}{
		{"When did Rollo swear fealty to Charles?", "en", 0, 0},
		{"When did Rollo swear fealty to William?", "en", 0, 1},
		{"What happened in 911 and in 912?", "en", 1, 0},
		{"Who paid 1,500.50 marks, Normandy or Brittany's dukes?", "en", 0, 1},
		{"Wer zahlte Bretagne und Normandie 12 Mark?", "de", 1, 0},
		{"", "", 0, 0},
		{"... ,,, ?", "", 0, 0},
	} {
		if numbers, names := missing(x.question, x.language, passages); numbers != x.numbers || names != x.names {
			t.Errorf("%s: %d numbers and %d names, want %d and %d", x.question, numbers, names, x.numbers, x.names)
		}
	}
}

func TestNegated(t *testing.T) {
	for text, want := range map[string]bool{"What didn't Rollo do?": true, "What is not true?": true, "a knot": false,
		"Wer kam nicht?": true, "Which notion?": false, "Wasn’t it?": true, "": false} {
		if got := negated(text); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}
