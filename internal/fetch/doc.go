// Package fetch brings files of known content into a content-addressed cache: over HTTP with resume and retries, or
// through pip for what lives in a package registry. A file that is in the cache is never downloaded again; a file that
// does not match its size and SHA-256 never gets a name in it.
//
// Layout below the root ($SLUICE_CACHE, else sluice in the user's cache folder):
//
//	blobs/<sha256>            verified files
//	partial/<key>             downloads under way, kept for resuming; <key>.version has the server's name of it
//	locks/<name>              advisory locks between processes
//
// (tools/setup and internal/models keep their own folders beside these.)
package fetch
