package embed

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/sluice-rag/sluice/embed/onnx"
	"github.com/sluice-rag/sluice/internal/regular"
)

// source is where a model's graph comes from, and what the model says about its tokens.
type source struct {
	graph        *onnx.Graph // written over model.safetensors; nil when export is used
	export       string      // path of a ready model.onnx
	architecture string
	padID        int64
	maxTokens    int // the model's own limit; 0 = unknown
	vocab        int // 0 = unknown
	task         onnx.Task
	labels       []string // of a head; numbered ones where an export's config.json has none
	problem      string   // problem_type of config.json
	independent  bool     // classes do not exclude each other: sigmoid instead of softmax
	identity     string
	int8         bool // the layers compute in 8 bits
}

// checkFolder says what a model is where dir cannot be one.
func checkFolder(dir string) error {
	if st, err := os.Stat(dir); err != nil {
		return fmt.Errorf("%w: %w", ErrModel, err)
	} else if !st.IsDir() {
		return fmt.Errorf("%w: %s is not a folder; a model is a folder with config.json, model.safetensors and "+
			"tokenizer.json", ErrModel, dir)
	}
	return nil
}

// findSource writes the graph over model.safetensors when the family is known, and else takes the ready
// export of the folder.
func findSource(dir string, o onnx.Options) (*source, error) {
	var raw struct {
		ModelType string `json:"model_type"`
		PadID     int64  `json:"pad_token_id"`
		Positions int    `json:"max_position_embeddings"`
	}
	config := filepath.Join(dir, "config.json")
	found, err := readJSON(config, &raw)
	if err != nil {
		return nil, err
	}
	known := onnx.Supported(raw.ModelType)
	export := findExport(dir)
	if export == "" || known && exists(filepath.Join(dir, "model.safetensors")) {
		return written(dir, o)
	}
	s := &source{export: export, architecture: raw.ModelType, padID: raw.PadID, maxTokens: max(raw.Positions, 0),
		task: o.Task}
	if found && !known {
		if err := s.takeLabels(config); err != nil {
			return nil, err
		}
	}
	if found && known {
		c, err := onnx.ReadConfig(config)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrModel, err)
		}
		s.take(c)
	}
	if o.Task == onnx.Spans { // id2label says nothing about them
		s.labels = nil
	}
	s.identity = fmt.Sprintf("onnx export pad=%d", s.padID)
	return s, nil
}

func written(dir string, o onnx.Options) (*source, error) {
	g, err := onnx.Write(dir, o)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrModel, err)
	}
	s := &source{graph: g, identity: g.Config.Identity(), task: o.Task, int8: o.Int8}
	s.take(g.Config)
	return s, nil
}

func (s *source) take(c *onnx.Config) {
	s.architecture, s.padID, s.maxTokens, s.vocab = c.ModelType, c.PadID, c.MaxTokens(), int(c.Vocab)
	s.labels, s.problem = c.Labels, c.Problem
}

// takeLabels reads what a config.json of a family that the writer does not know says about a head.
func (s *source) takeLabels(config string) error {
	raw, err := regular.ReadFile(config, maxSettings)
	if err == nil {
		s.labels, s.problem, err = onnx.ParseLabels(raw)
	}
	if err != nil {
		return fmt.Errorf("%s: %w: %w", config, ErrModel, err)
	}
	return nil
}

// settleLabels compares the labels with the columns of the head.
func (s *source) settleLabels(columns int) error {
	if len(s.labels) == 0 {
		s.labels = onnx.NumberedLabels(columns)
	}
	if n := len(s.labels); n != columns {
		return fmt.Errorf("%s: %w: %d logits, id2label has %d labels", s.weights(), ErrModel, columns, n)
	}
	s.independent = columns == 1 || s.problem == "multi_label_classification"
	return nil
}

// weights returns the file that errors name.
func (s *source) weights() string {
	if s.graph != nil {
		return s.graph.Weights
	}
	return s.export
}

func findExport(dir string) string {
	for _, name := range onnx.Exports() {
		if p := filepath.Join(dir, name); exists(p) {
			return p
		}
	}
	return ""
}

func exists(path string) bool { st, err := os.Stat(path); return err == nil && st.Mode().IsRegular() }
