package sentence

import (
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/rag/corpus/doc"
)

// hardSentences are texts with "|" between their sentences: abbreviations, numbers, dates, lists, quotations, ellipses,
// addresses, in English and German.
var hardSentences = []string{
	// titles, names, initials
	"Dr. Smith met Prof. Jones at St. Mary's.|They left.",
	"J. R. R. Tolkien wrote it.|C. S. Lewis did not.",
	"George W. Bush was president.|His father, George H. W. Bush, was too.",
	"Mr. and Mrs. Brown live in the U.S. Army base.|It is large.",
	"He works for Sluice Inc. in Boston.|The firm is new.",
	"He works for Sluice Inc.|The firm is new.",
	"He was born in the U.S.|His mother was not.",
	"The U.S. Supreme Court ruled on it.|Nobody was surprised.",
	"Martin Luther King Jr. spoke.|The crowd listened.",
	"Vitamin C helps.|Plan B did not.",
	"It was you and I.|We knew.",
	// abbreviations inside
	"See e.g. Go, i.e. the language.|It compiles.",
	"They sell apples, pears, etc. on the market.|It is cheap.",
	"They sell apples, pears, etc.|The market is cheap.",
	"Smith et al. (2019) disagree.|Jones et al. show more.",
	"Cf. Fig. 3 and Eq. 4 in Sec. 2.|They differ.",
	"The answer is no.|It was No. 5 Main Street.",
	"It costs approx. 5 dollars, incl. tax.|Buy it.",
	"The meeting is at 5 p.m. on Monday.|Come early.",
	"The meeting is at 5 p.m.|Come early.",
	"It opens at 9 a.m. and closes at 5 p.m.|Always.",
	"Washington, D.C. is the capital.|It lies on the Potomac.",
	"She has a Ph.D. in physics.|Her thesis is long.",
	"On Jan. 5 and Sept. 11 it rained.|In May.|It did not.",
	"The war of 1914 vs. the war of 1939.|Both were terrible.",
	"Volume is in vol. 3, pp. 12-14.|Read it.",
	// numbers, versions, addresses
	"It is 3.14.|Then 1,000.5 more.",
	"Version 1.2.3 fixes it.|Version 2.0 breaks it.",
	"Visit www.example.com or mail a.b@example.org.|Thank you.",
	"Open the file main.go.|Then run it.",
	"Call fmt.Println.|Use os.Exit(1).|Done.",
	"We use .NET and (.DS_Store too).|A kill leaves .NAME behind.|It is large.",
	"Visit https://a.org/b?Id=3&X=!important now.|Call f().Bar() too.|Why?|1.Introduction",
	"The bound ?Sized is weak, and !Send strong.|Use ???+ or !!=.|Really?|Yes!",
	"The price rose to $5.|It fell again.",
	"In 1999.|Then came 2000.",
	"He came 3rd.|She came 1st.",
	"Population: 3.5 million.|Area: 2 km².",
	"Go 1.22 was out.|Go 1.23 followed.",
	// quotations and brackets
	"He said \"Stop.\"|Then he left.",
	"“Is it true?” she asked.|“Yes.”|He nodded.",
	"\"Is it true?\" she asked.|Nobody answered.",
	"He shouted \"Fire!\" and ran.|They followed.",
	"It works (see below).|It does.",
	"It works.|(It did not before.)|Now it does.",
	"(This is a note.)|It ends here.",
	"what is it?|i do not know!|ok",
	"What?!|No!!|Yes…",
	"The dbg! macro prints.|Rust has println! and the ? operator to help.|Is it?|no",
	"Wait... what?|Nothing.",
	"He waited...|Then he left.",
	// marks of sources behind a sentence
	"It is old.[12]|Next it grew.[3][4]|“Why?”[citation needed]|Nobody knew.",
	"Es ist alt.[Literaturangabe benötigt]|Dann wuchs es.|Danach nicht.",
	"It is so, e.g.[3] here.|See x.[0] too.",
	// line breaks
	"A line\nbreak ends nothing.|Next\nsentence.",
	// German
	"Dr. Müller und Prof. Dr. Schmidt kamen.|Sie gingen.",
	"Das ist z. B. Berlin, d. h. die Stadt.|Vgl. Abb. 3 dazu.",
	"Das ist z.B. Berlin, d.h. die Stadt.|Es ist groß.",
	"Am 3. Oktober war es.|Im 19. Jahrhundert nicht.",
	"Am 3. und 4. Oktober war es.|Danach nicht.",
	"Er wurde 1. Vorsitzender.|Sie wurde 2. Vorsitzende.",
	"Kaiser Wilhelm II. regierte lange.|Ludwig XIV. auch.",
	"Er lebte im 2. Jh. v. Chr. in Rom.|Dort starb er.",
	"Das Gesetz, Art. 5 Abs. 1 GG, gilt.|§ 3 Nr. 2 auch.",
	"Die Fa. Meier GmbH & Co. KG liefert.|Sie ist groß.",
	"Er sagte: „Halt.“|Dann ging er.",
	"„Ist das wahr?“, fragte sie.|„Ja.“|Er nickte.",
	"Das kostet ca. 5 Mio. Euro.|Es ist viel.",
	"Die Temperatur beträgt 20,5 Grad.|Es ist warm.",
	"Es waren 1.000.000 Menschen da.|Alle gingen.",
	"Der Zug fährt um 8.30 Uhr.|Er ist pünktlich.",
	"Im Jahr 1990.|Danach kam 1991.",
	"Er wohnt in der Hauptstr. 5.|Sie auch.",
	"Sie kauften Äpfel, Birnen usw. auf dem Markt.|Es war billig.",
	"Sie kauften Äpfel, Birnen usw.|Es war billig.",
	"Sie trafen sich u. a. in Köln.|Es war kalt.",
	"Bd. 3, S. 45 ff. enthält mehr.|Lies es.",
	"Die Nr. 1 bzw. Nr. 2 gewinnt.|Beide nicht.",
	"Das gilt ggf. auch für Dr. h. c. Weber.|Er weiß es.",
	"Am 24.12.2020 war Feiertag.|Am 25. auch.",
	"Im Okt. 2020 kam er.|Im Dez. ging er.",
	"St. Petersburg liegt am Meer.|Sankt Gallen nicht.",
	"Die sog. Wende kam 1989.|Danach war alles anders.",
	"Er war 25.|Sie war 30.",
	"Das Spiel endete 2:1.|Der FC Bayern gewann.",
	"Sein Alter: 30.|Ihres: 28.",
	"Friedrich Schiller (geb. 10. Nov. 1759) schrieb es.|Er starb 1805.",
	"Das 1. FC Köln Museum ist neu.|Es ist klein.",
	// other scripts
	"中文句子。|第二句。",
	"これは文です。|次の文です。",
}

func TestHardSentences(t *testing.T) {
	wrong := 0
	for _, want := range hardSentences {
		text := "\n\n" + strings.ReplaceAll(want, "|", " ") // paragraphs begin so
		if strings.ContainsAny(text, "。") {
			text = strings.ReplaceAll(want, "|", "")
		}
		var got []string
		for s := range Split(text, doc.Span{Start: 0, End: len(text)}) {
			got = append(got, text[s.Start:s.End])
		}
		if g := strings.Join(got, "|"); g != want {
			wrong++
			t.Logf("\n got %s\nwant %s", g, want)
		}
	}
	if wrong > 0 {
		t.Errorf("%d of %d texts", wrong, len(hardSentences))
	}
}

func TestSentences(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"One. Two! Three? Four", "One.|Two!|Three?|Four"},
		{"Dr. Smith met Prof. Jones. They left.", "Dr. Smith met Prof. Jones.|They left."},
		{"See e.g. Go, i.e. the language. J. R. Tolkien wrote.",
			"See e.g. Go, i.e. the language.|J. R. Tolkien wrote."},
		{"It is 3.14. Then 1,000.5 more.", "It is 3.14.|Then 1,000.5 more."},
		{"Call fmt.Println. Use os.Exit(1). Done.", "Call fmt.Println.|Use os.Exit(1).|Done."},
		{"The answer is no. It was No. 5 Main Street.", "The answer is no.|It was No. 5 Main Street."},
		{"Am 3. Oktober war es. Im 19. Jahrhundert nicht.", "Am 3. Oktober war es.|Im 19. Jahrhundert nicht."},
		{"Das ist z. B. Berlin, d. h. die Stadt. Vgl. Abb. 3 dazu.",
			"Das ist z. B. Berlin, d. h. die Stadt.|Vgl. Abb. 3 dazu."},
		{"He said \"Stop.\" Then he left.", "He said \"Stop.\"|Then he left."},
		{"A line\nbreak ends nothing. Next\nsentence.", "A line\nbreak ends nothing.|Next\nsentence."},
		{"中文句子。第二句。", "中文句子。|第二句。"},
		{" \n\t ", ""},
	} {
		var got []string
		for s := range Split(c.text, doc.Span{Start: 0, End: len(c.text)}) {
			got = append(got, c.text[s.Start:s.End])
		}
		if g := strings.Join(got, "|"); g != c.want {
			t.Errorf("%q:\n got %s\nwant %s", c.text, g, c.want)
		}
	}
}
