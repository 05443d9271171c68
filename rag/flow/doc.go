// Package flow runs answer graphs: named nodes that work on one state, and edges that say which node comes next, by the
// verdict of the one before. It holds the machinery alone; the nodes of Sluice and its presets are in rag/answer.
//
//	state ─ node ─ verdict ─ edge ─ node ─ … ─ End (an answer) or Unknown (an honest "I don't know")
//
// A graph is data. It is checked when it is made: each verdict of each node has an edge, each edge leads somewhere, and
// every cycle goes over an edge that counts as a retry, so that no run is without end. A run has a budget of retries,
// calls and tokens of language models, and time; when it is spent, the outcome is Unknown.
//
// The self-correcting graph follows Rocha and Pessoa, Advanced Retrieval Augmented Generation for Local LLMs.
package flow
