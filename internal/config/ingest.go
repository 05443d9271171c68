package config

import (
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/rag/corpus"
	"github.com/sluice-rag/sluice/rag/ingest"
)

// ingests are the settings of what files become.
func ingests() []row {
	return []row{
		{key: "ingest.chunk", initial: ingest.DefaultChunk,
			doc: "SIZE/OVERLAP of chunks in tokens of the encoder, special ones counted"},
		{key: "ingest.commit_every", initial: ingest.DefaultCommitEvery, min: "1", max: "65536",
			doc: "chunks per commit: what a kill can cost, and the unit of 'committed' lines"},
		{key: "ingest.metric", initial: kernels.Cosine, oneOf: "cosine ip l2",
			doc: "how vectors of a new store are compared; an existing store keeps its own"},
		{key: "ingest.max_file_mib", initial: corpus.DefaultMaxFileBytes >> 20, min: "1", max: "65536",
			doc: "larger files are skipped and reported, MiB"},
		{key: "ingest.max_file_seconds", initial: 300, min: "1", max: "86400",
			doc: "a file that takes longer to be parsed is skipped and reported, s; each MiB of it adds 5 s"},
		{key: "ingest.max_archive_gib", initial: corpus.DefaultArchiveBytes >> 30, min: "1", max: "65536",
			doc: "what comes out of an archive at most, GiB; the files in it up to there are read"},
		{key: "ingest.max_archive_entries", initial: corpus.DefaultArchiveEntries, min: "1", max: "1000000000",
			doc: "files, folders and links in an archive at most"},
		{key: "ingest.max_archive_ratio", initial: corpus.DefaultArchiveRatio, min: "2", max: "1000000",
			doc: "bytes that come out for each byte of an archive at most, behind the first 64 MiB"},
		{key: "ingest.archive_nesting", initial: 1, min: "0", max: "8",
			doc: "how deep archives in archives are read; 0 reads none in another"},
		{key: "ingest.clean", initial: "none",
			doc: "what is taken out of the prose of documents: none, all, or with commas between: contents (tables of " +
				"contents), index, boilerplate (lines that come again and again, page numbers), bullets, dashes, space"},
		{key: "ingest.duplicates", initial: ingest.KeepDuplicates,
			oneOf: ingest.KeepDuplicates + " " + ingest.ReportDuplicates + " " + ingest.DropDuplicates,
			doc: "new chunks that nearly repeat others: keep does not look for them, report tells of them, drop does " +
				"not store them"},
		{key: "ingest.encoding",
			doc: "encoding of texts (txt, md, html, csv, tsv), such as windows-1252 or shift_jis; empty finds each one's"},
		{key: "ingest.chunker", initial: ingest.Fixed, oneOf: ingest.Fixed + " " + ingest.Semantic,
			doc: "where chunks end: fixed fills them with sentences; semantic also ends them where the subject " +
				"changes, " +
				"which embeds each sentence as well"},
		{key: "ingest.percentile", initial: ingest.DefaultPercentile, min: "0.01", max: "100",
			doc: "with the chunker semantic: two sentences are parted whose cosine is below this percentile of all " +
				"cosines " +
				"of consecutive sentences of the document"},
		{key: "ingest.min_tokens", min: "0", max: "1048576",
			doc: "with the chunker semantic: fewer tokens make no chunk of their own where a neighbour is there to " +
				"join; " +
				"0 takes an eighth of the chunk size"},
		{key: "ingest.buffer", min: "0", max: "16",
			doc: "with the chunker semantic: neighbours on each side that are read with each sentence"},
		{key: "ingest.language",
			doc: "language of documents that name none, as an ISO 639-1 code such as de; empty guesses each one's"},
		{key: "ingest.entities",
			doc: "find people, places, organisations, dates and quantities in each chunk, to search by them " +
				"(--where label.person=NAME); names by the classifier, if that labels parts of texts, else by rules"},
		{key: "ingest.max_delete", initial: ingest.DefaultMaxDelete, min: "0.1", max: "100",
			doc: "share of a folder's documents, in percent, that 'ingest --sync' removes at most, of a folder with " +
				"10 or more: what vanishes at once may be a disk that is not there; --delete-all removes any number"},
	}
}
