package pseudo

import (
	"cmp"
	"strings"

	"github.com/sluice-rag/sluice/llm"
)

// Request is one request to the model about a passage.
type Request struct {
	llm.Request
	Prefix    string // the beginning of the answer, which the prompt ends with
	Questions int    // that it asks for; 0 = 1
}

// text is everything that the model reads.
func (r Request) text() string {
	var b strings.Builder
	b.WriteString(r.Prompt)
	for _, m := range r.Messages {
		b.WriteString(m.Content)
		b.WriteByte('\n')
	}
	return b.String()
}

// Prompter makes the requests that ask for n questions about a passage, with the settings of sampling;
// Generate sets MaxTokens and Seed. It must be a pure function of its arguments: equal requests are not
// made again by a resumed run, and what they say besides the passage counts as an echo in an answer.
type Prompter interface {
	Requests(passage string, n int) ([]Request, error)
}

// OneShot is the Prompter for small models: plain text with one example, continued behind the first word of
// the question. A forced first word makes a question of what a model of 135 million parameters would spend
// on a preface, and different ones make different questions. The requests about one passage share all but
// their last token, so the model reads the passage once. It needs no chat template: base models do as well.
type OneShot struct {
	Temperature float64 // 0 = .3
}

// temperature is the default of requests.
const temperature = .3

// language is the text of a OneShot prompt.
type language struct {
	task, passage, question string
	example                 string
	questions               []string // about the example; their first words begin the model's questions
	common                  string   // words that tell the language
}

var languages = []language{{
	task: "Short questions, each answered by its passage.", passage: "Passage: ", question: "Question: ",
	example: "The Danube is Europe's second-longest river. It rises in the Black Forest of Germany and flows for " +
		"about 2,850 km before it empties into the Black Sea. Ten countries lie along it, more than along any other " +
		"river.",
	questions: []string{"What is the second-longest river of Europe?", "How long is the Danube?",
		"Why does the Danube pass through so many countries?", "Where does the Danube rise?"},
	common: " the of and is are to a in with for ",
}, {
	task: "Kurze Fragen, die jeweils ihr Text beantwortet.", passage: "Text: ", question: "Frage: ",
	example: "Die Donau ist der zweitlängste Fluss Europas. Sie entspringt im Schwarzwald und fließt etwa 2850 km " +
		"weit, bevor sie ins Schwarze Meer mündet. An ihr liegen zehn Länder, mehr als an jedem anderen Fluss.",
	questions: []string{"Was ist der zweitlängste Fluss Europas?", "Wie lang ist die Donau?",
		"Warum liegen so viele Länder an der Donau?", "Wo entspringt die Donau?"},
	common: " der die das und ist sind zu ein eine im mit für ",
}}

// Requests makes one request per question, in the passage's language (English or German).
func (p OneShot) Requests(passage string, n int) ([]Request, error) {
	l := languageOf(passage)
	var shared strings.Builder
	shared.WriteString(l.task + "\n\n" + l.passage + l.example + "\n")
	for _, q := range l.questions {
		shared.WriteString(l.question + q + "\n")
	}
	shared.WriteString("\n" + l.passage + strings.Join(strings.Fields(passage), " ") + "\n" + l.question)
	requests := make([]Request, n)
	for i := range requests {
		first, _, _ := strings.Cut(l.questions[i%len(l.questions)], " ")
		requests[i] = Request{Prefix: first, Request: llm.Request{
			Prompt: shared.String() + first, Temperature: cmp.Or(p.Temperature, temperature),
			Stop: []string{"\n"},
		}}
	}
	return requests, nil
}

// languageOf counts common words; English unless another has more.
func languageOf(text string) language {
	best, most := languages[0], -1
	for _, l := range languages {
		n := 0
		for _, w := range words(text) {
			if strings.Contains(l.common, " "+w+" ") {
				n++
			}
		}
		if n > most {
			best, most = l, n
		}
	}
	return best
}
