package config

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/llm/remote"
	"github.com/sluice-rag/sluice/rag/answer"
	"github.com/sluice-rag/sluice/rag/calibrate"
	"github.com/sluice-rag/sluice/rag/decisions"
	"github.com/sluice-rag/sluice/rag/gate"
	"github.com/sluice-rag/sluice/rag/knowledge"
	"github.com/sluice-rag/sluice/rag/prompt"
	"github.com/sluice-rag/sluice/rag/pseudo"
	"github.com/sluice-rag/sluice/rag/retrieve"
	"github.com/sluice-rag/sluice/rag/web"
)

// row is what the table says about a setting besides its name and type.
type row struct {
	key      string
	initial  any    // the default; nil is the zero value
	min, max string // of a number; "" is no limit
	oneOf    string // the words that are allowed, separated by spaces; "" allows any
	words    string // of a whole number: words that stand for some, as WORD=NUMBER with spaces between
	secret   bool   // shown as "(set)" or "(not set)" only
	pairs    bool   // NAME=VALUE with commas between them, which a file may write as a mapping
	doc      string
}

// maxSeed is the largest number of 64 bits.
const maxSeed = "18446744073709551615"

// table has a row for every field of Config. Defaults that the library has are its constants.
func table() []row {
	return slices.Concat(general(), ingests(), stages(), searches(), routes(), answers(), flows(), outside(), serving())
}

// general are the settings of the whole program.
func general() []row {
	return []row{
		{key: "store", initial: knowledge.DefaultDir,
			doc: "folder of the knowledge base"},
		{key: "encoder",
			doc: "encoder: a name of 'models list', a folder, or the URL of an OpenAI-compatible server " +
				"(https://HOST/v1#MODEL), to which texts are then sent; empty takes the store's own, for a new store " +
				"the " +
				"default one"},
		{key: "precision", initial: "auto", oneOf: "auto f32 int8",
			doc: "what the encoder computes in: f32, or int8, which is faster and another encoder to a store; auto " +
				"takes " +
				"the store's own, for a new store f32"},
		{key: "model",
			doc: "language model: a name of 'models list', a GGUF file, or the URL of an OpenAI-compatible server " +
				"(https://HOST/v1#MODEL), to which text is then sent; empty takes the default one"},
		{key: "classifier",
			doc: "classifier of texts, or of parts of texts: a name of 'models list' or a folder; 'classify' needs " +
				"one"},
		{key: "reranker",
			doc: "cross-encoder: a name of 'models list' or a folder; 'rerank' needs one"},
		{key: "entailment",
			doc: "cross-encoder that says whether one text follows from another (natural language inference): a name " +
				"of 'models list' or a folder; it checks written sentences instead of the encoder"},
		{key: "threads", min: "0", max: "4096",
			doc: "CPU threads at most; 0 takes what the machine or container grants"},
		{key: "log_level", initial: "warn", oneOf: "debug info warn error",
			doc: "how much is logged on standard error"},
		{key: "isa",
			doc: "instruction set of the kernels (scalar, avx2, avx512, avx512vnni, amx); empty takes the best one; " +
				"as SLUICE_ISA it limits llama.cpp, too"},
		{key: "mem_limit_mib", initial: engine.DefaultMemLimit >> 20, min: "1", max: "1048576",
			doc: "scratch memory of the engine, MiB"},
		{key: "device", initial: engine.DeviceAuto,
			doc: "what the engine computes on: auto chooses for each operation by measured costs, cpu, cuda for all " +
				"NVIDIA GPUs, cuda:1 for the second; a GPU that is asked for and is not there is an error"},
		{key: "device_memory_mib", min: "0", max: "16777216",
			doc: "memory of each GPU that the engine takes at most, MiB; 0 takes 90 % of what is free"},
		{key: "llama_cuda",
			doc: "path of llama.cpp's back-end for NVIDIA GPUs (make llama-cuda), opened when generate.gpu_layers asks " +
				"for it; empty searches libggml-cuda.so where the system finds libraries"},
		{key: "onnxruntime",
			doc: "path of libonnxruntime.so; empty searches beside the binary, in its build tree and in the cache, " +
				"for the " +
				"one it was built with"},
	}
}

// stages are the settings of the stages before an answer.
func stages() []row {
	return []row{
		{key: "embed.workers", min: "0", max: "4096",
			doc: "concurrent runs of the encoder; 0 takes one per thread"},
		{key: "embed.max_batch_tokens", min: "0", max: "131072",
			doc: "tokens of one batch; 0 takes 512, the fastest measured, and 16384 on a GPU. More takes more memory"},
		{key: "embed.queue_tokens", initial: 32768, min: "0", max: "16777216",
			doc: "tokens of concurrent calls that may wait for the encoder before another call is refused; 0 takes " +
				"any"},
		{key: "embed.device", initial: "cpu",
			doc: "what the encoder, classifiers and the reranker compute on: cpu, cuda for the first NVIDIA GPU, cuda:1 " +
				"for the second, or auto, the first GPU where it can be used. A GPU needs 'make onnxruntime-cuda'; one " +
				"that is asked for and is not there is an error"},
		{key: "embed.device_memory_mib", min: "0", max: "16777216",
			doc: "memory of the GPU that each of these models takes at most, MiB; 0 takes any"},
		{key: "embed.api_key", secret: true,
			doc: "key of the server that embeds, where the encoder is a URL; the variable SLUICE_EMBED_API_KEY is a " +
				"better place for it than this file"},
		{key: "embed.api_key_env",
			doc: "another environment variable that holds that key; no variable is read unless it is named here"},
		{key: "embed.max_tokens", min: "0", max: "1048576",
			doc: "where texts are cut that go to a server that embeds, in tokens of remote.bytes_per_token; 0 takes " +
				"8192"},
		{key: "ingest.calibrate", initial: "auto", oneOf: "auto true false",
			doc: "what becomes of the calibration after an ingest or an upload: auto has a local language model ask a few " +
				"questions about new chunks, for two minutes at most, if there is one; true brings it up to date however " +
				"long that takes, or makes one; false leaves it as it is"},
		{key: "calibrate.policy",
			doc: "auto: maximum:p5 of the score that tells the calibration's questions best from those of other " +
				"topics; " +
				"paper: density:95 of the similarity; or a statistic of the positive distribution that becomes P: " +
				"min, q1, " +
				"mean, median, q3, max, pNN, density:NN, with 'maximum:' before it of the maximum distribution; " +
				"empty is auto"},
		{key: "calibrate.score",
			doc: "what the gate compares with its cut-off: cosine (or the store's metric), cosine+cover (with the " +
				"share of " +
				"the query's words, weighted by IDF, that a context has), cosine+cover:WEIGHT, pseudo-query (the best " +
				"similarity with a question of the calibration), or auto, the best of them; " +
				"empty is auto with the policy auto, else the similarity"},
		{key: "calibrate.threshold", min: "-1000000", max: "1000000",
			doc: "T: the gate opens above P - T, so more is looser"},
		{key: "calibrate.negatives", initial: gate.DefaultNegatives,
			doc: "pairs of the negative distribution: all, cross-topic, sample:N per question"},
		{key: "calibrate.questions", initial: "auto", oneOf: "auto written extracted",
			doc: "pseudo-queries: written by the language model, extracted from the contexts' words without it, or, by " +
				"auto, what its scorecard says is nearer to people's questions ('models check')"},
		{key: "calibrate.per_context", initial: pseudo.DefaultPerContext, min: "1",
			max: strconv.Itoa(pseudo.MaxPerContext),
			doc: "pseudo-queries per context"},
		{key: "calibrate.sample", min: "0", max: strconv.Itoa(calibrate.All),
			words: "auto=0 all=" + strconv.Itoa(calibrate.All),
			doc: fmt.Sprintf("contexts that get pseudo-queries, drawn at random; all takes all; auto, or 0, goes on until "+
				"the 95 %% interval of P is at most %g wide, with 500 contexts or after 5 minutes, and with --queries "+
				"takes all unless it is given", gate.NarrowInterval)},
		{key: "calibrate.seed", initial: 1, min: "0", max: maxSeed,
			doc: "seed of everything random"},
		{key: "calibrate.holdout", initial: 0.2, min: "0", max: "0.9",
			doc: "share of the contexts that is kept apart to test the gate; 0 tests nothing"},
		{key: "calibrate.resamples", initial: gate.DefaultResamples, min: "-1", max: "1000000",
			doc: "bootstrap resamples of the interval of P; -1 makes none"},
		{key: "calibrate.rank_limit", initial: pseudo.DefaultRankLimit, min: "1", max: "1000000",
			doc: "a generated question is kept when its own context is among so many best"},
		{key: "gate.stale_tolerance", initial: gate.DefaultStaleTolerance, min: "0", max: "1",
			doc: "share of chunks that the calibration may not have seen; above it the gate refuses; 1, the default, never refuses"},
	}
}

// searches are the settings of searches.
func searches() []row {
	return []row{
		{key: "retrieve.k", initial: retrieve.DefaultK, min: "1", max: strconv.Itoa(retrieve.MaxK),
			doc: "contexts per query"},
		{key: "retrieve.mode", initial: retrieve.Auto, oneOf: retrieve.Join(retrieve.Modes(), " "),
			doc: "how contexts are ranked: auto takes the best measured ranking that the store allows, by vectors " +
				"and " +
				"words; dense goes by vectors, bm25 and tfidf by words, hybrid by both"},
		{key: "retrieve.metric", initial: "store", oneOf: "store cosine ip l2",
			doc: "how vectors are compared in a search: store is as the store was made"},
		{key: "retrieve.weight", initial: retrieve.DefaultWeight, min: "0", max: "1",
			doc: "share of the vectors in auto and hybrid; the rest is that of the words"},
		{key: "retrieve.fusion", initial: retrieve.MinMax, oneOf: retrieve.Join(retrieve.Fusions(), " "),
			doc: "how hybrid makes one score of two: normalised between the worst and the best of all contexts, or " +
				"of " +
				"the top n of each search, or by ranks (rrf)"},
		{key: "retrieve.top_n", min: "0", max: strconv.Itoa(retrieve.MaxTopN),
			doc: "length of the lists that min-max-top-n and rrf fuse; 0 takes 10 for the one, 100 for the other, at " +
				"least k"},
		{key: "retrieve.k1", initial: retrieve.DefaultK1, min: "0", max: "1000",
			doc: "BM25: how much repeated words count"},
		{key: "retrieve.b", initial: retrieve.DefaultB, min: "0", max: "1",
			doc: "BM25: how much long contexts are discounted; 0 is not at all"},
		{key: "retrieve.route", initial: "auto",
			doc: "domains that are searched: auto (those of the query, by the store's router if it has one), off " +
				"(all), " +
				"or their names, with commas between them"},
		{key: "retrieve.rerank", min: "0", max: strconv.Itoa(retrieve.MaxRerank),
			doc: "the best so many contexts are put in order by the reranker (the setting reranker names it); 0: none"},
		{key: "retrieve.mmr", min: "0", max: "1",
			doc: "maximal marginal relevance: share of relevance against difference from the contexts before; 0 is " +
				"off"},
		{key: "retrieve.expand", initial: retrieve.NoExpansion, oneOf: retrieve.Join(retrieve.Expansions(), " "),
			doc: "what is joined to a context that was found: the chunks around it in its document, or the section " +
				"that " +
				"it was cut from"},
		{key: "retrieve.neighbours", initial: retrieve.DefaultNeighbours, min: "1",
			max: strconv.Itoa(retrieve.MaxNeighbours),
			doc: "chunks on either side that 'neighbours' joins"},
		{key: "retrieve.text", initial: "snippet", oneOf: "full snippet none",
			doc: "how much of each context 'retrieve' prints: a snippet is the nearest sentence with what stands " +
				"around " +
				"it; with --json all of it, unless this is set"},
		{key: "retrieve.sentences", initial: true,
			doc: "show with each source its sentence that is nearest to the question, in batches only when this is " +
				"set; costs the embedding of the sources' sentences"},
	}
}

// answers are the settings of answers and of a remote language model.
func answers() []row {
	return []row{
		{key: "ask.gate", initial: answer.GateAuto, oneOf: "auto open closed",
			doc: "who decides on retrieval: auto is the calibrated gate, open always retrieves, closed never"},
		{key: "ask.transform", initial: prompt.None,
			oneOf: "none rewrite hyde step-back decompose multi-query condense",
			doc:   "query transformation before retrieval; each costs at least one call of the language model"},
		{key: "ask.style", initial: answer.Auto, oneOf: "auto write quote",
			doc: "answers from passages: write has the language model write them, quote takes the sentences that " +
				"answer from the passages as they stand, without a call of the model, and auto writes where the " +
				"model's scorecard says that it is right as often as quotes are ('models check')"},
		{key: "ask.strict",
			doc: "leave out of a written answer what no passage backs; where nothing is left, passages are quoted"},
		{key: "ask.own", initial: prompt.FewShot, oneOf: "few-shot chain-of-thought",
			doc: "template of answers from the model's own knowledge"},
		{key: "ask.max_tokens", initial: answer.DefaultMaxTokens, min: "1", max: "131072",
			doc: "longest answer, tokens"},
		{key: "ask.context_tokens", min: "0", max: "1048576",
			doc: "window of the language model, tokens; 0 takes the model's own, of a local one at most 4096"},
		{key: "ask.temperature", min: "0", max: "2",
			doc: "0 always takes the likeliest token"},
		{key: "ask.top_k", initial: 40, min: "0", max: "1000000",
			doc: "likeliest tokens to draw from; 0 takes all. Unless set, a remote model without extensions gets 0"},
		{key: "ask.top_p", initial: 0.95, min: "0", max: "1",
			doc: "probability mass to draw from"},
		{key: "ask.repeat_penalty", initial: 1.05, min: "1", max: "10",
			doc: "divides the scores of recent tokens, against repetition; 1 is off. Unless set, a remote model " +
				"without extensions gets 1"},
		{key: "ask.seed", initial: 1, min: "0", max: "4294967294",
			doc: "seed of the draws"},
		{key: "ask.templates",
			doc: "folder whose files replace the built-in prompt templates of the same name"},
		{key: "ask.language",
			doc: "language of the answer, as English names it or its code; empty takes the question's"},
		{key: "prompt.template", initial: prompt.DefaultTemplate,
			doc: "prompt of answers from passages: context (short, with citations), tutor (long and well ordered), " +
				"strict (nothing else than the passages), marked (the same in one text with <|system|> and other " +
				"marks), " +
				"plain (no citations), or a file of the folder context in ask.templates"},
		{key: "prompt.order", initial: prompt.Forward, oneOf: "forward reverse ends",
			doc: "where passages stand: the best one first (forward), last (reverse), or the best ones at both ends " +
				"and " +
				"the worst in the middle (ends)"},
		{key: "prompt.compress", min: "0", max: "1048576",
			doc: "keep of the passages the sentences nearest to the question, of so many tokens in all; 0 keeps all"},
		{key: "generate.slots", min: "0", max: "64",
			doc: "requests that the language model decodes together; 0 takes 4 a thread, 4 to 16, fewer where memory " +
				"is short, and for one question one"},
		{key: "generate.cache_tokens", min: "0", max: "1073741823",
			doc: "cells of the cache that the slots share, tokens; 0 takes 2048 a slot, at least the context"},
		{key: "generate.batch_tokens", min: "0", max: "2048",
			doc: "tokens of one decode of all slots; 0 takes 8 a slot, at least 64"},
		{key: "generate.parallel", min: "0", max: "1024",
			doc: "requests that calibrate and 'ask --batch' have under way; 0 takes the slots where results do not " +
				"depend on what runs beside (2 for 'ask' with a flow that grades answers), else 1, as for a server"},
		{key: "generate.gpu_layers", min: "0", max: "1000",
			doc: "layers of the language model that a GPU keeps and computes (llama_cuda); 0 uses none, more than there " +
				"are takes all; a GPU that is asked for and is not there is an error"},
		{key: "remote.api_key", secret: true,
			doc: "key of the server; the variable SLUICE_REMOTE_API_KEY is a better place for it than this file"},
		{key: "remote.api_key_env",
			doc: "another environment variable that holds the key, such as OPENAI_API_KEY; no variable is read " +
				"unless it is named here"},
		{key: "remote.extensions", initial: "none", oneOf: "none llama-server vllm",
			doc: "settings beyond OpenAI's that the server knows (top_k, repeat_penalty, counting tokens)"},
		{key: "remote.bytes_per_token", initial: 3, min: "0", max: "16",
			doc: "estimate of a token's length where the server does not count tokens, to fit prompts into the " +
				"window; from 0.5, and 0 refuses to estimate"},
		{key: "remote.timeout_s", initial: int(remote.DefaultTimeout / time.Second), min: "1", max: "86400",
			doc: "longest silence of the server, seconds"},
		{key: "remote.retries", initial: remote.DefaultRetries, min: "0", max: "100",
			doc: "further tries when the server is busy, failing or not there yet"},
	}
}

// outside are the settings of what asks the web.
func outside() []row {
	return []row{
		{key: "web.provider", initial: "none", oneOf: "none searxng brave tavily",
			doc: "who is asked where an answer needs the web: none, a SearXNG server, or the API of Brave or Tavily; " +
				"questions " +
				"are then sent there, and the pages found are fetched"},
		{key: "web.url",
			doc: "address of the SearXNG server (https://HOST), whose settings.yml has to list json under " +
				"search.formats; " +
				"of another provider when it is not its public one"},
		{key: "web.api_key", secret: true,
			doc: "key of the provider; the variable SLUICE_WEB_API_KEY is a better place for it than this file"},
		{key: "web.api_key_env",
			doc: "another environment variable that holds that key, such as TAVILY_API_KEY; no variable is read " +
				"unless it " +
				"is named here"},
		{key: "web.results", initial: 4, min: "1", max: strconv.Itoa(web.MaxResults),
			doc: "pages of one search"},
		{key: "web.fetch", initial: true,
			doc: "fetch the pages that are found; without, their text is what the provider says of them"},
		{key: "web.timeout_s", initial: int(web.DefaultTimeout / time.Second), min: "1", max: "600",
			doc: "longest time of a search, and of a page with its redirects, seconds"},
		{key: "web.retries", initial: web.DefaultRetries, min: "0", max: "100",
			doc: "further tries when the provider is busy or failing"},
		{key: "web.max_page_bytes", initial: web.DefaultPageBytes, min: "1024", max: "1073741824",
			doc: "bytes read of a page, after decompression; the rest is left out"},
		{key: "web.allow_private",
			doc: "fetch pages from private, local and reserved addresses as well; the provider may have such a one " +
				"anyway"},
		{key: "web.lifetime_h", initial: int(web.DefaultLifetime / time.Hour), min: "1", max: "87600",
			doc: "hours for which pages of the web are kept and searched"},
		{key: "log.decisions",
			doc: "file for a log of the gate's decisions, JSON lines; empty keeps none"},
		{key: "log.text", initial: "full", oneOf: "full digest",
			doc: "how that log has the questions: their texts, or only SHA-256 digests of them"},
		{key: "log.max_mib", initial: decisions.DefaultMaxBytes >> 20, min: "1", max: "65536",
			doc: "size at which that file is renamed to FILE.1, MiB"},
		{key: "log.keep", initial: decisions.DefaultKeep, min: "0", max: "1000",
			doc: "renamed files that are kept"},
		{key: "log.shadow_policy",
			doc: "a policy that is tried beside the one in force, such as maximum:p10: it decides nothing, and 'gate " +
				"--explain' " +
				"and 'log report' say where it would have decided otherwise"},
		{key: "log.shadow_threshold", min: "-1000000", max: "1000000",
			doc: "T of that policy"},
	}
}
