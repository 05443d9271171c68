package embed

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/sluice-rag/sluice/embed/onnx"
)

// source is where a model's graph comes from, and what the model says about its tokens.
type source struct {
	graph        *onnx.Graph // written over model.safetensors; nil when export is used
	export       string      // path of a ready model.onnx
	architecture string
	padID        int64
	maxTokens    int // the model's own limit; 0 = unknown
	vocab        int // 0 = unknown
	labels       []string
	independent  bool // classes do not exclude each other: sigmoid instead of softmax
	identity     string
}

// findSource writes the graph over model.safetensors when the family is known, and else takes the ready
// export of the folder.
func findSource(dir string, o onnx.Options) (*source, error) {
	if st, err := os.Stat(dir); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrModel, err)
	} else if !st.IsDir() {
		return nil,
			fmt.Errorf("%w: %s is not a folder; a model is a folder with config.json, model.safetensors and "+
				"tokenizer.json", ErrModel, dir)
	}
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
	s := &source{export: export, architecture: raw.ModelType, padID: raw.PadID, maxTokens: max(raw.Positions, 0)}
	if found && known {
		c, err := onnx.ReadConfig(config)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrModel, err)
		}
		s.take(c)
	}
	s.identity = fmt.Sprintf("onnx export pad=%d", s.padID)
	return s, nil
}

func written(dir string, o onnx.Options) (*source, error) {
	g, err := onnx.Write(dir, o)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrModel, err)
	}
	s := &source{graph: g, identity: fmt.Sprintf("%+v", *g.Config)}
	s.take(g.Config)
	return s, nil
}

func (s *source) take(c *onnx.Config) {
	s.architecture, s.padID, s.maxTokens, s.vocab = c.ModelType, c.PadID, c.MaxTokens(), int(c.Vocab)
	s.labels = c.Labels
	s.independent = len(c.Labels) == 1 || c.Problem == "multi_label_classification"
}

// weights is the file that errors name.
func (s *source) weights() string {
	if s.graph != nil {
		return s.graph.Weights
	}
	return s.export
}

func findExport(dir string) string {
	for _, p := range []string{filepath.Join("onnx", "model.onnx"), "model.onnx"} {
		if p = filepath.Join(dir, p); exists(p) {
			return p
		}
	}
	return ""
}

func exists(path string) bool { st, err := os.Stat(path); return err == nil && st.Mode().IsRegular() }
