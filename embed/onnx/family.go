package onnx

// family is the table of what differs between the encoders: tensor names (below the prefix) and a few habits.
type family struct {
	Names
	distil    bool // DistilBERT's names in config.json, and no token types
	epsilon   float64
	padID     int64
	typeVocab int64 // when config.json is silent; 0 = no token types
	typed     bool  // the family is trained with other token types than 0
	// offsetPositions: the first token sits at pad_token_id + 1, and pad tokens do not advance (RoBERTa, MPNet).
	offsetPositions bool
	disentangled    bool // DeBERTa's attention
	relative        bool // MPNet's relative position bias, shared by all layers
	head            headKind
}

// Names are the names of a family's tensors.
type Names struct {
	Prefix            string // in checkpoints with a head: "bert."; bare checkpoints have none
	Layer             string // "encoder.layer.", below the prefix; the others are below "<Layer><i>."
	Query, Key, Value string
	Out, AttnNorm     string
	Up, Down, OutNorm string
}

type headKind uint8

const (
	headPooler  headKind = iota // pooler.dense, tanh, classifier (BERT)
	headPre                     // pre_classifier, ReLU, classifier (DistilBERT)
	headContext                 // pooler.dense, pooler_hidden_act, classifier (DeBERTa)
	headDense                   // classifier.dense, tanh, classifier.out_proj (RoBERTa, MPNet)
)

var bertFamily = family{
	Names: Names{Prefix: "bert.", Layer: "encoder.layer.", Query: "attention.self.query", Key: "attention.self.key",
		Value: "attention.self.value", Out: "attention.output.dense", AttnNorm: "attention.output.LayerNorm",
		Up: "intermediate.dense", Down: "output.dense", OutNorm: "output.LayerNorm"},
	epsilon: 1e-12, typeVocab: 2, typed: true, head: headPooler,
}

// families is read-only.
var families = map[string]*family{
	"bert": &bertFamily,
	"distilbert": {
		Names: Names{Prefix: "distilbert.", Layer: "transformer.layer.", Query: "attention.q_lin",
			Key: "attention.k_lin", Value: "attention.v_lin", Out: "attention.out_lin", AttnNorm: "sa_layer_norm",
			Up: "ffn.lin1", Down: "ffn.lin2", OutNorm: "output_layer_norm"},
		distil: true, epsilon: 1e-12, head: headPre,
	},
	"deberta-v2": {
		Names: Names{Prefix: "deberta.", Layer: "encoder.layer.", Query: "attention.self.query_proj",
			Key: "attention.self.key_proj", Value: "attention.self.value_proj", Out: "attention.output.dense",
			AttnNorm: "attention.output.LayerNorm", Up: "intermediate.dense", Down: "output.dense",
			OutNorm: "output.LayerNorm"},
		epsilon: 1e-7, typed: true, disentangled: true, head: headContext,
	},
	"roberta":     roberta(),
	"xlm-roberta": roberta(),
	"camembert":   roberta(),
	"mpnet": {
		Names: Names{Prefix: "mpnet.", Layer: "encoder.layer.", Query: "attention.attn.q", Key: "attention.attn.k",
			Value: "attention.attn.v", Out: "attention.attn.o", AttnNorm: "attention.LayerNorm",
			Up: "intermediate.dense", Down: "output.dense", OutNorm: "output.LayerNorm"},
		epsilon: 1e-12, padID: 1, offsetPositions: true, relative: true, head: headDense,
	},
}

// roberta is BERT with shifted positions; CamemBERT and XLM-R keep its tensor names.
func roberta() *family {
	f := bertFamily
	f.Prefix, f.padID, f.offsetPositions, f.typed, f.head = "roberta.", 1, true, false, headDense
	return &f
}

// NamesOf returns the names of the tensors of a family that Supported knows.
func NamesOf(modelType string) Names { return families[modelType].Names }
