// Package ingest puts documents into a knowledge base:
//
//	paths → documents → chunks → vectors → commits
//
// Input: Input. Output: Result.
package ingest
