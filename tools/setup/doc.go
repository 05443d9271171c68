// Package setup assembles the native parts of Sluice into git-ignored folders: it fetches what
// third_party/manifest.yaml pins, builds what has to be built, and copies the results to third_party/<part>.
//
// A recipe turns inputs (pins, sources, compiler versions, its own version) into an output folder
// $SLUICE_CACHE/out/<name>-<digest of the inputs>. The folder appears by one rename when it is complete. A build that
// was interrupted goes on in $SLUICE_CACHE/build/<name>-<digest>. So a recipe is idempotent, resumable and shared by
// all clones; it runs again exactly when an input changes.
//
// Input: Env (repository, cache, manifest). Output: files in the repository, a line of text per step, and an error that
// names the part, the command that failed, the end of its output, and the whole log.
package setup
