// Package answer answers a question from a knowledge base, or without it:
//
//	question → (transformation) → embedding → gate ─ open ─ contexts → prompt → language model → answer with citations
//	                                            └─ closed ─ prompt → language model → answer from its own knowledge
//
// Input: Input. Output: *Answer, with the Trace of how it came about.
package answer
