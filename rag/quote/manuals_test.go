package quote_test

import (
	"slices"
	"strings"
	"testing"
)

// TestWhatAsksIsNoContent: a sentence is no nearer to an answer with "what" and "do" in it, and a question of nothing
// else is answered all the same.
func TestWhatAsksIsNoContent(t *testing.T) {
	const what = "What they do is what we do not know, do we not."
	for question, want := range map[string]string{
		"What do sailors do?": "Sailors know the tides.",
		"What do we do what?": what,
	} {
		got := choose(t, question, 1, "The sea is wide. "+what+" Sailors know the tides.")
		if !slices.Equal(texts(got), []string{want}) {
			t.Errorf("%s: %+v, not %q", question, got, want)
		}
	}
}

// TestTheSameIsQuotedOnce: several documents may say the same in other words around it.
func TestTheSameIsQuotedOnce(t *testing.T) {
	const again = "The tides  follow\nthe moon's pull."
	got := choose(t, "What do the tides follow?", 2, tides, "Tides. "+again+" And the sun's.")
	if len(got) != 2 || got[0].Text != "The tides follow the moon's pull." || got[1].Text == again {
		t.Errorf("%+v", got)
	}
}

// TestTheFirstSentenceBelowAHeading: below a heading with the question's words, the first sentence is likely to
// answer, though it has none of them.
func TestTheFirstSentenceBelowAHeading(t *testing.T) {
	passages := []string{"An error of the update was mended.",
		"This command brings in all that is new. The update takes time."}
	const question = "What does the harbour update do?"
	if got := choose(t, question, 1, passages...); got[0].Passage != 0 {
		t.Errorf("%+v without headings", got)
	}
	got := chooseBelow(t, []string{"Changes", "harbour-update › Description"}, question, 1, passages...)
	if want := []string{"This command brings in all that is new."}; !slices.Equal(texts(got), want) {
		t.Errorf("%+v, not %q", got, want)
	}
}

// TestASentenceAboutTheSubject: of sentences with all words of a question, the one that begins with them says
// something of what they name.
func TestASentenceAboutTheSubject(t *testing.T) {
	got := choose(t, "What is a harbour pilot?", 1, "In the old days a captain did not always want a harbour pilot. "+
		"A harbour pilot is somebody who steers ships in narrow waters near the coast.")
	if got[0].Start == 0 {
		t.Errorf("%+v", got)
	}
}

// TestNothingIsNotQuoted: marks that others refer to say nothing, nor does a second quote that ends in a colon with
// nothing behind it.
func TestNothingIsNotQuoted(t *testing.T) {
	got := choose(t, "Where are the tides?", 3, "[sea.tides]\n\nThe tides are at sea. Other tides:",
		"[tides]")
	if want := []string{"The tides are at sea."}; !slices.Equal(texts(got), want) {
		t.Errorf("%+v, not %q", got, want)
	}
	if got := choose(t, "Where are the tides?", 3, "[tides]"); len(got) != 1 {
		t.Errorf("%+v where there is nothing else", got)
	}
}

// TestAFurtherOptionHasItsName: the names come along where there is no room for another sentence.
func TestAFurtherOptionHasItsName(t *testing.T) {
	const first, second = "-a, --all\n\nIt removes all files.", "-d\n--doc\n\nIt removes the files of documents."
	got := choose(t, "What removes all the files?", 2, "Be careful.\n\n"+first+"\n\n"+second)
	if n := len(got); n != 2 || got[0].Text+"|"+got[1].Text != first+"|"+second {
		t.Errorf("%+v", got)
	}
}

// TestAWayIsAnOption: where a question asks how something is done, an option that does it answers, with its names,
// which alone would say nothing.
func TestAWayIsAnOption(t *testing.T) {
	const all = "-a, --all\n\nTake all the files."
	passage := "Files are removed, and all the files may be removed at once.\n\n" + all + "\n\n-d\n\nTake none."
	for question, want := range map[string]string{"How do I remove all the files?": all,
		"Which flag removes all files?": all,
		"What is removed at once?":      passage[:strings.Index(passage, "\n")]} {
		if got := choose(t, question, 2, passage); got[0].Text != want {
			t.Errorf("%s %+v, not %q", question, got, want)
		}
	}
}

// TestWhatALeadInShows: code comes with the sentence before it, whose colon would be all there is without, though there
// is no room for another sentence; and so does the name of its file.
func TestWhatALeadInShows(t *testing.T) {
	const shown = "These are the defaults of the profile:\n\nFile: tide.toml\n\n[profile]\nlevel = 0\n\n[other.profile]\nlevel = 3"
	passage := shown + "\n\nThey may be changed."
	for _, sentences := range []int{1, 2} {
		got := choose(t, "What are the defaults of the profile?", sentences, passage)
		if got[0].Text != shown {
			t.Errorf("%+v, not %q", got, shown)
		}
	}
	long := "These are the defaults of the profile:\n\n[profile]\n" // a statement of more than 60 words is cut
	for range 40 {
		long += "level_of_tide = 1\n"
	}
	got := choose(t, "What are the defaults of the profile?", 2, long)
	if n := len(got[0].Text); n < 100 || n > 700 {
		t.Errorf("%d bytes of %d: %q", n, len(long), got[0].Text)
	}
}

// TestInterruptedSentences: what is shown in the middle or behind a sentence without a colon belongs to it, whichever
// of them is found; a sentence that ends, an item and a long paragraph show nothing.
func TestInterruptedSentences(t *testing.T) {
	const passage = "Ropes are kept dry. The command sink,\n\n> sink(\"harbour.log\")\n\nwill divert all output " +
		"of the session to a file.\n\nLamps burn."
	whole := "The command sink,\n\n> sink(\"harbour.log\")\n\nwill divert all output of the session to a file."
	for _, question := range []string{"What does the command sink do?", "How is output of the session diverted?"} {
		if got := texts(choose(t, question, 2, passage)); len(got) == 0 || got[0] != whole {
			t.Errorf("%s: %q, not %q", question, got, whole)
		}
	}
	steps := "1. Start the program.\n2. To quit the program the command is\n\n> q()\n\nAt this point it asks."
	if got := texts(choose(t, "How do I quit the program?", 2, steps)); len(got) == 0 ||
		got[0] != "2. To quit the program the command is\n\n> q()" {
		t.Errorf("%q", got)
	}
	way := "To fetch the code of a package, try a command like\n\nfetch code mypackage."
	if got := texts(choose(t, "How do I fetch the code of a package?", 2, way)); len(got) != 1 || got[0] != way {
		t.Errorf("%q", got)
	}
	for _, passage := range []string{
		"The tide turns twice.\n\nset tide\n\nnext to it.",
		"The tide of the sea turns\n\n- twice a day\n- or once",
		"The tide of the sea turns\n\nShips come in and go out. They leave the port.",
	} {
		for _, got := range texts(choose(t, "When does the tide turn?", 2, passage)) {
			if strings.Contains(got, "\n\n") {
				t.Errorf("%q of %q", got, passage)
			}
		}
	}
}

// TestNamesOfCode: a sentence with the name that the question has comes before one about the same things, and the
// definition of a term before one that only uses it.
func TestNamesOfCode(t *testing.T) {
	for _, c := range []struct{ question, other, want string }{
		{"What does the function c() do with values?",
			"The function tide does nothing with values of the function list.",
			"Values are put together by c(1, 2), which is short."},
		{"What does is.na(x) return for a ship?", "A ship that returns for x does return.",
			"For each value, is.na(x) gives true or false."},
		{"What does the option --berths count?", "An option counts what the other option does not count.",
			"--berths: says how many ships lie in the port today"},
		{"What does Depth mean in a file of tides?", "A file of tides has a Depth in each of its lines.",
			"Depth: how far below the water the ground of a port lies"},
	} {
		if got := texts(choose(t, c.question, 1, c.other+"\n\n"+c.want)); len(got) != 1 || got[0] != c.want {
			t.Errorf("%s: %q", c.question, got)
		}
	}
}
