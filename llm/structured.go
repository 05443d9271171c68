package llm

import "github.com/sluice-rag/sluice/llm/grammar"

// gbnf returns the grammar that a completion must follow, "" for any text. Errors wrap grammar.ErrGrammar or
// grammar.ErrSchema and name the place.
func (r Request) gbnf() (string, error) {
	if len(r.Schema) > 0 {
		return grammar.FromSchema(r.Schema)
	}
	if r.Grammar == "" {
		return "", nil
	}
	return r.Grammar, grammar.Check(r.Grammar)
}
