package llm

import "github.com/sluice-rag/sluice/llm/grammar"

// gbnf is the grammar that a request's completion must follow, empty if there is none. Errors wrap grammar.ErrGrammar
// or grammar.ErrSchema and name the place.
func (r Request) gbnf() (string, error) {
	if len(r.Schema) > 0 {
		return grammar.FromSchema(r.Schema)
	}
	if r.Grammar == "" {
		return "", nil
	}
	return r.Grammar, grammar.Check(r.Grammar)
}
