// Package train trains BERT-family encoders on the CPU without Python: the forward and the backward pass are written by
// hand, and every product of matrices goes through gorgonia.org/tensor on package engine/gorgonia.
//
// What is trained are embeddings of tokens and positions, LayerNorm, then layers of self-attention and a feed-forward
// network with the exact (erf) GELU, each followed by LayerNorm of the sum with its input: BERT, DistilBERT, RoBERTa
// and MPNet, which adds a bias by distance to the attention. A classifier has the head of DistilBERT on the first token
// (pre_classifier, ReLU, classifier), and is one: a BERT becomes a DistilBERT by adding the embedding of token type 0
// to the position embeddings, which is exact.
//
// Batches are ragged: the texts lie end to end, without padding, and attention runs per text and head at the text's
// true length. The embeddings (tables and their LayerNorm) are never trained; of the layers, the last n or all are.
//
// Everything is deterministic: on one instruction set the same data, settings and seed give the same bits for any
// number of threads, and also when a run was killed and resumed. Each element of a result is one sum in one order; what
// is shared out among threads are elements, never parts of a sum.
//
// Sources: Vaswani et al. 2017 (attention), Devlin et al. 2019 (BERT), Sanh et al. 2019 (DistilBERT), Loshchilov and
// Hutter 2019 (AdamW), Guo et al. 2017 (temperature scaling), Henderson et al. 2017 (multiple negatives ranking loss).
package train
