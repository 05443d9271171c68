package mail

import (
	"testing"

	"github.com/sluice-rag/sluice/internal/test/doubling"
	"github.com/sluice-rag/sluice/rag/corpus/doc"
)

// TestFlowedText: RFC 3676, by its rules and its examples.
func TestFlowedText(t *testing.T) {
	for text, want := range map[string][2]string{ // without and with DelSp
		"The harbour ma \nster is awake. \nNext.\n\nFixed line\nother": {
			"The harbour ma ster is awake. Next.\n\nFixed line\nother",
			"The harbour master is awake.Next.\n\nFixed line\nother"},
		">> deep \n>> er\n> less \nnone": {">> deep er\n> less \nnone", ">> deeper\n> less\nnone"},
		" From stuffed \n >no quote":     {"From stuffed >no quote", "From stuffed>no quote"},
		"words \n-- \nA Person":          {"words \n-- \nA Person", "words\n-- \nA Person"},
		"ends \n":                        {"ends ", "ends"},
		"":                               {"", ""},
	} {
		for i, del := range []bool{false, true} {
			if got := unflowed(text, del); got != want[i] {
				t.Errorf("%q, %v: %q, want %q", text, del, got, want[i])
			}
		}
	}
	var d doc.Document
	if err := Parse(&d, "Subject: s\nContent-Type: text/plain; charset=utf-8; format=Flowed; DelSp=Yes\n\n"+
		"The harbour ma \nster is awake.\n", nil); err != nil || d.Text != "The harbour master is awake." {
		t.Errorf("%q, %v", d.Text, err)
	}
	doubling.Linear(t, doubling.Repeat(">a \n> b \n"), func(text string) int { return len(unflowed(text, true)) })
}
