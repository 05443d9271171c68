package pseudo

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestParse(t *testing.T) {
	for _, c := range []struct {
		completion string
		want       []string
	}{
		{"What is a channel?", []string{"What is a channel?"}},
		{"1. What is a channel?\n2) How is one closed?\n(3) Who closes it?\n4: Why?",
			[]string{"What is a channel?", "How is one closed?", "Who closes it?", "Why?"}},
		{"- What is a channel?\n* How is one closed?\n• Who closes it?\n– When?\n> Where?",
			[]string{"What is a channel?", "How is one closed?", "Who closes it?", "When?", "Where?"}},
		{"Question 1: What is it?\nQ: How?\nQ2. Who?\nFrage 3: Was ist das?",
			[]string{"What is it?", "How?", "Who?", "Was ist das?"}},
		{"\"What is it?\"\n'How so?'\n„Was ist das?“\n«Qui est-ce?»\n**Why bold?**\n`code?`",
			[]string{"What is it?", "How so?", "Was ist das?", "Qui est-ce?", "Why bold?", "code?"}},
		{"1. **\"What is it?\"**", []string{"What is it?"}},
		{"What is it? How is it closed? It is closed by the sender.",
			[]string{"What is it?", "How is it closed?", "It is closed by the sender."}},
		{"Here are three questions:\n\n1. What is it?\n", []string{"Here are three questions:", "What is it?"}},
		{"What is it?!\r\n\r\n\t How?", []string{"What is it?", "How?"}},
		{"2001 was what for HAL?", []string{"2001 was what for HAL?"}},
		{"", nil}, {"\n \n***\n--\n1.\n?", nil},
	} {
		got := parse(c.completion)
		if !slices.Equal(got, c.want) {
			t.Errorf("%q: %q, want %q", c.completion, got, c.want)
		}
	}
}

func TestJudge(t *testing.T) {
	passage := wordsOf("A send on a nil channel blocks forever. The capacity, in number of elements, sets the size " +
		"of the buffer in the channel. Who watches the watchmen?")
	template := wordsOf("The Danube is Europe's second-longest river. Where does the Danube rise? How long is the " +
		"Danube?")
	for _, c := range []struct {
		question string
		want     Reason
	}{
		{"What happens on a send to a nil channel?", ""},
		{"What sets the size of the buffer in the channel?", ""}, // names of the passage are not an echo
		{"Was ist die Kapazität eines Kanals", ""},               // an interrogative needs no mark
		{"Is a nil channel ever ready?", ""},
		{"Who rules?", TooShort},
		{"What?", TooShort},
		{strings.Repeat("why ", 41) + "?", TooLong},
		{"It is about channels and their buffers.", NotAQuestion},
		{"Write three questions about the passage.", NotAQuestion},
		{"What a channel! It is closed.", NotAQuestion},
		{"How to close a channel:", NotAQuestion},
		{"Is a channel always buffered", NotAQuestion}, // cut off, or a statement
		{"A send on a nil channel blocks forever?", Echo},
		{"Which of the following sentences is nonsensical?", Echo},
		{"What does the sentence describe?", Echo},
		{"Worum geht es in diesem Text?", Echo},
		{"who watches the watchmen?", Echo},
		{"The capacity, in number of elements, sets the size?", Echo},
		{"Where does the Danube rise?", Echo},
		{"where does the DANUBE rise", Echo},
		{"Why is the Danube so important to Europe?", Echo}, // about the example
		{"Where does the Rhine rise?", ""},
		{"What rivers of Europe carry channel boats?", ""},
	} {
		if got := fault(c.question, passage, template); got != c.want {
			t.Errorf("%q: %q, want %q", c.question, got, c.want)
		}
	}
}

func TestNormal(t *testing.T) {
	for _, same := range [][2]string{{"What is it?", "what  is it"}, {"“What—is it?”", "WHAT IS IT"},
		{"Was heißt Größe?", "was heißt größe"}} {
		if normal(same[0]) != normal(same[1]) {
			t.Errorf("%q and %q differ: %q, %q", same[0], same[1], normal(same[0]), normal(same[1]))
		}
	}
	if normal("What is it?") == normal("What was it?") {
		t.Error("another word is the same question")
	}
}

func TestOneShotLanguages(t *testing.T) {
	for passage, want := range map[string]string{
		"The capital of the country is a port and lies in the north.":    "Question: What",
		"Die Hauptstadt ist ein Hafen und liegt mit der Burg im Norden.": "Frage: Was",
		"": "Question: What",
	} {
		r, err := OneShot{}.Requests(passage, 6)
		if err != nil || len(r) != 6 || !strings.HasSuffix(r[0].Prompt, want) ||
			!strings.Contains(r[0].Prompt, passage) {
			t.Errorf("%q: %+v, %v", passage, r, err)
			continue
		}
		for _, x := range r {
			if !strings.HasSuffix(x.Prompt, " "+x.Prefix) ||
				x.Prompt[:len(x.Prompt)-len(x.Prefix)] != r[0].Prompt[:len(r[0].Prompt)-len(r[0].Prefix)] {
				t.Errorf("%q: the prompts share less than all but their last word: %q", passage, x.Prompt)
			}
		}
		if r[0].Prefix == r[1].Prefix || r[1].Prefix == r[2].Prefix || r[0].Prefix == r[2].Prefix {
			t.Errorf("%q: the same beginning twice: %q %q %q", passage, r[0].Prefix, r[1].Prefix, r[2].Prefix)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"1. **\"What is it?\"**\n- How? So.", "Q: \xff?", "((1))?\n\n''?", "Frage 1) Was?\r\n"} {
		f.Add(s)
	}
	passage := wordsOf("what is it that the passage says")
	f.Fuzz(func(t *testing.T, s string) {
		for _, q := range parse(s) {
			if q != strings.TrimSpace(q) || strings.ContainsAny(q, "\n") || len(q) > len(s) {
				t.Fatalf("%q out of %q", q, s)
			}
			if utf8.ValidString(s) != utf8.ValidString(q) && utf8.ValidString(s) {
				t.Fatalf("%q of %q is not UTF-8", q, s)
			}
			if r := fault(q, passage, passage); r == "" && len(words(q)) < minWords {
				t.Fatalf("%q passes", q)
			}
		}
	})
}
