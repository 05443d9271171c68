package embed

// ModelSettings is what a model's folder says about texts: its model.yaml, or what sentence-transformers left there.
type ModelSettings struct {
	Name                        string
	Pooling                     string // of an encoder: mean or cls
	Normalise                   bool
	MaxTokens                   int // 0: not said
	QueryPrefix, DocumentPrefix string
	Licence                     string
	Languages                   []string
}

// ReadSettings reads them from the folder of an encoder or classifier. Errors wrap ErrModel.
func ReadSettings(dir string) (ModelSettings, error) {
	s, err := readSettings(dir, kindEncoder)
	if err != nil {
		other, otherErr := readSettings(dir, kindClassifier)
		if otherErr != nil {
			return ModelSettings{}, err
		}
		s = other
	}
	return ModelSettings{Name: s.Name, Pooling: string(s.Pooling), Normalise: s.Normalise, MaxTokens: s.MaxTokens,
		QueryPrefix: s.QueryPrefix, DocumentPrefix: s.DocumentPrefix, Licence: s.Licence, Languages: s.Languages}, nil
}
