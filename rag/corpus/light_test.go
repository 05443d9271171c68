package corpus

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/internal/test/doubling"
	"github.com/sluice-rag/sluice/rag/corpus/charset"
	"github.com/sluice-rag/sluice/rag/corpus/doc"
	"github.com/sluice-rag/sluice/rag/corpus/markup"
)

// TestLightMarkup: headings, text, lists and code of each format, without what is not for readers.
func TestLightMarkup(t *testing.T) {
	for _, c := range []struct{ name, content, want string }{
		{"a.rst", "=====\nTides\n=====\n\n.. note:: Mind the *spring* tide.\n\nHigh water\n----------\n\nSee ``tide -h`` and " +
			"`the tables <http://a>`_ on :ref:`moons`.\n\n.. code-block:: sh\n   :linenos:\n\n   tide now\n\n.. a comment\n\n* one\n* two\n",
			"Mind the spring tide.\n\nSee tide -h and the tables on moons.\n\n   tide now\n\n\n\n- one\n- two|Tides/High water"},
		{"a.rst", "It rose [1]_, they say [Bo99]_.\n\n.. [1] By a\n   foot.\n.. [Bo99] Bo, Tides.\n\n.. code :: sh\n\n   tide now\n\n.. math:: a^2\n   :label: e\n\n   b\n",
			"It rose [1], they say [Bo99].\n\n[1] By a foot.\n\n[Bo99] Bo, Tides.\n\n   tide now\n\n\n\na^2\n\n   b\n|"},
		{"a.adoc", "= Tides\n:toc:\n\n// not this\n== High water\n\nIt is `high`.\n\n[source,sh]\n----\ntide now\n----\n\n* one\n",
			"It is high.\n\ntide now\n\n\n- one|Tides/High water"},
		{"a.org", "#+TITLE: Tides\n* High water\n:PROPERTIES:\n:END:\nSee [[http://a][the tables]] and =tide=.\n#+BEGIN_SRC sh\n" +
			"tide now\n#+END_SRC\n- one\n", "See the tables and tide.\n\ntide now\n\n\n- one|High water"},
		{"a.tex", "\\documentclass{a}\nnot this\n\\begin{document}\n\\section{High water}\nIt is \\emph{high}~now % or not\n" +
			"by 5\\%.\n\n\\begin{itemize}\n\\item one\n\\end{itemize}\n\\begin{verbatim}\ntide now\n\\end{verbatim}\n\\end{document}\n",
			"It is high now by 5%.\n\n- one\n\ntide now\n|High water"},
		{"tide.1", ".\\\" not this\n.TH TIDE 1\n.SH NAME\ntide \\- says when water is \\fBhigh\\fR\n.SH OPTIONS\n.TP\n.BR \\-h , \\-\\-help\n" +
			"Shows help.\n.nf\ntide now\n.fi\n", "tide - says when water is high\n\n-h,--help: Shows help.\n\ntide now\n|NAME,OPTIONS"},
		{"a.ipynb", `{"cells":[{"cell_type":"markdown","source":["# Tides\n","Water rises."]},{"cell_type":"code","source":"tide(1)\n"}],` +
			`"nbformat":4}`, "Water rises.\n\ntide(1)\n\n|Tides"},
		{"a.rst", "|See| `the\nlong one <http://a>`__ and :ref:`a\n  b <c>`.\n\n  +------+-----+\n  | Port | m   |\n  +======+=====+\n" +
			"  | Oslo | 9   |\n  |      | low |\n  +------+-----+\n\n====  ===\nPort  m\n====  ===\nOslo  9\n      low\nNice  -\n====  ===\n\n" +
			".. container:: box\n\n   ::\n\n      x\n\n.. list-table:: Ports\n   :header-rows: 1\n\n   * - Port\n     - m\n   * - Oslo\n     - 9\n       - low\n\n| one\n| two\n",
			"See the long one and a b.\n\nPort / m\nOslo / 9 low\n\nPort / m\nOslo / 9 low\nNice / -\n\n      x\n\n\n\nPorts\n\nPort / m\n" +
				"Oslo / 9 - low\n\none\ntwo|"},
		{"a.tex", "\\begin{document}\n\\hypertarget{a}{%\n\\section{\\texorpdfstring{High \\emph{water}}{High}}\\label{a}}\n\\begin{description}\n" +
			"\\item[\\texttt{-v}] It \\href{http://a}{ebbs} by \\verb|x_y|, f\\\"ur M\\'{u}ller stra\\ss e \\c{c}a \\cmd{in} \\LaTeX{} a\\footnote{Or b.}\\ldots\n\\end{description}\n\\begin{tabular}{ll}\n\\toprule\n" +
			"Port & m \\\\\n\\midrule\nOslo \\& co & 9\n low \\\\\nNice & 7 \\\\[2pt] \\hline\n\\end{tabular}\n",
			"-v: It ebbs by x_y, für Múller straße ça in LaTeX a Or b.…\n\nPort / m\nOslo & co / 9 low\nNice / 7|High water"},
		{"a.adoc", "tide(1)\n=======\n\nNAME\n----\ntide - see linkgit:git-log[1], ``a`` and x{caret}{}\n\n[[o]]\nHigh water\n----------\n-v::\n\tSay\n" +
			"\tmore.\n+\n----\ncode\n----\n", "tide - see git-log, a and x^{}\n\n-v: Say more.\n\ncode\n|tide(1)/NAME,High water"},
		{"a.adoc", "Ebb:: It goes\nout.\nNeap::\n  Weak.\nSpring::\n\nStrong.\n\nSee link:a[that], <<b,this>> and <<c>>, std::x.\n\n" +
			"[cols=\"1,1\"]\n|===\n|Port |m\n\n|Oslo\n|9\nlow\n|Nice 2+|7\n.2+^|Rome a|8\n|had |5\n|===\n",
			"Ebb: It goes out.\nNeap: Weak.\nSpring: Strong.\n\nSee that, this and c, std::x.\n\nPort / m\nOslo / 9 low\nNice / 7\nRome / 8\nhad / 5|"},
		{"a.org", "- Ebb :: It goes out.[fn:1]\n- Neap :: Weak.\n\n| Port | m |\n|------+---|\n| Oslo | [[http://a][9]] |\n| Nice | 7 |\n\n[fn:1] Twice.",
			"Ebb: It goes out.\nNeap: Weak.\n\nPort / m\nOslo / 9\nNice / 7\n\nTwice.|"},
		{"a.json", "{\n  \"port\": \"Narvik\"\n}\n", "{\n  \"port\": \"Narvik\"\n}\n|"},
		{"a.yaml", "port: Narvik\nberths:\n  - A\n", "port: Narvik\nberths:\n  - A\n|"},
		{"a.toml", "[port]\nname = \"Narvik\"\n", "[port]\nname = \"Narvik\"\n|"},
		{"LICENSE", "All may sail.\n", "All may sail.\n|"},
	} {
		docs, skips := load(t, LoadOptions{}, write(t, t.TempDir(), c.name, c.content))
		if len(docs) != 1 {
			t.Errorf("%s: %v", c.name, skips)
			continue
		}
		text, headings, _ := strings.Cut(c.want, "|")
		text = strings.ReplaceAll(text, " / ", " | ")
		if docs[0].Text != text {
			t.Errorf("%s: %q, want %q", c.name, docs[0].Text, text)
		}
		for h := range strings.SplitSeq(headings, ",") {
			found := fmt.Sprintf("%v", docs[0].Sections)
			if h != "" && !strings.Contains(found, strings.ReplaceAll(h, "/", " ")) {
				t.Errorf("%s: sections %s lack %q", c.name, found, h)
			}
		}
	}
	dir := t.TempDir()
	write(t, dir, "copyright", "Files: *\nLicense: MIT\n")
	write(t, dir, "core", "not a text by its name")
	write(t, dir, "syslog.1", "not a manual page")
	if docs, skips := load(t, LoadOptions{}, dir); len(docs) != 1 || len(skips) != 2 {
		t.Errorf("%d documents, %v", len(docs), skips)
	}
}

// TestManualPages: what groff 1.22 shows of a page, for each macro; the headings are sections, not text.
func TestManualPages(t *testing.T) {
	for _, c := range []struct{ name, page, want string }{
		{"quoted arguments", ".BI \"int open(const char *\" path \", int \" flags );\n",
			"int open(const char *path, int flags);"},
		{"a reference", "See\n.BR \"the tables\" (7),\n.BR tide (1).\n", "See the tables(7), tide(1)."},
		{"strings", ".ds sd \\fIsed\\fP\n.ds Aq \\(aq\n\\*(sd edits; \\*(sd\\*(Aqs \\*[sd] \\*(xx.\n", "sed edits; sed's sed ."},
		{"conditions", ".ie \\n(.g .ds A yes\n.el .ds A no\n.if t \\{\\\nfor typesetters\n.if n never\n.\\}\n.ie n \\{on \\*A\n.\\}\n" +
			".el not here\n.if !t it is\nshown.\n", "on yes it is shown."},
		{"what is not text", ".de XX\n\\fI\\\\$1\\fP\n..\n.de IX\n. RS \\\\$1\n..\n.ig\nnor this\n..\n.nr x 1\nText.\\\" a remark\n.XX own\n.IX not\n", "Text. own"},
		{"a term of its own", ".HP\n\\fB\\-i\\fR, \\fB\\-\\-in\\-place\\fR\n.IP\nedit files in place\n.IP\nMore.\n",
			"-i, --in-place: edit files in place\n\nMore."},
		{"a term of DocBook", ".PP\npop [<stash>]\n.RS 4\nRemove a state\n.RE\nBehind.\n",
			"pop [<stash>]: Remove a state\n\nBehind."},
		{"a list", ".IP \\(bu 2\none\n.IP \\(bu\ntwo\n.IP \"the last\" 4\nthree\n",
			"- one\n\n- two\n\nthe last: three"},
		{"terms", ".TP\n.BR \\-v \", \" \\-\\-verbose\nsays more\n.TP\nNote.\nends itself\n.TP 4\n1)\nfirst\n.TP\n.TQ\n2\n" +
			"an error\n.PP\nA paragraph\n.PP\nends.\n.RS\nfurther in\n.RE\n.TP\n.B last\n",
			"-v, --verbose: says more\n\nNote. ends itself\n\n1) first\n\n2: an error\n\nA paragraph\n\n" +
				"ends. further in\n\nlast:"},
		{"a table", ".TS\nallbox tab(:);\nlb l\nl l.\nName:Meaning\n_\nT{\nHigh\n.B water\nT}:T{\nby day\nT}\nLow::\n.TE\nBelow.\n",
			"Name | Meaning\nHigh water | by day\nLow\n\nBelow."},
		{"links", "Write to\n.MT a@b\nus\n.ME ,\nor see\n.UR http://c\n.UE .\n",
			"Write to us ⟨a@b⟩, or see ⟨http://c⟩."},
		{"escapes", "a\\h'-04'b\\s-1c\\s0 \\(:ad \\['e]f \\[u20AC] \\N'36' \\&.g \\m[blue]h\\m[] \\-\\^i\n",
			"abc äd éf € $ .g h -i"},
		{"code", ".nf\n  if (x)\n.B    now\n.fi\n", "  if (x)\nnow\n"},
		{"mdoc", ".Nm tide\n.Op Fl 46\n.Op Fl o Ar file , Fl -long\n.Ar\n.Pp\nThe\n.Nm\nsays\n.Dq high water .\nSee\n.Xr moon 7 ,\n" +
			".Fl x Ns Ar y\n.Pq Ev HOME Ns = Ns Pa /\n.Fn open \"char *path\" \"int flags\" ;\n.Bl -bullet\n.It\none\n.El\n" +
			".Bl -tag -width x\n.It Fl v\nsays more\n.It Fl L Xo\n.Ar port : Ns\n.Ar host\n.Xc\nleads on\n.El\n.Bd -literal\ntide now\n.Ed\n",
			"tide [-46] [-o file, --long] file ...\n\nThe tide says “high water”. See moon(7), -xy (HOME=/) open(char *path, int flags);\n\n" +
				"- one\n\n-v: says more\n\n-L port:host: leads on\n\ntide now\n"},
		{"an enclosed function", ".de X\n..\n.Pq Fn open\n.Fo close\n.Fa fd\n.Fc\n", "(open()) close(fd,)"},
		{"blocks without an end", ".if t \\{\n.de X\n.TS\nl.\nT{\nshown\n", "shown"},
	} {
		head := ".TH TIDE 1\n.SH\nTEXT\n"
		if c.name == "mdoc" || strings.Contains(c.page, ".Fo") {
			head = ".Dd May 1, 2020\n.Dt TIDE 1\n.Sh TEXT\n"
		}
		docs, skips := load(t, LoadOptions{}, write(t, t.TempDir(), "tide.3pm", head+c.page))
		if len(docs) != 1 {
			t.Errorf("%s: %v", c.name, skips)
			continue
		}
		if d := docs[0]; d.Text != c.want || d.Title != "TIDE" || fmt.Sprint(d.Sections[0].Heading) != "[TIDE TEXT]" {
			t.Errorf("%s: %q, want %q; title %q, sections %v", c.name, d.Text, c.want, d.Title, d.Sections)
		}
		checkDocument(t, docs[0], len(head+c.page))
	}
}

// TestDescriptions: what reStructuredText describes stands before its description, and terms before their definitions.
func TestDescriptions(t *testing.T) {
	for content, want := range map[string]string{
		".. function:: tide(place)\n\n   Returns the time. It is UTC.\n\n   .. versionadded:: 3.9\n\n      The *high* one.\n": "tide(place): " +
			"Returns the time. It is UTC.\n\n3.9: The high one.",
		".. note:: It is late.\n\n   More.\n\n.. class:: Tide\n   :module: sea\n\n   A tide.\n":    "It is late. More.\n\nTide: A tide.",
		".. module:: sea\n   :synopsis: Tides.\n\nWords.\n\n.. seealso:: moon\n\n   .. data:: x\n": "sea\n\nWords.\n\nmoon\n\nx",
		"ebb\n    The water goes out.\nflood\n    It comes in.\n    Boats sail.\n\n    More.\n": "ebb: The water goes out.\nflood: It comes in. " +
			"Boats sail.\n\nMore.",
		"- an item\n  that goes on\n\n1. first\n   goes on\n\nWords\ngo on.\n\n  Said.\n": "- an item that goes on\n\n1. first goes on\n\n" +
			"Words go on.\n\nSaid.",
	} {
		if got := strings.TrimSpace(textOf(t, "a.rst", content)); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestStringsStayBounded: what strings stand for does not become many times the page.
func TestStringsStayBounded(t *testing.T) {
	page := ".TH A 1\n.ds a " + strings.Repeat("b", 200) + "\n" +
		strings.Repeat("\\*a\n.nf\n\\*a\n.fi\n", 20_000)
	if got := textOf(t, "a.1", page); len(got) > 1<<20+len(page) || len(got) < 1<<20 {
		t.Errorf("%d bytes of text from %d", len(got), len(page))
	}
}

// TestCodeAtTheEnd: the last line of a source ends with it, whether or not it has an end of its own.
func TestCodeAtTheEnd(t *testing.T) {
	for name, content := range map[string]string{"a.tex": "\\begin{verbatim}\nw\xe9", "a.rst": "A::\n\n  w\xe9",
		"tide.1": ".TH a\n.nf\nw\xe9", "a.org": "#+begin_src\nw\xe9", "a.adoc": "----\nw\xe9"} {
		docs, _ := load(t, LoadOptions{}, write(t, t.TempDir(), name, content))
		if len(docs) != 1 || !strings.HasSuffix(docs[0].Text, "wé") {
			t.Fatalf("%s: %d documents", name, len(docs))
		}
		checkDocument(t, docs[0], len(content))
	}
}

// TestCodeOfBackquotes: a fence is longer than any run of back-quotes in its code, however long that is.
func TestCodeOfBackquotes(t *testing.T) {
	for _, n := range []int{0, 3, 1 << 20} {
		code := "a " + strings.Repeat("`", n) + " b"
		got := textOf(t, "a.ipynb", `{"cells":[{"cell_type":"code","source":"`+code+`"}]}`)
		if strings.TrimSpace(got) != code {
			t.Errorf("%d back-quotes: %d bytes, %.40q", n, len(got), got)
		}
	}
}

// TestLightMarkupIsLinear: the work of each format grows with its length. Steps are beats, and bytes of the text.
func TestLightMarkupIsLinear(t *testing.T) {
	for ending := range strings.FieldsSeq(markup.Endings) {
		for _, unit := range []string{"*a ", "`a", "\\f", "a\n===\n", ".. a\n", "a::\n", "\\item a\n", "- a\n",
			".SH a\n", "[[", ":a: b\n", ".if t \\{\n", ".if n ", ".de a\n", ".TS\n", "T{\n", "\\*(a",
			".ds a \\*a\\*a b\n", ".Op Fl "} {
			doubling.Linear(t, doubling.Input{Head: ".TH a\n", Unit: unit}, func(text string) int {
				d, p := &Document{}, &doc.Pulse{Ctx: context.Background()}
				_ = markup.Parse(d, charset.Text{Text: text}, ending, p)
				return int(p.N) + len(d.Text)
			})
		}
	}
}
