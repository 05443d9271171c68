// Package knowledge is a knowledge base in use: a store that is opened for reading and writing when that is
// needed, consistent snapshots of it, and what belongs to a snapshot: its texts, the encoder of its vectors, the gate
// of its calibration, and an index that follows the store. Each call gets the snapshot of what is committed when it
// begins, whoever committed it.
//
// The pipelines over a base (ingest, calibrate, answer) share it:
//
//	Config → New → Base
//	Base.Snapshot, Base.Searchable → Snapshot → Gate, Decide, Search → Release
//	Base.Writer → store.Store → commits: the next Snapshot shows them
//
// Input: Config. Output: Snapshot.
package knowledge
