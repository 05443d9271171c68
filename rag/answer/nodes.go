package answer

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/rag/flow"
	"github.com/sluice-rag/sluice/rag/gate"
	"github.com/sluice-rag/sluice/rag/knowledge"
	"github.com/sluice-rag/sluice/rag/prompt"
	"github.com/sluice-rag/sluice/rag/retrieve"
)

// The verdicts of nodes.
const (
	Open    flow.Verdict = "open"
	Closed  flow.Verdict = "closed"
	Found   flow.Verdict = "found"
	Nothing flow.Verdict = "nothing"
	Topical flow.Verdict = "topic only" // found, but the passages do not seem to answer

	VectorStore  flow.Verdict = "vectorstore"
	WebSearch    flow.Verdict = "web_search"
	OwnKnowledge flow.Verdict = "own_knowledge"

	Yes flow.Verdict = "yes"
	No  flow.Verdict = "no"

	Grounded     flow.Verdict = "grounded"
	Hallucinated flow.Verdict = "hallucinated"
	Unchecked    flow.Verdict = "unchecked" // no passages to check the answer against
	Unavailable  flow.Verdict = "unavailable"

	Repeated flow.Verdict = "repeated" // the rewriter repeated queries that were already searched for
)

// The names of nodes.
const (
	gateNode          = "gate"
	routerNode        = "router"
	retrieveNode      = "retrieve"
	webNode           = "web"
	documentsNode     = "documents"
	quoteNode         = "quote"
	promptNode        = "prompt"
	generateNode      = "generate"
	hallucinationNode = "hallucination"
	answerNode        = "answer"
	rewriteNode       = "rewrite"
)

// noProvider is the detail of a web search step if no provider is configured.
const noProvider = "no web search: no provider is named (web.provider)"

// line returns a text as one line of at most n runes.
func line(text string, n int) string {
	runes := []rune(strings.Join(strings.Fields(text), " "))
	if len(runes) > n {
		return string(runes[:n-1]) + "…"
	}
	return string(runes)
}

// route asks the gate or the language model, whichever decides, where to look for the answer. With own, which graphs
// have that route before they search, that may be the model's own knowledge, and the results of earlier queries are
// discarded.
func (a *State) route(ctx context.Context, v *flow.Visit, preset Decider, own bool) (flow.Verdict, error) {
	if own {
		a.Passages, a.trace.Retrieved = nil, []retrieve.Result{}
	}
	away := WebSearch // verdict if the store is not chosen
	switch {
	case a.Web == nil && own:
		away = OwnKnowledge
	case a.Web == nil:
		away = VectorStore
	}
	if a.Web == nil {
		v.Detail(noProvider)
	}
	v.Input(a.Query)
	if a.Gate == GateClosed { // the options exclude the store
		if away == VectorStore {
			return "", fmt.Errorf("%w: the store is not to be used, and there is %s", knowledge.ErrOption, noProvider)
		}
		return away, nil
	}
	if a.Gate == GateOpen {
		return VectorStore, nil
	}
	decider, err := a.decider(ctx, v, routerNode, prompt.Router, a.Router, preset, ByGate)
	if err != nil {
		return "", err
	}
	if decider == ByGate { // also where there is nowhere else to look: the second question goes on from its decision
		if said, err := a.gate(ctx, v); err != nil || said == Open {
			return VectorStore, err
		}
	}
	if away == OwnKnowledge { // a model that does not write well has little own knowledge
		writes, err := a.writes(ctx, generateNode, preset)
		if err != nil {
			return "", err
		}
		if !writes {
			v.Detail("the store at all events: the language model does not write well enough (its scorecard)")
			return VectorStore, nil
		}
	}
	if decider == ByGate {
		return away, nil
	}
	_, choices := prompt.Verdicts(prompt.Router)
	choices = slices.DeleteFunc(slices.Clone(choices), func(c prompt.Choice) bool {
		return c.Name == string(WebSearch) && a.Web == nil || c.Name == string(OwnKnowledge) && !own
	})
	if len(choices) == 1 {
		return VectorStore, nil
	}
	said, err := a.grade(ctx, v, routerNode, prompt.Router, prompt.Graded{Question: a.subject(),
		Passages: a.Passages, Choices: choices}, false)
	return said.Verdict, err
}

// retrieve searches the store for the query.
func (a *State) retrieve(ctx context.Context, v *flow.Visit) (flow.Verdict, error) {
	if err := a.embed(ctx, v); err != nil {
		return "", err
	}
	v.Input(strings.Join(a.trace.Queries, " | "))
	stop := timer(&a.trace.Milliseconds.Retrieve)
	lists, err := a.snapshot.SearchFrom(ctx, retrieve.Queries{Texts: a.trace.Queries, Vectors: a.vectors}, a.Retrieve,
		a.near)
	if stop(); err != nil {
		return "", err
	}
	if a.Passages, err = a.passages(ctx, a.snapshot, lists); err != nil {
		return "", err
	}
	a.fromWeb = false
	a.remember()
	if len(a.Passages) == 0 {
		return Nothing, nil
	}
	v.Score(a.Passages[0].Score)
	return Found, nil
}

// web searches the web if a provider is configured.
func (a *State) web(ctx context.Context, v *flow.Visit) (flow.Verdict, error) {
	v.Input(a.Query)
	if a.Web == nil {
		v.Detail(noProvider)
		return Unavailable, nil
	}
	defer timer(&a.trace.Milliseconds.Retrieve)()
	passages, pages, err := a.Web(ctx, a.Query, webPages, a.Retrieve)
	switch {
	case ctx.Err() != nil:
		return "", ctx.Err()
	case err != nil: // a failing provider must not prevent an answer
		a.base.Logger().Warn(fmt.Sprintf("the search of the web failed: %v", err))
		v.Detail("the search failed: " + line(err.Error(), 120))
		return Unavailable, nil
	}
	v.Detail(fmt.Sprintf("%d pages", pages))
	if len(passages) == 0 {
		return Nothing, nil
	}
	a.Passages, a.fromWeb = passages, true
	a.remember()
	a.trace.Retrieved = make([]retrieve.Result, len(passages))
	for i, p := range passages {
		a.trace.Retrieved[i] = retrieve.Result{ID: p.Chunk.ID, Score: p.Score}
	}
	return Found, nil
}

// documents drops the passages that are not relevant. The language model grades all of them together, as in Rocha and
// Pessoa.
func (a *State) documents(ctx context.Context, v *flow.Visit, preset Decider) (flow.Verdict, error) {
	v.Input(fmt.Sprintf("%d passages", len(a.Passages)))
	decider, err := a.decider(ctx, v, documentsNode, prompt.Documents, a.Grader, preset, ByEmbedding)
	if err != nil {
		return "", err
	}
	if decider == ByEmbedding {
		switch graded, err := a.byEmbedding(ctx, v); {
		case err != nil:
			return "", err
		case !graded: // without a calibration
			v.Detail("not graded: the store has no calibration")
			return Yes, nil
		}
	}
	switch decider {
	case ByLLM:
		said, err := a.grade(ctx, v, documentsNode, prompt.Documents, prompt.Graded{Question: a.subject(),
			Passages: a.Passages}, false)
		return said.Verdict, err
	case ByReranker:
		err = a.byReranker(ctx, v)
	case ByReader:
		err = a.byReader(ctx, v)
	}
	if err != nil {
		return "", err
	}
	if len(a.Passages) == 0 {
		return No, nil
	}
	return Yes, nil
}

// byEmbedding keeps the passages each of which would open the gate on its own. graded is false without a calibration.
func (a *State) byEmbedding(ctx context.Context, v *flow.Visit) (graded bool, err error) {
	if err := a.embed(ctx, v); err != nil {
		return false, err
	}
	defer timer(&a.trace.Milliseconds.Gate)()
	g, err := a.calibrated(ctx)
	if err != nil || g == nil {
		return false, err
	}
	scores, cutoff := make([]float64, len(a.Passages)), 0.
	for q, text := range a.trace.Queries {
		var found []float64
		if found, cutoff, err = a.gateScores(ctx, g, text, a.vectors.Slice(q, q+1)); err != nil {
			return false, err
		}
		for i, s := range found {
			if q == 0 || a.metric.Better(s, scores[i]) {
				scores[i] = s
			}
		}
	}
	a.keep(v, scores, func(s float64) bool { return a.metric.Better(s, cutoff) })
	return true, nil
}

// gateScores returns the scores of the passages for a query and the cut-off that they are compared with.
func (a *State) gateScores(
	ctx context.Context, g *gate.Gate, text string, vector engine.Vectors,
) (scores []float64, cutoff float64, err error) {
	if a.fromWeb {
		if cutoff, err = g.SimilarityCutoff(); err != nil {
			return nil, 0, err
		}
		scores, err = a.base.Similarities(ctx, a.metric, vector, a.texts())
		return scores, cutoff, err
	}
	rows := make([]int, len(a.trace.Retrieved))
	for i, r := range a.trace.Retrieved {
		rows[i] = r.Row
	}
	decisions, err := a.snapshot.DecideEach(ctx, g, text, vector, rows)
	for _, d := range decisions {
		scores, cutoff = append(scores, d.Score), d.Cutoff
	}
	return scores, cutoff, err
}

// byReranker keeps the passages that the cross-encoder scores as relevant.
func (a *State) byReranker(ctx context.Context, v *flow.Visit) error {
	scores, err := a.base.Rerank(ctx, a.subject(), a.texts())
	if err != nil {
		return err
	}
	a.keep(v, scores, func(s float64) bool { return s >= rerankedFrom })
	return nil
}

// keep drops the passages for whose score relevant returns false.
func (a *State) keep(v *flow.Visit, scores []float64, relevant func(float64) bool) {
	all, results := a.Passages, a.trace.Retrieved
	a.Passages, a.trace.Retrieved = nil, []retrieve.Result{}
	for i, s := range scores {
		if i == 0 {
			v.Score(s)
		}
		if relevant(s) {
			a.Passages, a.trace.Retrieved = append(a.Passages, all[i]), append(a.trace.Retrieved, results[i])
		}
	}
	v.Detail(fmt.Sprintf("%d of %d relevant", len(a.Passages), len(all)))
}

// texts returns the texts of the passages.
func (a *State) texts() []string {
	texts := make([]string, len(a.Passages))
	for i, p := range a.Passages {
		texts[i] = cmp.Or(p.Text, p.Chunk.Text)
	}
	return texts
}

// chunkTexts returns the texts of passages without what was joined to them or left out.
func chunkTexts(passages []prompt.Passage) []string {
	texts := make([]string, len(passages))
	for i, p := range passages {
		texts[i] = p.Chunk.Text
	}
	return texts
}

// headings returns what stands above each passage.
func (a *State) headings() []string {
	list := make([]string, len(a.Passages))
	for i, p := range a.Passages {
		list[i] = p.Chunk.Heading
	}
	return list
}

// write answers with a quote if the style of answers is Quote, or the passages do not seem to answer, and one is found.
// Otherwise it runs prompt and generate as one node.
func (a *State) write(ctx context.Context, v *flow.Visit) (flow.Verdict, error) {
	if err := a.second(ctx, v); err != nil {
		return "", err
	}
	if (a.Style == Quote || a.isTopicOnly()) && len(a.Passages) > 0 {
		if found, err := a.quote(ctx, v); err != nil || found == Found {
			return flow.Done, err
		}
	}
	a.trace.Style = Write
	if _, err := a.prompt(ctx, v); err != nil {
		return "", err
	}
	v.Input(a.Question)
	return a.generate(ctx, v)
}

// hallucination grades whether the passages in the prompt support the answer. An unsupported answer lowers the
// temperature of the next one. Quotes count as supported unless the model is configured as the grader.
func (a *State) hallucination(ctx context.Context, v *flow.Visit, graders Decider) (flow.Verdict, error) {
	v.Input(line(a.Answer.Answer, 200))
	shown := a.shown()
	if len(shown) == 0 {
		v.Detail("there are no passages to check the answer with")
		return Unchecked, nil
	}
	if a.trace.Style == Quote && by(a.Grader, graders) != ByLLM {
		v.Detail("the answer stands in the passages")
		return Grounded, nil
	}
	decider, err := a.decider(ctx, v, hallucinationNode, prompt.Hallucination, a.Grader, graders, ByEmbedding)
	if err != nil {
		return "", err
	}
	if decider != ByLLM {
		bad := a.trace.Unbacked()
		if len(bad) == 0 {
			return Grounded, nil
		}
		v.Detail(fmt.Sprintf("%d of %d sentences are not backed: %s", len(bad), len(a.trace.Checked),
			line(bad[0].Text, 120)))
		a.answerTemperature = min(a.answerTemperature, LoweredTemperature)
		return Hallucinated, nil
	}
	said, err := a.grade(ctx, v, hallucinationNode, prompt.Hallucination, prompt.Graded{Question: a.subject(),
		Answer: a.Answer.Answer, Passages: shown}, a.Score)
	if err != nil {
		return "", err
	}
	grounded := said.Verdict == Yes
	if a.Score {
		if p, ok := said.Probability[Yes]; ok || said.Probability != nil {
			v.Score(p)
			grounded = p >= a.GroundedFrom
		} else {
			v.Detail("the model gives no probabilities: its verdict counts")
		}
	}
	if !grounded {
		a.answerTemperature = min(a.answerTemperature, LoweredTemperature)
		return Hallucinated, nil
	}
	return Grounded, nil
}

// shown returns the passages that were in the prompt.
func (a *State) shown() []prompt.Passage {
	return slices.Clone(a.Passages[:min(len(a.Passages), len(a.prompted.Citations))])
}

// resolved grades whether the answer resolves the question. If it does not, the temperature of the rewriter is raised.
func (a *State) resolved(ctx context.Context, v *flow.Visit, graders Decider) (flow.Verdict, error) {
	v.Input(line(a.Answer.Answer, 200))
	decider, err := a.decider(ctx, v, answerNode, prompt.AnswerGrader, a.Grader, graders, ByEmbedding)
	if err != nil {
		return "", err
	}
	if decider != ByLLM {
		if a.isTopicOnly() {
			v.Detail(topicOnly)
			return No, nil
		}
		return a.resembles(ctx, v, decider)
	}
	said, err := a.grade(ctx, v, answerNode, prompt.AnswerGrader, prompt.Graded{Question: a.subject(),
		Answer: a.Answer.Answer}, false)
	if err == nil && said.Verdict == No {
		a.rewriteTemperature = RaisedTemperature
	}
	return said.Verdict, err
}

// rewrite lets the model rephrase the query, unless its scorecard says that it does not write well enough. If the
// result repeats an earlier query, a second one is drawn at a higher temperature. If that is a repetition, too, the
// verdict is Repeated, because another search would find the same passages.
func (a *State) rewrite(ctx context.Context, v *flow.Visit, graders Decider) (flow.Verdict, error) {
	v.Input(a.Query)
	if writes, err := a.writes(ctx, rewriteNode, graders); err != nil || !writes {
		v.Detail("not re-written: the language model does not write well enough (its scorecard)")
		return Repeated, err
	}
	model, err := a.modelOf(ctx, rewriteNode)
	if err != nil {
		return "", err
	}
	defer timer(&a.trace.Milliseconds.Transform)()
	a.tried = append(a.tried, a.Query)
	detail := ""
	for _, temperature := range []float64{a.rewriteTemperature, RedrawTemperature} {
		changed, err := a.library.Apply(ctx, v.Model(model), prompt.Rewrite, prompt.Asked{Question: a.Query,
			Temperature: temperature, Seed: v.Draw(a.Seed), Priority: a.requests()})
		if err != nil {
			return "", err
		}
		query := changed.Queries[0]
		if !slices.ContainsFunc(a.tried, func(old string) bool { return prompt.SameWords(old, query) }) {
			a.Query, a.rewritten = query, true
			v.Detail(detail + line(a.Query, 200))
			return flow.Done, nil
		}
		detail = fmt.Sprintf("at temperature %g, after a repetition: ", RedrawTemperature)
	}
	v.Detail("two draws gave no question that was not searched for before")
	return Repeated, nil
}
