// Package encode measures text encoders: Sluice's modes beside Python onnxruntime on the same weights, OpenVINO,
// fastembed, hugot and sentence-transformers, interleaved in one run on the same texts.
//
// The way of a run: texts of the loads → each competitor embeds them once a round, in turn → rows (texts/s, tokens/s,
// percentage of the measured limit, largest error to a float64 reference, NDCG@10) and ratios of the rounds → report.
// Competitors get whole texts and give vectors: tokenisation is part of every time, as it is for a user. The peers get
// batches of 32 texts of similar length, as many threads as Sluice, and the fastest of their settings, which are tried
// before the first round; all but Sluice run in processes of their own (package peers).
package encode
