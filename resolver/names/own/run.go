package own

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"

	"allium/internal/jitter"
	"allium/internal/privatefile"
	"allium/protocols/name"
	"allium/protocols/status"
)

// Run reads the records, and sends and signs them when they are due, until ctx ends. Records that
// cannot be read are logged, and nothing can be published in their zone.
func (s *Service) Run(ctx context.Context, ready func()) error {
	if s.cfg.Amnesia {
		ready()
		<-ctx.Done()
		return nil
	}
	zones, err := fileZones(s.cfg.Home)
	if err != nil {
		return err
	}
	for _, zone := range zones {
		_ = s.loadZone(zone) // logged; publishing in the zone returns it
	}
	ready()
	for {
		jobs, next := s.table.due(sendsAtOnce, s.deps.Now())
		var work errgroup.Group
		work.SetLimit(sendsAtOnce)
		for _, j := range jobs {
			work.Go(func() error {
				s.attend(ctx, j)
				return nil
			})
		}
		_ = work.Wait() // no call returns an error
		pause := lookEvery
		if len(jobs) > 0 {
			pause = 0 // more may be due
		} else if !next.IsZero() {
			pause = max(0, min(pause, next.Sub(s.deps.Now())))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-s.wake:
		case <-time.After(pause):
		}
	}
}

// loadZone reads the file of a zone. Records of a damaged file are recovered as far as possible. After an error nothing
// can be published in the zone.
func (s *Service) loadZone(zone name.Zone) error {
	now := s.deps.Now()
	file := fileOf(s.cfg.Home, zone)
	text, err := privatefile.Read(file, maxFile, privatefile.NoWrites)
	var records []name.Signed
	recovered := false
	if err == nil {
		if records, err = decode(text, zone); err != nil {
			records, err = s.recover(zone, text, err)
			recovered = err == nil
		}
	}
	if err == nil && s.table.len()+int64(len(records)) > maxRecords {
		err = status.Errorf(status.Quota, "the home directory has more than %d records of own names; "+
			"move the records of a zone to another one", maxRecords)
	}
	s.table.damage(zone, err)
	if err != nil {
		s.deps.Log.Error("the names of a zone are not published", "zone", zone, "err", err)
		return err
	}
	for _, rec := range records {
		if !over(rec, now) {
			s.table.set(rec, false, false, now)
			s.table.change(rec, func(e *entry) { e.recovered = recovered })
		}
	}
	return nil
}

// retry reads the file of a zone again if it could not be read before.
func (s *Service) retry(ctx context.Context, zone name.Zone) error {
	if s.table.refusal(zone) == nil {
		return nil
	}
	release, err := s.writes.Acquire(ctx)
	if err != nil {
		return err
	}
	defer release()
	if s.table.refusal(zone) == nil {
		return nil
	}
	return s.loadZone(zone)
}

// attend asks the peers about a record, where that is needed, signs it again if half of its life
// has passed, and sends it.
func (s *Service) attend(ctx context.Context, j job) {
	rec := j.rec
	renew := rec.Value.Kind() != name.Withdrawn && !s.deps.Now().Before(renewal(rec))
	if renew || !j.checked {
		var ok bool
		if rec, ok = s.check(ctx, rec); !ok {
			return
		}
		renew = rec.Value.Kind() != name.Withdrawn && !s.deps.Now().Before(renewal(rec))
	}
	if renew {
		var err error
		if rec, err = s.renew(ctx, rec); err != nil {
			return
		}
		s.deps.Published(ctx, rec)
	}
	s.send(ctx, rec)
}

// check asks the peers whether a record is in force, and returns it. If it cannot be told, the record
// is due later. In the place of a record that was recovered from a damaged file, the peers may have the
// one that was lost: it is taken up and returned.
func (s *Service) check(ctx context.Context, rec name.Signed) (_ name.Signed, ok bool) {
	found, err := s.find(ctx, rec.Name)
	if err != nil {
		s.later(ctx, rec, err)
		return rec, false
	}
	if newer, ok := s.table.lost(rec, found); ok {
		if err := s.adopt(ctx, newer); err != nil {
			s.later(ctx, rec, err)
			return rec, false
		}
		return newer, true
	}
	var problem Problem
	switch {
	case found.Seq() > rec.Seq:
		problem, err = Superseded, status.Errorf(status.Stale,
			"another holder of the key published a newer record of %s; "+
				"publish again to replace it", rec.Name)
	case contradicts(found, rec):
		problem, err = Equivocation, status.Errorf(status.Equivocation,
			"another holder of the key signed another value of %s with the same sequence number; publish again to "+
				"settle it",
			rec.Name)
	default:
		return rec, true
	}
	s.problem(rec, problem, err)
	return rec, false
}

// contradicts reports whether the peers have another value with the sequence number of rec.
func contradicts(found name.Versions, rec name.Signed) bool {
	for _, other := range found.Records() {
		if name.Compare(other.Record, rec.Record) == name.Equivocation {
			return true
		}
	}
	return false
}

// renew signs a record again, with the value, TTL and life that it had.
func (s *Service) renew(ctx context.Context, rec name.Signed) (name.Signed, error) {
	key, err := s.deps.Keys.Key(rec.Name.Zone)
	if err != nil {
		s.problem(rec, Refused, err)
		return rec, err
	}
	r := Request{Name: rec.Name, Value: rec.Value, TTL: rec.TTL, Life: lifeOf(rec)}
	again, err := s.sign(ctx, key, r, rec.Seq, true, &rec)
	if errors.Is(err, errReplaced) {
		return rec, err
	}
	if err != nil {
		s.later(ctx, rec, err)
	}
	return again, err
}

// lifeOf returns how long a record was to live when it was signed.
func lifeOf(rec name.Signed) time.Duration {
	life := rec.NotAfter.Sub(time.UnixMilli(int64(rec.Seq))) //nolint:gosec // Unix milliseconds, checked by name.Verify
	return min(max((life+time.Second-1).Truncate(time.Second), MinLife), name.MaxLife)
}

// renewal returns when half of the life of a record has passed.
func renewal(rec name.Signed) time.Time { return rec.NotAfter.Add(-lifeOf(rec) / 2) }

// send sends a record to the peers.
func (s *Service) send(ctx context.Context, rec name.Signed) {
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	acks, err := s.deps.Send(ctx, rec)
	if acks == 0 && err == nil {
		err = status.Errorf(status.NoBootstrap, "no peer took the record")
	}
	if acks > 0 {
		err = nil
	}
	s.m.send(err)
	if err != nil {
		s.later(ctx, rec, err)
		return
	}
	now := s.deps.Now()
	s.table.change(rec, func(e *entry) {
		e.tries, e.Acks, e.Sent, e.Failed = 0, acks, now, nil
		if e.Due = renewal(rec); rec.Value.Kind() == name.Withdrawn {
			e.Due = time.Time{} // it lives as long as any older record; holders pass it on
		}
	})
}

// later makes a record due again after a pause. Before it is sent, the peers are asked for a newer record of another
// holder of the key.
func (s *Service) later(ctx context.Context, rec name.Signed, err error) {
	if ctx.Err() == nil {
		s.deps.Log.Debug("a name is published later", "name", rec.Name, "err", err)
	}
	now := s.deps.Now()
	s.table.change(rec, func(e *entry) {
		pause := min(firstRetry<<min(e.tries, 16), lastRetry)
		e.tries++
		e.checked, e.Failed, e.Due = false, err, now.Add(jitter.Spread(pause))
	})
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// problem stops work on a record until it is published again.
func (s *Service) problem(rec name.Signed, p Problem, err error) {
	s.m.problems.WithLabelValues(string(p)).Inc()
	s.deps.Log.Warn("a name is not published any more", "name", rec.Name, "reason", string(p), "err", err)
	s.table.change(rec, func(e *entry) { e.Problem, e.Failed, e.Due, e.checked = p, err, time.Time{}, false })
}
