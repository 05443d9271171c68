// Package sluice is a local retrieval system with a gate before it: the Context Awareness Gate decides from
// calibrated similarity distributions whether the knowledge base can help with a query at all, before
// anything is retrieved.
//
// Input is a folder (the store) and texts; output are vectors, decisions, contexts and answers with their
// traces. A [Sluice] is opened once and serves any number of goroutines; models are loaded when they are
// first needed. The example is a whole program.
//
//	Ingest     files → documents → chunks → vectors → store
//	Calibrate  contexts × pseudo-queries → distributions → policy, threshold → artifact
//	Gate       query → decision                     (one embedding, no call of the language model)
//	Retrieve   query → contexts
//	Lookup     query → decision and contexts, for queries whose gate is open
//	Ask        query → gate → contexts or own knowledge → answer
//
// [Documents], [Store], [Calibrations], [Router], [Decisions], [Models] and [Web] give access to what these verbs make
// and use. Options are structs of the packages below: start with their DefaultOptions.
//
// The encoder and the language model need the build tag "native" and the set-up that goes with it; without
// it the methods that need them fail with [embed.ErrUnavailable] and [llm.ErrUnavailable].
package sluice
