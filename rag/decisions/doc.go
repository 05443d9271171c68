// Package decisions keeps a log of what the gate has decided, if its user asks for one, and of what people say of the
// answers, and finds a policy and threshold by that.
//
// The log is a file of JSON lines, decisions and feedback as they come. Any number of processes may write to it: each
// line is written at once, under a lock beside the file. A line that is written survives the process, whatever ends it;
// it is on the disk within a fifth of a second, feedback before Thumb returns. A file that has grown to its limit is
// renamed to FILE.1, that one to FILE.2, and so on; the oldest is removed.
// In the place of files, the database of a shared store keeps one log of all its servers; decisions are written to it a
// moment later and never wait for it, feedback is there before Thumb returns.
//
// One data flow: gate.Decision → Log.Add → FILE → Read → Labels → Fit → policy and threshold.
package decisions
