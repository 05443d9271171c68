// Package retrieve finds the contexts for a query: by vectors (dense), by words (bm25, tfidf), by both (hybrid), or by
// what has been measured as the best ranking (auto). The best of them can be scored again by a reranker and chosen so
// that they differ from each other (MMR); a filter selects contexts before anything is scored.
//
//	queries → dense and sparse scores of the contexts that a filter leaves → one ranking → reranker → MMR → results
//
// Input: Contexts, Queries and Options. Output: a List for each query, which says how it was ranked. Rankings are
// exact: they equal the result of sorting all contexts by the score that the list names.
package retrieve
