package repair

import (
	"context"
	"time"

	"allium/internal/guard"
	"allium/protocols/b3"
	"allium/protocols/status"
)

// Kind is the label of a repair in metrics.
type Kind string

// Replicate is the kind of jobs that send a copy to another member of the cluster.
const Replicate Kind = "replicate"

// Rebuild is the kind of jobs that make shards of a coded object and send them.
const Rebuild Kind = "rebuild"

// Move is the kind of jobs that send a copy to a member that should have it, though none is missing. They have a
// quarter of the rate of repairs.
const Move Kind = "move"

// Trim is the kind of the copies that were dropped because nobody needs them, which takes no job.
const Trim Kind = "trim"

// fetch is the label of what jobs fetched from members to make shards of it, which they then send.
const fetch = "fetch"

// receive is the label of what members sent for their repairs, and nobody waited for.
const receive = "receive"

// moveShare is the part of the rate of repairs that moves have.
const moveShare = 4

// damage is the label of repairs of objects that are damaged or lost.
const damage = "damage"

// urgentPlaces is the number of places of the queue that are kept for urgent jobs.
const urgentPlaces = queueLen / 8

// Wait waits until the rate of repairs allows n bytes, or returns an error when it does not within
// maxWait or ctx ends.
type Wait func(ctx context.Context, n int) error

// Meter counts the bytes of a job before they travel, and has them wait for the rate of repairs unless somebody waits
// for the job. In tests its functions may be nil.
type Meter struct {
	Sent    Wait // for bytes that go to the member that the job is for
	Fetched Wait // for bytes that are fetched to make these
	Awaited bool // somebody waits for the job
}

// Job is a repair that a planner wants.
type Job struct {
	Kind   Kind
	Root   b3.Root
	Urgent bool // it may use the last places of the queue
	// Awaited says that somebody waits for the job: its bytes are counted, and keep to no rate of repairs.
	Awaited bool
	// Run does the repair. It counts bytes by meter. Its error is counted and
	// logged; the planner decides whether to try again.
	Run func(ctx context.Context, meter Meter) error
}

// task is a piece of work of a worker: a job, or the repair of root.
type task struct {
	root b3.Root
	job  Job
}

// Queue puts a job into the queue. It does not wait. It returns false, and counts that, if repairs
// are off or there is no place: the planner plans again later.
func (r *Repairs) Queue(job Job) bool {
	switch {
	case r.off:
		r.m.skipped.WithLabelValues(string(job.Kind), "off").Inc()
		return false
	case !job.Urgent && r.queue.Len() >= queueLen-urgentPlaces, r.queue.TryPut(task{job: job}) != nil:
		r.m.skipped.WithLabelValues(string(job.Kind), "full").Inc()
		return false
	}
	return true
}

// Trimmed counts a copy that was dropped because nobody needs it, or that could not be.
func (r *Repairs) Trimmed(err error) {
	r.m.objects.WithLabelValues(string(Trim), status.Of(err).String()).Inc()
}

// do runs a job and counts its outcome.
func (r *Repairs) do(ctx context.Context, job Job) {
	kind := string(job.Kind)
	begun := time.Now()
	err := guard.Guard{Log: r.log}.Run("a repair panicked", func() error {
		return job.Run(ctx, Meter{Sent: r.meter(job, kind), Fetched: r.meter(job, fetch), Awaited: job.Awaited})
	}, func() []any { return []any{"kind", kind, "root", job.Root} })
	r.m.seconds.WithLabelValues(kind).Add(time.Since(begun).Seconds())
	if ctx.Err() != nil {
		return
	}
	r.m.objects.WithLabelValues(kind, status.Of(err).String()).Inc()
	if err != nil {
		r.log.Info("a repair failed; it is planned again", "kind", kind, "root", job.Root, "err", err)
	}
}

// meter returns what counts bytes of a job as a kind, and waits for the rate of repairs unless the job is awaited.
func (r *Repairs) meter(job Job, kind string) Wait {
	return func(ctx context.Context, n int) error {
		r.m.bytes.WithLabelValues(kind).Add(float64(n))
		if job.Awaited {
			return nil
		}
		return r.wait(ctx, kind, job.Kind == Move, n)
	}
}

// Received waits until the rate of repairs allows n bytes, at most burst, that a member sent for a repair.
func (r *Repairs) Received(ctx context.Context, n int) error {
	r.m.bytes.WithLabelValues(receive).Add(float64(n))
	return r.wait(ctx, receive, false, n)
}

// wait waits for the rate that all repairs share, and for that of moves.
func (r *Repairs) wait(ctx context.Context, kind string, move bool, n int) error {
	if r.rate == nil {
		return nil
	}
	begun := time.Now()
	var err error
	if move {
		err = r.moves.Wait(ctx, n, maxWait)
	}
	if err == nil {
		err = r.rate.Wait(ctx, n, maxWait)
	}
	r.m.waited.WithLabelValues(kind).Observe(time.Since(begun).Seconds())
	return err
}
