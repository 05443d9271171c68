// Package route decides which domain a text belongs to: classifiers over TF-IDF weights, over embeddings and over both,
// after Ganesh & Purwar, Context-augmented Retrieval. A router is trained on labelled texts, measured on texts that it
// was not trained on, and kept as a folder. It abstains from texts that are unlike everything it was trained on.
//
//	ReadExamples → Train → Router → Save; Load → Router.Decide → Decision
//
// Input: Examples. Output: Decision, the domains of a text with their probabilities.
package route
