package upkeep

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/store/cluster/plan"
	"allium/store/cluster/repair"
)

// sender has copies sent by jobs of the queue of repairs.
type sender struct {
	*shared
	callers *callers
	jobs    jobs
}

// grouped returns the sends of each job, in order of priority: small objects for one member travel together.
func grouped(sends []planned) (list [][]planned) {
	type group struct {
		to       plan.ID
		priority plan.Priority
		awaited  bool
	}
	type batch struct {
		at    int   // where in list small objects are added
		bytes int64 // of those that are there
	}
	small := map[group]batch{}
	for _, p := range sends {
		key := group{p.To, p.Priority, p.awaited}
		b, ok := small[key]
		switch b.bytes += p.Size; {
		case p.Size > b3.GroupSize, p.coded != nil:
			list = append(list, []planned{p})
			continue
		case ok && len(list[b.at]) < plan.MaxSent && b.bytes <= plan.MaxSentBytes:
			list[b.at] = append(list[b.at], p)
		default:
			b = batch{len(list), p.Size}
			list = append(list, []planned{p})
		}
		small[key] = b
	}
	return list
}

// queue puts a job into the queue of repairs.
func (s *sender) queue(sends []planned) {
	job := repair.Job{
		// A new object has one copy, so it is urgent too. But the last places of the queue stay free for repairs.
		Kind: sends[0].kind(), Root: sends[0].Root, Urgent: sends[0].Priority.Urgent() && !sends[0].awaited,
		Awaited: sends[0].awaited,
		Run: func(ctx context.Context, meter repair.Meter) error {
			out, err := make([]outcome, len(sends)), error(status.Errorf(status.Internal, "the send did not end"))
			begun := s.deps.Now()
			defer func() { s.sent(ctx, sends, out, err, begun) }() // also after a panic
			if err = s.send(ctx, sends, out, meter); ctx.Err() == nil {
				s.jobs.ended(err)
			}
			return err
		},
	}
	moves := job.Kind == repair.Move
	if moves {
		s.jobs.moving.Store(true)
	}
	if s.deps.Repairs.Queue(job) {
		return
	}
	s.inv.mu.Lock()
	for _, p := range sends {
		p.Skipped(p.To)
		s.inv.touch(p.entry)
	}
	s.inv.mu.Unlock()
	if moves {
		s.jobs.moving.Store(false)
	} else {
		s.jobs.full.Store(true) // last: a job that sees it has the next tick plan these objects
	}
}

// outcome says whether a copy is there, and whether the member has proved it since.
type outcome struct{ ok, proved bool }

// sent notes which copies of a job are there. The next tick follows soon: it has them proved, and
// plans what had no place in the queue. err is why others are not there.
func (s *sender) sent(ctx context.Context, sends []planned, out []outcome, err error, begun time.Time) {
	moves := sends[0].kind() == repair.Move
	if moves {
		s.jobs.moving.Store(false) // first: the tick that sees that it is to plan all objects may move others
	}
	now := s.deps.Now()
	again, bytes := false, int64(0)
	var holds []b3.Root // objects that the member has proved
	s.inv.mu.Lock()
	s.inv.all = s.inv.all || moves // the next tick looks for more to move
	for i, p := range sends {
		if !out[i].proved {
			p.Sent(p.To, out[i].ok, s.p, now)
		} else if p.SentProved(p.To, begun, s.p, now) {
			holds = append(holds, p.Root)
		}
		s.inv.touch(p.entry)
		if out[i].ok {
			again = true
			bytes += p.Size
			p.failing.note(nil, now)
		} else if ctx.Err() == nil {
			p.failing.note(err, now)
		}
	}
	s.inv.mu.Unlock()
	s.m.proofs.WithLabelValues(results[plan.Proved]).Add(float64(len(holds)))
	s.callers.keeper.changed(holds)
	if bytes > 0 && !moves { // which are slower than what the estimate is for
		s.jobs.sent(bytes, now.Sub(begun), now)
	}
	if again || s.jobs.full.Load() {
		s.wakeUp()
	}
}

// send sends copies of objects to a member. It tells the member the targets, with the copies or after them, when the
// member can pin the objects for their origins. Unless somebody waits for the copies, it also exchanges targets first:
// the member may know that one was removed. A target that was just set needs no such check. send puts the outcome of
// each copy into out.
func (s *sender) send(ctx context.Context, sends []planned, out []outcome, meter repair.Meter) error {
	to := peer.ID(sends[0].To)
	if !sends[0].awaited {
		if err := s.callers.exchange(ctx, to, sends); err != nil {
			return err
		}
	}
	v, now := s.deps.View(), s.deps.Now()
	var copies []plan.Told
	var at []int // of each copy in sends
	s.inv.mu.Lock()
	for i, p := range sends {
		if p.Wanted() > 0 {
			copies, at = append(copies, p.At(v, s.p, now).Tell()), append(at, i)
		}
	}
	s.inv.mu.Unlock()
	if len(copies) == 0 {
		return nil // the targets were removed
	}
	var sent []Sent
	var err error
	if p := sends[0]; p.coded != nil { // a coded object is alone in its job
		sent = []Sent{{Err: s.deps.Coder.Send(ctx, to, p.Root, p.coded, p.Piece, meter)}}
	} else {
		sent, err = s.deps.Send(ctx, to, copies, meter)
	}
	if err == nil && len(sent) != len(copies) {
		err = status.Errorf(status.Internal, "%d results of %d sends", len(sent), len(copies))
	}
	if err != nil {
		return err
	}
	var told []plan.Told // what the member knows now
	var failed []error
	left := slices.Clone(sends) // objects that the member must still be told about
	for n, r := range sent {
		i := at[n]
		if out[i] = (outcome{r.Err == nil, r.Err == nil && r.Proved}); r.Told && r.Err == nil {
			told = append(told, plan.Told{Root: copies[n].Root, Asked: copies[n].Asked})
			left[i].entry = nil
		}
		if e := r.Err; e != nil && (len(failed) == 0 || e.Error() != failed[len(failed)-1].Error()) {
			failed = append(failed, e)
		}
	}
	err = s.callers.learner.learn(ctx, v, to, told)
	if left = slices.DeleteFunc(left, func(p planned) bool { return p.entry == nil }); err == nil && len(left) > 0 {
		err = s.callers.exchange(ctx, to, left)
	}
	if err != nil {
		clear(out)
		return err
	}
	return errors.Join(failed...)
}

// kind returns the kind of repair that a send is.
func (p planned) kind() repair.Kind {
	switch {
	case p.Priority == plan.Moving:
		return repair.Move
	case p.coded != nil:
		return repair.Rebuild
	}
	return repair.Replicate
}

// jobs is the state of the jobs that send copies, without their objects. It is safe for concurrent use.
type jobs struct {
	full   atomic.Bool // a send was not queued in this tick
	moving atomic.Bool // a job that moves copies is queued or runs

	mu   sync.Mutex // lock: leaf
	err  error      // of the latest job, nil if that succeeded
	rate float64    // bytes per second of the latest sends, a moving average
	at   time.Time  // of the latest one
}

// ended notes the end of a job with its error.
func (j *jobs) ended(err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.err = err
}

// failure returns the error of the latest job.
func (j *jobs) failure() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.err
}

// sent notes that a send of so many bytes took so long.
func (j *jobs) sent(bytes int64, took time.Duration, now time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	r := float64(bytes) / max(took.Seconds(), .001)
	if j.rate > 0 && now.Sub(j.at) < speedFor {
		r = j.rate + (r-j.rate)/8
	}
	j.rate, j.at = r, now
}

// eta returns how long a send of so many bytes takes, 0 if that is not known.
func (j *jobs) eta(bytes int64, now time.Time) time.Duration {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.rate <= 0 || now.Sub(j.at) > speedFor {
		return 0
	}
	return time.Duration(float64(bytes) / j.rate * float64(time.Second))
}
