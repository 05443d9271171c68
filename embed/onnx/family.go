package onnx

import (
	"maps"
	"slices"
)

// family is the table of what differs between the encoders: tensor names (below the prefix) and a few habits.
type family struct {
	prefix    string // of the tensors in checkpoints with a head: "bert."; bare checkpoints have none
	distil    bool   // DistilBERT's names in config.json, and no token types
	epsilon   float64
	padID     int64
	typeVocab int64 // when config.json is silent; 0 = no token types
	typed     bool  // the family is trained with other token types than 0
	// offsetPositions: the first token sits at pad_token_id + 1, and pad tokens do not advance (RoBERTa, MPNet).
	offsetPositions bool
	disentangled    bool   // DeBERTa's attention
	relative        bool   // MPNet's relative position bias, shared by all layers
	layer           string // "encoder.layer."
	query, key      string // names below "<layer><i>."
	value, out      string
	attnNorm        string
	up, down        string
	outNorm         string
	head            headKind
}

type headKind uint8

const (
	headPooler  headKind = iota // pooler.dense, tanh, classifier (BERT)
	headPre                     // pre_classifier, ReLU, classifier (DistilBERT)
	headContext                 // pooler.dense, pooler_hidden_act, classifier (DeBERTa)
	headDense                   // classifier.dense, tanh, classifier.out_proj (RoBERTa, MPNet)
)

var bertFamily = family{
	prefix: "bert.", epsilon: 1e-12, typeVocab: 2, typed: true, layer: "encoder.layer.",
	query: "attention.self.query", key: "attention.self.key", value: "attention.self.value",
	out: "attention.output.dense", attnNorm: "attention.output.LayerNorm",
	up: "intermediate.dense", down: "output.dense", outNorm: "output.LayerNorm", head: headPooler,
}

// families is read-only.
var families = map[string]*family{
	"bert": &bertFamily,
	"distilbert": {
		prefix: "distilbert.", distil: true, epsilon: 1e-12, layer: "transformer.layer.",
		query: "attention.q_lin", key: "attention.k_lin", value: "attention.v_lin",
		out: "attention.out_lin", attnNorm: "sa_layer_norm",
		up: "ffn.lin1", down: "ffn.lin2", outNorm: "output_layer_norm", head: headPre,
	},
	"deberta-v2": {
		prefix: "deberta.", epsilon: 1e-7, typed: true, disentangled: true, layer: "encoder.layer.",
		query: "attention.self.query_proj", key: "attention.self.key_proj", value: "attention.self.value_proj",
		out: "attention.output.dense", attnNorm: "attention.output.LayerNorm",
		up: "intermediate.dense", down: "output.dense", outNorm: "output.LayerNorm", head: headContext,
	},
	"roberta":     roberta(),
	"xlm-roberta": roberta(),
	"camembert":   roberta(),
	"mpnet": {
		prefix: "mpnet.", epsilon: 1e-12, padID: 1, offsetPositions: true, relative: true, layer: "encoder.layer.",
		query: "attention.attn.q", key: "attention.attn.k", value: "attention.attn.v",
		out: "attention.attn.o", attnNorm: "attention.LayerNorm",
		up: "intermediate.dense", down: "output.dense", outNorm: "output.LayerNorm", head: headDense,
	},
}

// roberta is BERT with shifted positions; CamemBERT and XLM-R keep its tensor names.
func roberta() *family {
	f := bertFamily
	f.prefix, f.padID, f.offsetPositions, f.typed, f.head = "roberta.", 1, true, false, headDense
	return &f
}

func familyNames() []string { return slices.Sorted(maps.Keys(families)) }
