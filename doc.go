// Package sluice is a local retrieval system with a gate before it: the Context Awareness Gate decides from
// calibrated similarity distributions whether the knowledge base can help with a query at all, before
// anything is retrieved.
//
// Input is a folder (the store) and texts; output are vectors, decisions, contexts (chunks of documents) and answers
// with their traces. A [Sluice] is opened once and serves any number of goroutines; models are loaded when they are
// first needed.
//
//	s, err := sluice.Open(ctx, sluice.Config{Store: "kb"}) // each err is to be looked at
//	defer s.Close()
//	_, err = s.Ingest(ctx, []string{"notes/"}, ingest.DefaultOptions())
//	made, err := s.Calibrate(ctx, calibrate.DefaultOptions())
//	fmt.Println(made.Evidence.Verdict) // whether the gate can be relied on
//	decisions, err := s.Gate(ctx, []string{"What is a pseudo-query?"})
//	fmt.Println(decisions[0].Retrieve, decisions[0].Score, decisions[0].Cutoff)
//	a, err := s.Ask(ctx, "What is a pseudo-query?", answer.DefaultOptions())
//	fmt.Println(a.Trace.Notice, a.Answer, a.Citations)
//
//	Ingest     files → documents → chunks → vectors → store
//	Calibrate  contexts × pseudo-queries → distributions → policy, threshold → artifact
//	Gate       query → decision                     (one embedding, no call of the language model)
//	Retrieve   query → contexts
//	Lookup     query → decision and contexts, for queries whose gate is open
//	Ask        query → gate → contexts or own knowledge → answer
//
// [Documents], [Store], [Calibrations], [Router], [Decisions], [Models] and [Web] give access to what these verbs make
// and use. Options and results are structs of github.com/sluice-rag/sluice/rag/ingest, rag/calibrate, rag/gate,
// rag/retrieve and rag/answer: start with the DefaultOptions of these packages. A pseudo-query is a question made from
// a chunk, as a user could ask it; a calibration in force is the one that decides. Texts for people name commands of
// the program: 'models check' is Models.Examine, '--gate open' is answer.GateOpen.
//
// The encoder and the language model need the build tag "native" and native libraries; without them the methods that
// need them fail with [embed.ErrUnavailable] and [llm.ErrUnavailable]. 'make build' in a checkout builds the libraries
// and fetches the default models into ~/.cache/sluice. A module of its own names the checkout in a replace directive
// and is built after '. CHECKOUT/build/env.sh', which sets the tag and the flags of cgo.
package sluice
