package embed

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sluice-rag/sluice/embed/onnx"
	"github.com/sluice-rag/sluice/internal/manifest"
	"github.com/sluice-rag/sluice/internal/regular"
	thirdparty "github.com/sluice-rag/sluice/third_party"
)

// maxSettings is the largest accepted size, in bytes, of model.yaml or of a JSON file beside it.
const maxSettings = 64 << 20

// ModelSettings is what a model's folder says about texts: its model.yaml, or what sentence-transformers left there.
type ModelSettings struct {
	Name           string       `yaml:"name"`
	Kind           string       `yaml:"kind"`
	Pooling        onnx.Pooling `yaml:"pooling,omitempty"` // mean or cls; of a GGUF file also last, or ""
	Normalise      bool         `yaml:"normalise,omitempty"`
	MaxTokens      int          `yaml:"max_tokens"` // 0: not said
	QueryPrefix    string       `yaml:"query_prefix,omitempty"`
	DocumentPrefix string       `yaml:"document_prefix,omitempty"`
	Source         string       `yaml:"source"`
	Licence        string       `yaml:"licence,omitempty"`
	Languages      []string     `yaml:"languages,omitempty,flow"` // ISO 639-1 codes; empty: unknown
	Dimensions     []int        `yaml:"dimensions,omitempty"`     // Info.Dimensions; empty: those of config.json

	// Temperature is what logits are divided by before they become probabilities; 0: 1.
	Temperature float64 `yaml:"temperature,omitempty"`
	Threshold   float64 `yaml:"threshold,omitempty"` // probability below which a label is not given; 0: none
	// NullAnswer says whether a reader was trained with questions that have no answer (SQuAD 2.0); nil: it was. A
	// passage answers from NullThreshold on, in logits above the null answer.
	NullAnswer    *bool   `yaml:"null_answer,omitempty"`
	NullThreshold float64 `yaml:"null_threshold,omitempty"`
	Training      any     `yaml:"training,omitempty"` // origin of a trained model; informational only

	strict bool // read from model.yaml: a max_tokens above the model's own limit is an error; otherwise it is lowered
}

// The kinds of models in a folder, as model.yaml names them.
const (
	KindEncoder         = "encoder"
	KindClassifier      = "classifier"
	KindReranker        = "reranker"
	KindEntailment      = "entailment"
	KindReader          = "reader"
	KindTokenClassifier = "token-classifier"
)

// lastToken is a pooling that only GGUF files have.
const lastToken onnx.Pooling = "last"

// prefix returns the text that is prepended for the role.
func (s *ModelSettings) prefix(r Role) string {
	if r == Query {
		return s.QueryPrefix
	}
	return s.DocumentPrefix
}

// vectorSettings returns the settings that affect a vector, in a fixed form for the digest.
func (s *ModelSettings) vectorSettings() string {
	return fmt.Sprintf("pooling=%s normalise=%t max_tokens=%d query_prefix=%q document_prefix=%q",
		s.Pooling, s.Normalise, s.MaxTokens, s.QueryPrefix, s.DocumentPrefix)
}

// limit determines MaxTokens from the model's own limit (0 = unknown) and the number of special tokens per text.
func (s *ModelSettings) limit(dir string, own, special int) error {
	switch {
	case s.MaxTokens == 0 && own == 0:
		return fmt.Errorf("%s: %w: max_tokens is unknown: give it in model.yaml", dir, ErrModel)
	case s.MaxTokens == 0 || own > 0 && s.MaxTokens > own && !s.strict:
		s.MaxTokens = own
	case own > 0 && s.MaxTokens > own:
		return fmt.Errorf("%s: %w: max_tokens is %d in model.yaml, the model's positions end at %d", dir, ErrModel,
			s.MaxTokens, own)
	}
	if s.MaxTokens <= special {
		return fmt.Errorf("%s: %w: max_tokens is %d, the special tokens alone are %d", dir, ErrModel, s.MaxTokens,
			special)
	}
	return nil
}

// maxWindows bounds the windows of a text.
const maxWindows = 64

// windows checks Options.Tokens.
func (s *ModelSettings) windows(dir string, tokens int) error {
	if tokens != 0 && (tokens <= s.MaxTokens || tokens > maxWindows*s.MaxTokens) {
		return fmt.Errorf("%s: %w: %d tokens in windows of the %d that it reads at a time; they are from %d to %d", dir,
			ErrModel, tokens, s.MaxTokens, s.MaxTokens+1, maxWindows*s.MaxTokens)
	}
	return nil
}

// readModelYAML reads dir/model.yaml and returns nil if the file does not exist. If kind is not empty, a file of
// another kind is an error.
func readModelYAML(dir, kind string) (*ModelSettings, error) {
	path := filepath.Join(dir, "model.yaml")
	raw, err := regular.ReadFile(path, maxSettings)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrModel, err)
	}
	s, err := parseSettings(raw)
	if err == nil && kind != "" && s.Kind != "" && s.Kind != kind {
		err = fmt.Errorf("%w: kind is %q, %q expected", ErrModel, s.Kind, kind)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return s, nil
}

// readSettings reads dir/model.yaml, or the files of sentence-transformers. Only an encoder requires one of them.
func readSettings(dir, kind string) (*ModelSettings, error) {
	s, err := readModelYAML(dir, kind)
	switch {
	case err != nil:
	case s == nil && kind == KindEncoder:
		s, err = sentenceTransformers(dir)
	case s == nil:
		s = &ModelSettings{Kind: kind}
	case kind == KindEncoder && s.Pooling != onnx.Mean && s.Pooling != onnx.CLS:
		err = fmt.Errorf("%s: %w: pooling is %q, mean or cls expected", filepath.Join(dir, "model.yaml"), ErrModel,
			s.Pooling)
	}
	if err != nil {
		return nil, err
	}
	s.Name = cmp.Or(s.Name, filepath.Base(filepath.Clean(dir)))
	return s, nil
}

// ReadSettings reads the settings from the folder of an encoder or classifier. Errors wrap ErrModel.
func ReadSettings(dir string) (*ModelSettings, error) {
	s, err := readSettings(dir, KindEncoder)
	if err != nil {
		if other, otherErr := readSettings(dir, KindClassifier); otherErr == nil {
			return other, nil
		}
	}
	return s, err
}

// ReadGGUFSettings reads the model.yaml in the folder of an encoder's GGUF file: what it says goes before what the file
// says. Without one all is as the file says, and vectors are normalised. Errors wrap ErrModel.
func ReadGGUFSettings(dir string) (*ModelSettings, error) {
	s, err := readModelYAML(dir, KindEncoder)
	if s == nil && err == nil {
		s = &ModelSettings{Normalise: true}
	}
	return s, err
}

// KindOf tells what a model's folder is for: what its model.yaml says, else what the architecture in its config.json
// was made for; "" where neither says. Errors wrap ErrModel.
func KindOf(dir string) (string, error) {
	if err := checkFolder(dir); err != nil {
		return "", err
	}
	if s, err := readModelYAML(dir, ""); err != nil {
		return "", err
	} else if s != nil && s.Kind != "" {
		return s.Kind, nil
	}
	var c struct {
		Architectures []string `json:"architectures"`
	}
	if _, err := readJSON(filepath.Join(dir, "config.json"), &c); err != nil {
		return "", err
	}
	return string(manifest.KindOf(c.Architectures)), nil
}

// parseSettings is strict: unknown keys, a second document and values out of range are errors.
func parseSettings(raw []byte) (*ModelSettings, error) {
	var s ModelSettings
	d := yaml.NewDecoder(bytes.NewReader(raw))
	d.KnownFields(true)
	if err := d.Decode(&s); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrModel, err)
	}
	if err := d.Decode(new(ModelSettings)); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%w: more than one YAML document", ErrModel)
	}
	kinds := []string{KindEncoder, KindClassifier, KindReranker, KindEntailment, KindReader, KindTokenClassifier}
	switch {
	case s.Kind != "" && !slices.Contains(kinds, s.Kind):
		return nil, fmt.Errorf("%w: kind %q; one of %s expected", ErrModel, s.Kind, strings.Join(kinds, ", "))
	case s.Kind == KindTokenClassifier && s.QueryPrefix+s.DocumentPrefix != "":
		return nil, fmt.Errorf("%w: a %s reads texts without a prefix", ErrModel, s.Kind)
	case s.Pooling != "" && s.Pooling != onnx.Mean && s.Pooling != onnx.CLS && s.Pooling != lastToken:
		return nil, fmt.Errorf("%w: pooling %q; mean or cls expected, or last for a GGUF file", ErrModel, s.Pooling)
	case !(s.Temperature >= 0 && s.Temperature <= 1e6):
		return nil, fmt.Errorf("%w: temperature %v; a positive number expected", ErrModel, s.Temperature)
	case !(s.NullThreshold >= -1e6 && s.NullThreshold <= 1e6):
		return nil, fmt.Errorf("%w: null_threshold %v; expected between -1e6 and 1e6", ErrModel, s.NullThreshold)
	case !(s.Threshold >= 0 && s.Threshold <= 1):
		return nil, fmt.Errorf("%w: threshold %v; a probability expected, 0 to 1", ErrModel, s.Threshold)
	case s.MaxTokens < 0 || s.MaxTokens > 1<<20:
		return nil,
			fmt.Errorf("%w: max_tokens %d; expected up to %d, or 0 for the model's own limit", ErrModel, s.MaxTokens,
				1<<20)
	}
	if _, ok := s.Training.(map[string]any); !ok && s.Training != nil {
		return nil, fmt.Errorf("%w: training is not a mapping", ErrModel)
	}
	for _, p := range []string{s.QueryPrefix, s.DocumentPrefix} {
		if fixed, changed := Repair(p); changed {
			return nil, fmt.Errorf("%w: prefix %q has NUL bytes or invalid UTF-8", ErrModel, fixed)
		}
	}
	s.strict = true
	return &s, nil
}

// sentenceTransformers reads the settings that a sentence-transformers folder spreads over
// modules.json, <pooling>/config.json, sentence_bert_config.json and config_sentence_transformers.json.
func sentenceTransformers(dir string) (*ModelSettings, error) {
	s := &ModelSettings{Kind: KindEncoder}
	path := filepath.Join(dir, "modules.json")
	var modules []struct {
		Path string `json:"path"`
		Type string `json:"type"`
	}
	if found, err := readJSON(path, &modules); err != nil {
		return nil, err
	} else if !found {
		return converted(dir)
	}
	for _, m := range modules {
		switch kind := m.Type[strings.LastIndexByte(m.Type, '.')+1:]; kind {
		case "Transformer":
		case "Normalize":
			s.Normalise = true
		case "Pooling":
			if !filepath.IsLocal(m.Path) {
				return nil, fmt.Errorf("%s: %w: path %q leads out of the folder", path, ErrModel, m.Path)
			}
			var err error
			if s.Pooling, err = readPooling(filepath.Join(dir, m.Path, "config.json")); err != nil {
				return nil, err
			}
		default:
			return nil,
				fmt.Errorf("%s: %w: module %q is not known; Transformer, Pooling and Normalize are", path, ErrModel,
					m.Type)
		}
	}
	if s.Pooling == "" {
		return nil, fmt.Errorf("%s: %w: no Pooling module", path, ErrModel)
	}
	return s, s.readLimits(dir)
}

// converted returns the settings of a conversion that has none of these files, as the ONNX exports of transformers.js:
// those of the model of the manifest that its config.json says it was made of.
func converted(dir string) (*ModelSettings, error) {
	var config struct {
		Name string `json:"_name_or_path"`
	}
	if _, err := readJSON(filepath.Join(dir, "config.json"), &config); err != nil {
		return nil, err
	}
	list, err := manifest.Parse(thirdparty.Manifest())
	if err != nil {
		return nil, err
	}
	for _, m := range list.Models {
		if e := m.Encoder; e != nil && m.Source == "https://huggingface.co/"+config.Name {
			return &ModelSettings{Name: m.Name, Kind: KindEncoder, Pooling: onnx.Pooling(e.Pooling),
				Normalise: e.Normalise, MaxTokens: e.MaxTokens, QueryPrefix: e.QueryPrefix,
				DocumentPrefix: e.DocumentPrefix, Languages: e.Languages}, nil
		}
	}
	return nil, fmt.Errorf("%s: %w: there is neither model.yaml nor modules.json to say how to pool; write a model.yaml",
		dir, ErrModel)
}

func readPooling(path string) (onnx.Pooling, error) {
	var raw map[string]any
	if found, err := readJSON(path, &raw); err != nil {
		return "", err
	} else if !found {
		return "", fmt.Errorf("%s: %w: file is missing", path, ErrModel)
	}
	known := map[string]onnx.Pooling{"pooling_mode_mean_tokens": onnx.Mean, "pooling_mode_cls_token": onnx.CLS}
	var p onnx.Pooling
	for key, v := range raw {
		if on, _ := v.(bool); !on || !strings.HasPrefix(key, "pooling_mode_") {
			continue
		}
		if known[key] == "" || p != "" {
			return "", fmt.Errorf("%s: %w: %s is on; exactly one of mean and cls is supported", path, ErrModel, key)
		}
		p = known[key]
	}
	if p == "" {
		return "", fmt.Errorf("%s: %w: no pooling mode is on", path, ErrModel)
	}
	return p, nil
}

func (s *ModelSettings) readLimits(dir string) error {
	var limits struct {
		Max *int `json:"max_seq_length"`
	}
	path := filepath.Join(dir, "sentence_bert_config.json")
	if _, err := readJSON(path, &limits); err != nil {
		return err
	}
	if limits.Max != nil {
		if *limits.Max < 1 || *limits.Max > 1<<20 {
			return fmt.Errorf("%s: %w: max_seq_length %d, expected 1 to %d", path, ErrModel, *limits.Max, 1<<20)
		}
		s.MaxTokens = *limits.Max
	}
	var prompts struct {
		Prompts map[string]string `json:"prompts"`
	}
	if _, err := readJSON(filepath.Join(dir, "config_sentence_transformers.json"), &prompts); err != nil {
		return err
	}
	s.QueryPrefix = prompts.Prompts["query"]
	s.DocumentPrefix = cmp.Or(prompts.Prompts["document"], prompts.Prompts["passage"])
	return nil
}

// shorter returns the dimensions below dim to which vectors may be cut: those of model.yaml, else those of config.json
// (matryoshka_dimensions, the name used by models of Jina AI and Snowflake and by vLLM).
func (s *ModelSettings) shorter(dir string, dim int) (string, error) {
	all := s.Dimensions
	if all == nil {
		var config struct {
			Dimensions []int `json:"matryoshka_dimensions"`
		}
		if _, err := readJSON(filepath.Join(dir, "config.json"), &config); err != nil {
			return "", err
		}
		all = config.Dimensions
	}
	var list []string
	for _, n := range slices.Compact(slices.Sorted(slices.Values(all))) {
		if n < 1 || n > dim {
			return "", fmt.Errorf("%s: %w: vectors of %d dimensions are to be cut to %d", dir, ErrModel, dim, n)
		}
		if n < dim {
			list = append(list, strconv.Itoa(n))
		}
	}
	return strings.Join(list, " "), nil
}

// readJSON reports whether the file exists.
func readJSON(path string, to any) (bool, error) {
	raw, err := regular.ReadFile(path, maxSettings)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err == nil {
		err = json.Unmarshal(raw, to)
	}
	if err != nil {
		return true, fmt.Errorf("%s: %w: %w", path, ErrModel, err)
	}
	return true, nil
}

// languages returns the languages of model.yaml, else those of models that are known by name, whose folders may lack
// the key. The name may be that of the model's repository.
func (s *ModelSettings) languages() string {
	if len(s.Languages) > 0 {
		return strings.Join(s.Languages, " ")
	}
	name, _, _ := strings.Cut(s.Name, "@")
	switch path.Base(name) {
	case "all-MiniLM-L6-v2", "all-MiniLM-L12-v2", "all-mpnet-base-v2", "bge-small-en-v1.5", "bge-base-en-v1.5",
		"bge-large-en-v1.5", "UAE-Large-V1":
		return "en"
	}
	return ""
}
