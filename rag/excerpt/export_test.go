package excerpt

// Split cuts a passage into units.
func Split(passage string) []Sentence { return split(passage) }

// Words counts the words of a text as units do.
func Words(text string) int { return len(starts(text)) }
