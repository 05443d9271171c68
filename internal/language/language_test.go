package language

import (
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/internal/testmodels/datasets"
)

func TestOf(t *testing.T) {
	d := New()
	for text, want := range map[string]string{
		"": "", "pump": "", "What is a cut-off?": "", "😀 😀 😀": "", strings.Repeat("k", 300): "",
		"TG9yZW0gaXBzdW0gZG9sb3Igc2l0IGFtZXQsIGNvbnNlY3RldHVyIGFkaXBpc2NpbmcgZWxpdCwgc2VkIGRvIGVpdXNtb2Q": "",
		"The valve of the second pump is opened when the pressure falls below three bar.":                 "en",
		"Das Ventil der zweiten Pumpe wird geöffnet, wenn der Druck unter drei Bar fällt.":                "de",
		"La vanne de la deuxième pompe s'ouvre lorsque la pression descend au-dessous de trois bars.":     "fr",
		"Клапан второго насоса открывается, когда давление падает ниже трёх бар.":                         "ru",
		"ポンプの弁は圧力が三バールを下回ると開きます。":                                                                         "ja",
		"当压力低于三巴时，第二个泵的阀门打开。":                                                                             "zh",
		"압력이 3바 아래로 떨어지면 두 번째 펌프의 밸브가 열립니다.":                                                              "ko",
		// cut within a character
		strings.Repeat("当压力低于三巴时，第二个泵的阀门打开。", 200): "zh",
	} {
		if got := d.Of(text); got != want {
			t.Errorf("%.60q: %q, want %q", text, got, want)
		}
	}
	if n := len(d.known.Whitelist); n != len(strings.Fields(codes)) || d.Name("ar") != "Arabic" {
		t.Errorf("%d languages of %d, Arabic is %s", n, len(strings.Fields(codes)), d.Name("ar"))
	}
	if d.Name("de") != "German" || d.Name("zh") != "Chinese" || d.Name("xx") != "xx" {
		t.Errorf("names: %s, %s, %s", d.Name("de"), d.Name("zh"), d.Name("xx"))
	}
}

// TestTechnicalTexts: lists of identifiers and source code are in no language, whatever their trigrams, and texts about
// them are in theirs.
func TestTechnicalTexts(t *testing.T) {
	d := New()
	for _, c := range []struct{ text, want string }{
		{"pkg archive/tar, const TypeBlock = 52\npkg archive/tar, const TypeChar = 51\npkg archive/tar, const TypeCont = 55\n" +
			"pkg archive/tar, const TypeDir = 53\npkg archive/tar, const TypeFifo = 54\npkg archive/tar, const TypeGNULink = 75",
			""},
		{"pkg container/list, method (*List) InsertBefore(interface{}, *Element) *Element\npkg container/list, method " +
			"(*List) Len() int\npkg container/list, method (*List) MoveToBack(*Element)", ""},
		{"pkg debug/elf, const R_386_TLS_LDM_POP = 31\npkg debug/elf, const R_386_TLS_LDM_PUSH = 29\npkg debug/elf, " +
			"const ELFOSABI_MODESTO = 11\npkg debug/elf, const ELFOSABI_NETBSD = 2", ""},
		{"res, err := cst.c.Get(cst.ts.URL)\nif err != nil {\n\tt.Fatal(err)\n}\nres.Body.Close()\nif res.StatusCode != code " +
			"{\n\tt.Errorf(\"%v, %v\", res, err)\n}", ""},
		{"A função http.ListenAndServe abre a porta TCP e chama Serve para tratar os pedidos das conexões que chegam.",
			"pt"},
		{"La méthode InsertBefore de container/list insère un élément devant un autre, qui doit être de la même liste.",
			"fr"},
		{"Polecenie grep szuka wierszy, które pasują do wzorca, i wyświetla je na ekranie jeden po drugim.", "pl"},
		{"MIT EINEM AUFRUF VON InsertBefore WIRD DAS ELEMENT VOR EINEM ANDEREN DER LISTE EINGEFÜGT, WENN ES DAZU GEHÖRT",
			"de"},
	} {
		if got := d.Of(c.text); got != c.want {
			t.Errorf("%.60q: %q, want %q", c.text, got, c.want)
		}
	}
}

// TestOnRealTexts checks that guesses on real texts are right, and that short texts get no guess rather than a wrong
// one.
func TestOnRealTexts(t *testing.T) {
	d := New()
	for _, c := range []struct {
		file, language string
		wrong, unknown float64 // at most these shares
	}{
		{"squad16/contexts", "en", .002, .01}, {"squad16/queries", "en", .004, .4},
		{"xquad-de/contexts", "de", .005, .01}, {"xquad-de/queries", "de", .006, .45},
	} {
		lines := datasets.Lines(t, c.file+".jsonl")
		n, wrong, unknown := float64(len(lines)), 0., 0.
		for _, line := range lines {
			switch d.Of(line.Text) {
			case c.language:
			case "":
				unknown++
			default:
				wrong++
			}
		}
		if n == 0 || wrong/n > c.wrong || unknown/n > c.unknown {
			t.Errorf("%s: of %g texts, %g are guessed wrong and %g not at all", c.file, n, wrong, unknown)
		}
	}
}

func FuzzOf(f *testing.F) {
	f.Add("The valve is open.")
	f.Add(strings.Repeat("\xff当", 3000))
	d := New()
	f.Fuzz(func(t *testing.T, text string) {
		if code := d.Of(text); len(code) > 3 || code != "" && d.Name(code) == "" {
			t.Fatalf("%q: %q", text, code)
		}
	})
}

// Of the questions of real data sets, hardly one is said to be in another language.
func TestOfRealQuestions(t *testing.T) {
	d := New()
	for _, c := range []struct {
		file, language string
		wrong, unknown float64 // at most these shares
	}{{"squad16/queries", "en", .001, .03}, {"xquad-de/queries", "de", .005, .06}} {
		lines := datasets.Lines(t, c.file+".jsonl")
		n, wrong, unknown := float64(len(lines)), 0., 0.
		for _, line := range lines {
			switch code := d.OfQuestion(line.Text); code {
			case c.language:
			case "":
				unknown++
			default:
				t.Logf("%q: %s", line.Text, code)
				wrong++
			}
		}
		t.Logf("%s: wrong %.4f, unknown %.4f", c.file, wrong/n, unknown/n)
		if n == 0 || wrong/n > c.wrong || unknown/n > c.unknown {
			t.Errorf("%s: of %g questions, %g are guessed wrong and %g not at all", c.file, n, wrong, unknown)
		}
	}
}

// Questions of a few words, for which Of has no guess.
func TestOfQuestion(t *testing.T) {
	d := New()
	for text, want := range map[string]string{
		"Wer schrieb Faust?": "de", "Was ist ein Slice?": "de", "Who wrote Faust?": "en", "What was it?": "en",
		"Qui est-ce?": "fr", "¿Qué es esto?": "es", "Dove è la stazione?": "it", "Waar is het station?": "nl",
		"Onde é a estação?": "pt", "Faust?": "", "": "", "Was?": "", "xyzzy plugh": "",
		"When does a deferred function run, in which order?": "en",
		"ripgrep option o":       "", // an article, and nothing else
		"Los Angeles population": "",
		"Does ripgrep ignore binary files or large PDF files?":                 "en",
		"Can ripgrep decompress files automatically?":                          "en",
		"ripgrep regex parse error unclosed group":                             "",
		"ripgrep case sensitive pattern configuration":                         "",
		"Bagaimana cara membuka katup pompa kedua di gedung utama perusahaan?": "id",
		"Como abro a válvula da segunda bomba quando a pressão é baixa?":       "pt",
	} {
		if got := d.OfQuestion(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
