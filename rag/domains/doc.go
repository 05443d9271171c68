// Package domains gives a knowledge base its router: it divides the chunks into domains (by the topics, folders or
// fields of their documents, by clusters of their vectors, or by descriptions of the domains), trains a router on their
// texts and on questions about them, and keeps it in the store's folder.
//
// Input: Options. Output: Result.
package domains
