// Package onnx writes ONNX graphs of transformer encoders in pure Go: config.json and the header of
// model.safetensors in, a graph of about 25 kB out whose initialisers point by offset and length into
// the safetensors file itself. No weight is copied and no export step (Python, PyTorch) is needed.
//
// Families: BERT, DistilBERT, RoBERTa / XLM-RoBERTa / CamemBERT, MPNet, DeBERTa-v2 / -v3. A graph ends in a pooled
// sentence embedding (mean or first token, optionally L2-normalised) or in the logits of the
// family's sequence-classification or token-classification head.
//
// The graph uses standard operators only. ONNX Runtime folds the weight transposes at load and fuses
// the rest itself; emitting its fused operators (Attention, MultiHeadAttention, SkipLayerNormalization,
// BiasGelu) directly was measured and is no faster, because the matrix products dominate.
//
// Sources: the published model definitions (BERT: Devlin et al. 2018; DistilBERT: Sanh et al. 2019;
// RoBERTa: Liu et al. 2019; MPNet: Song et al. 2020, with the relative position buckets of T5,
// Raffel et al. 2020; DeBERTa: He et al. 2021), the ONNX operator specification (opset 20), and the safetensors
// format description.
package onnx
