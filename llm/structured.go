package llm

// gbnf is the grammar that a request's completion must follow, empty if there is none.
func (r Request) gbnf() (string, error) {
	if len(r.Schema) > 0 {
		return "", optionError("schemas are not supported yet")
	}
	return r.Grammar, nil
}
