package distribution

// Whole is an input that nobody needs to hold at once: contexts and queries are numbered from 0.
type Whole struct {
	Contexts int64  `json:"contexts"`
	Queries  int64  `json:"queries"`
	Digest   string `json:"digest,omitempty"` // of all vectors, owners and groups, as the caller likes
}
