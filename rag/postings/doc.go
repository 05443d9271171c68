// Package postings is the inverted index of a base's texts: which rows have which words, how often, and what that says
// about a query. Texts are analysed by their language (words, stop words, stems), scores are BM25, tf-idf cosine, or
// the cover (the share of the query's words, weighted by their IDF, that a text has).
//
// An Index is immutable: With makes the next one of it when rows have come or gone, and shares what has not changed.
// The input of a search is a Query, its output are kernels.Hit of rows, or kernels.Biases with which the engine's
// search finds the best sum of a similarity and a score in one pass over the postings and one over the vectors.
package postings
