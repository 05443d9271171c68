package serve

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/sluice-rag/sluice/internal/panics"
	"github.com/sluice-rag/sluice/llm"
	"github.com/sluice-rag/sluice/rag/store"
)

// The states of a job.
const (
	jobQueued    = "queued"
	jobRunning   = "running"
	jobDone      = "done"
	jobFailed    = "failed"
	jobCancelled = "cancelled"
)

const (
	jobsWaiting  = 32                     // of one base, besides the running one
	jobsKept     = 200                    // ended jobs that clients can still ask about
	jobsSkipped  = 100                    // skipped files and lines that a job lists; more are only counted
	jobsInterval = 100 * time.Millisecond // between two events of a job
)

// jobState is a job as shown to clients.
type jobState struct {
	ID        string        `json:"id"`
	Kind      string        `json:"kind"` // "ingest" or "calibration"
	Store     string        `json:"store"`
	State     string        `json:"state"`
	Automatic bool          `json:"automatic,omitempty"` // begun by the server: new uploads end it
	Names     []string      `json:"names,omitempty"`     // of what is ingested
	Created   time.Time     `json:"created"`
	Started   *time.Time    `json:"started,omitempty"`
	Ended     *time.Time    `json:"ended,omitempty"`
	Progress  *jobProgress  `json:"progress,omitempty"`
	Committed int           `json:"committed,omitempty"` // passages that are durable
	Skipped   []jobSkip     `json:"skipped,omitempty"`   // files and lines that were not read
	Result    any           `json:"result,omitempty"`
	Error     *requestError `json:"error,omitempty"`
}

type jobProgress struct {
	Stage string `json:"stage,omitempty"`
	Done  int64  `json:"done"`
	Total int64  `json:"total"`
}

type jobSkip struct {
	Source string `json:"source"`
	Error  string `json:"error"`
}

func (s *jobState) over() bool { return s.Ended != nil }

// job is work that continues after its request has been answered.
type job struct {
	work func(ctx context.Context, j *job) (result any, err error)
	kept func() // called when the job has ended for good; may be nil
	// resumed: an earlier process acknowledged the job, so it waits in addition to new ones. Guarded by jobs.mu.
	resumed bool

	ctx    context.Context // ends when the job is cancelled (errCancelled), or with the server
	cancel context.CancelCauseFunc

	mu      sync.Mutex
	state   jobState
	changed chan struct{} // closed at the next change
}

// errCancelled is the cause of a job's context that a client cancelled.
var errCancelled = errors.New("serve: the job was cancelled")

// look returns the job's state, and a channel that is closed when it changes.
func (j *job) look() (jobState, <-chan struct{}) {
	j.mu.Lock()
	defer j.mu.Unlock()
	s := j.state
	s.Skipped = slices.Clone(s.Skipped)
	return s, j.changed
}

// change changes the job's state and wakes its followers.
func (j *job) change(f func(*jobState)) {
	j.mu.Lock()
	defer j.mu.Unlock()
	f(&j.state)
	close(j.changed)
	j.changed = make(chan struct{})
}

func (j *job) progress(stage string, done, total int64) {
	j.change(func(s *jobState) { s.Progress = &jobProgress{stage, done, total} })
}

// begin marks the job as running, unless it has ended before.
func (j *job) begin() (begun bool) {
	j.change(func(s *jobState) {
		if begun = !s.over(); begun {
			s.State, s.Started = jobRunning, new(time.Now().UTC())
		}
	})
	return begun
}

// end makes the last change of the job, unless it has ended before.
func (j *job) end(state string, result any, err error) {
	j.change(func(s *jobState) {
		if s.over() {
			return
		}
		s.State, s.Result, s.Ended = state, result, new(time.Now().UTC())
		if err != nil && state == jobFailed {
			s.Error = asRequestError(err).finish()
		}
	})
}

// endQueued cancels a job that has not begun, and reports whether it did.
func (j *job) endQueued() (ended bool) {
	j.change(func(s *jobState) {
		if ended = s.State == jobQueued; ended {
			s.State, s.Ended = jobCancelled, new(time.Now().UTC())
		}
	})
	return ended
}

// jobs holds the jobs of a server: one per base runs at a time, the others wait.
type jobs struct {
	mu     sync.Mutex
	byID   map[string]*job
	order  []*job // oldest first
	queues map[string]*queue
	scopes map[string]*llm.Scope // prompt scopes for the jobs' requests, per base; nil without Keys
	ending chan struct{}         // closed when the server ends
	once   sync.Once
	log    *slog.Logger
}

// queue holds the waiting jobs of a base, the next one first; guarded by jobs.mu.
type queue struct {
	waiting []*job
	more    chan struct{} // holds a token when there may be a job
}

func newJobs(bases map[string]*base, keys *Keys, log *slog.Logger) *jobs {
	js := &jobs{log: log, byID: map[string]*job{}, queues: map[string]*queue{}, scopes: map[string]*llm.Scope{},
		ending: make(chan struct{})}
	for name := range bases {
		js.queues[name] = &queue{more: make(chan struct{}, 1)}
		if keys != nil {
			js.scopes[name] = llm.NewScope()
		}
	}
	return js
}

// next removes the first waiting job and returns it; nil if no job waits.
func (js *jobs) next(q *queue) *job {
	js.mu.Lock()
	defer js.mu.Unlock()
	if len(q.waiting) == 0 {
		return nil
	}
	j := q.waiting[0]
	q.waiting = q.waiting[1:]
	return j
}

// run runs the queued jobs until ctx ends, which also ends running jobs.
func (js *jobs) run(ctx context.Context) {
	var all sync.WaitGroup
	for _, queue := range js.queues {
		all.Go(func() {
			for ctx.Err() == nil {
				if j := js.next(queue); j != nil {
					j.run(ctx)
					js.say(j)
					continue
				}
				select {
				case <-ctx.Done():
				case <-queue.more:
				}
			}
		})
	}
	all.Wait()
	js.once.Do(func() { close(js.ending) })
}

// say logs how a job has ended.
func (js *jobs) say(j *job) {
	s, _ := j.look()
	attributes := []any{"job", s.ID, "kind", s.Kind, "store", s.Store, "state", s.State, "committed", s.Committed}
	if s.Error != nil {
		cause := cmp.Or(s.Error.cause, error(s.Error))
		js.log.Error("job", append(append(attributes, "error", text(cause)), stack(cause)...)...)
		return
	}
	js.log.Info("job", attributes...)
}

// run does the job's work. A job that the shutdown interrupts stays queued: its files are kept for the next start.
func (j *job) run(ctx context.Context) {
	defer j.cancel(nil)
	defer context.AfterFunc(ctx, func() { j.cancel(context.Cause(ctx)) })()
	if !j.begin() { // cancelled while it waited
		return
	}
	result, err := j.attempt()
	for j.kept != nil && errors.Is(err, store.ErrAway) && j.ctx.Err() == nil { // an upload waits for the database
		select {
		case <-j.ctx.Done():
		case <-time.After(time.Second):
			result, err = j.attempt()
		}
	}
	state := jobFailed // not repeated at the next start, where it would replace later versions
	switch {
	case err == nil:
		state = jobDone
	case context.Cause(j.ctx) == errCancelled: //nolint:errorlint // it is set as it is
		state = jobCancelled
	case ctx.Err() != nil && !isContent(err): // any error caused by the shutdown
		j.change(func(s *jobState) { s.State, s.Progress = jobQueued, nil })
		return
	}
	if j.kept != nil { // before clients learn the result: a server that is killed now must not repeat a failed job
		j.kept()
	}
	j.end(state, result, err)
}

// attempt does the job's work and turns a panic into an error, so that the job is not repeated.
func (j *job) attempt() (result any, err error) {
	defer panics.Into(&err)
	return j.work(j.ctx, j)
}

// add puts a job into its base's queue; a full queue is a 429.
func (js *jobs) add(id string, state jobState, work func(context.Context, *job) (any, error), kept func()) (*job,
	error) {
	if err := js.hasRoom(state.Store); err != nil {
		return nil, err
	}
	return js.put(id, state, &job{work: work, kept: kept}), nil
}

// hasRoom returns an error if too many jobs of a base wait.
func (js *jobs) hasRoom(store string) error {
	js.mu.Lock()
	defer js.mu.Unlock()
	waiting := 0
	for _, j := range js.queues[store].waiting {
		if s, _ := j.look(); !s.over() && !j.resumed {
			waiting++
		}
	}
	if waiting < jobsWaiting {
		return nil
	}
	return &requestError{Status: http.StatusTooManyRequests, Code: "too_many_jobs", RetryAfter: 10 * time.Second,
		Message: fmt.Sprintf("%d jobs of this knowledge base are waiting", jobsWaiting)}
}

// put adds a job without the limit of add: acknowledged work is never refused.
func (js *jobs) put(id string, state jobState, j *job) *job {
	j.ctx, j.cancel = context.WithCancelCause(js.scopes[state.Store].In(context.Background()))
	j.changed, j.state = make(chan struct{}), state
	j.state.ID, j.state.State, j.state.Created = id, jobQueued, time.Now().UTC()
	js.mu.Lock()
	defer js.mu.Unlock()
	q := js.queues[state.Store]
	q.waiting = append(q.waiting, j)
	select {
	case q.more <- struct{}{}:
	default:
	}
	js.byID[id], js.order = j, append(js.order, j)
	js.forget()
	return j
}

// forget drops the oldest ended jobs above the limit.
func (js *jobs) forget() {
	ended := 0
	for _, j := range js.order {
		if s, _ := j.look(); s.over() {
			ended++
		}
	}
	js.order = slices.DeleteFunc(js.order, func(j *job) bool {
		s, _ := j.look()
		if ended <= jobsKept || !s.over() {
			return false
		}
		ended--
		delete(js.byID, s.ID)
		return true
	})
}

// newJobID returns an id that cannot be guessed.
func newJobID() string { return "job-" + rand.Text() }

// jobOf returns the job that a request names, if its key may use the job's base.
func (s *Server) jobOf(r *http.Request) (*job, error) {
	id := r.PathValue("id")
	s.jobs.mu.Lock()
	j := s.jobs.byID[id]
	s.jobs.mu.Unlock()
	if j == nil || !keyOf(r.Context()).May(j.state.Store) {
		return nil, &requestError{Status: http.StatusNotFound, Code: "unknown_job",
			Message: fmt.Sprintf("there is no job %q", shortened(id)), Hint: "GET /v1/jobs lists those that there are"}
	}
	return j, nil
}

// jobAnswer is the response of POST /v1/documents and /v1/calibration.
type jobAnswer struct {
	Job jobState `json:"job"`
}

func accepted(w http.ResponseWriter, j *job) error {
	state, _ := j.look()
	w.Header().Set("Location", "/v1/jobs/"+state.ID)
	return writeJSON(w, http.StatusAccepted, jobAnswer{state})
}

// jobList is the response of GET /v1/jobs.
type jobList struct {
	Jobs []jobState `json:"jobs"`
}

// listJobs answers GET /v1/jobs, the latest first.
func (s *Server) listJobs(w http.ResponseWriter, r *http.Request) error {
	only := r.URL.Query().Get(storeParameter)
	if only != "" {
		if _, err := s.base(r, only); err != nil {
			return err
		}
	}
	s.jobs.mu.Lock()
	all := slices.Clone(s.jobs.order)
	s.jobs.mu.Unlock()
	list := []jobState{}
	for _, j := range slices.Backward(all) {
		state, _ := j.look()
		if keyOf(r.Context()).May(state.Store) && (only == "" || only == state.Store) {
			list = append(list, state)
		}
	}
	return writeJSON(w, http.StatusOK, jobList{list})
}

// showJob answers GET /v1/jobs/ID.
func (s *Server) showJob(w http.ResponseWriter, r *http.Request) error {
	j, err := s.jobOf(r)
	if err != nil {
		return err
	}
	state, _ := j.look()
	return writeJSON(w, http.StatusOK, state)
}

// cancelJob answers DELETE /v1/jobs/ID; what the job has committed stays.
func (s *Server) cancelJob(w http.ResponseWriter, r *http.Request) error {
	j, err := s.jobOf(r)
	if err != nil {
		return err
	}
	if err := s.writable(); err != nil {
		return err
	}
	j.cancel(errCancelled)
	if j.endQueued() && j.kept != nil {
		j.kept()
	}
	state, _ := j.look()
	return writeJSON(w, http.StatusOK, state)
}

// followJob answers GET /v1/jobs/ID/events with an event for each change, with the whole job, until the job ends. At a
// shutdown the last event is an error.
func (s *Server) followJob(w http.ResponseWriter, r *http.Request) error {
	j, err := s.jobOf(r)
	if err != nil {
		return err
	}
	w.Header().Set("X-Accel-Buffering", "no")
	out := &stream{w: w, kind: "text/event-stream"}
	for {
		state, changed := j.look()
		if err := out.send("data: ", state, "\n\n"); err != nil || state.over() {
			return err
		}
		select {
		case <-changed:
		case <-r.Context().Done():
			return r.Context().Err()
		case <-s.jobs.ending:
			return errEnding
		}
		select {
		case <-time.After(jobsInterval):
		case <-r.Context().Done():
			return r.Context().Err()
		}
	}
}
