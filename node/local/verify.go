package local

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"allium/gateway/api"
	"allium/internal/ordered"
	"allium/node/local/opener"
	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/store/gc"
)

// verifyWorkers is the maximum number of objects that one Verify reads at once.
const verifyWorkers = 2

// checked is the result for one object, or the error that prevented the check.
type checked struct {
	api.Verified
	err error
}

// submitCheck queues the check of one object.
type submitCheck func(check func() checked) error

// Verify implements api.Store.
func (a *stored) Verify(ctx context.Context, key string, o api.VerifyOptions) iter.Seq2[api.Verified, error] {
	return func(yield func(api.Verified, error) bool) {
		if o.Repair {
			err := a.node.canRepair()
			if a.cfg.Seed {
				err = opener.ErrSeed
			}
			if err != nil {
				yield(api.Verified{}, err)
				return
			}
		}
		var failed error
		err := ordered.Do(ctx, verifyWorkers, func(ctx context.Context, submit func(func() checked) error) error {
			if key == "" {
				return a.verifyAll(ctx, o, submit)
			}
			return a.verifyTree(ctx, key, o, submit)
		}, func(c checked) bool {
			failed = c.err
			return failed == nil && yield(c.Verified, nil)
		})
		if failed != nil {
			err = failed
		}
		if err != nil && !errors.Is(err, ordered.ErrStopped) {
			yield(api.Verified{}, err)
		}
	}
}

// verifyAll reads the structure of the log, proves every object, and then looks for
// pinned objects that are missing or damaged.
func (a *stored) verifyAll(ctx context.Context, o api.VerifyOptions, submit submitCheck) error {
	if _, err := a.st.CheckLog(ctx); err != nil { // the list of damage has its findings
		return err
	}
	for info, err := range a.st.List(ctx) {
		if err == nil {
			err = submit(func() checked { return a.check(ctx, info.Root, info.Size, o) })
		}
		if err != nil {
			return err
		}
	}
	return a.verifyPromises(ctx, o, submit)
}

// verifyPromises reports pinned objects that are missing or damaged. With o.Repair it
// fetches a missing object before it examines the objects below it. Otherwise a running
// node repairs the object later.
func (a *stored) verifyPromises(ctx context.Context, o api.VerifyOptions, submit submitCheck) error {
	whole := true
	err := a.st.Collector().FindLost(ctx, gc.FindLostOptions{Fast: true}, func(l gc.Lost) error {
		c := a.checkPromise(ctx, l, o)
		whole = whole && c.err == nil && c.Error == nil
		return submit(func() checked { return c })
	})
	if err != nil {
		return err
	}
	_, err = a.st.SettleDamage(ctx, whole)
	return err
}

// checkPromise checks an object that was missing or damaged during the walk.
func (a *stored) checkPromise(ctx context.Context, l gc.Lost, o api.VerifyOptions) checked {
	if l.Corrupt { // verifyAll has checked it, and repaired it if o says so
		o.Repair = false
	}
	c := a.check(ctx, l.Root, 0, o)
	pin := pinOf(l.Pin)
	c.Pin, c.Path, c.Again = &pin, l.Path, l.Corrupt
	switch {
	case c.Repaired:
		if err := a.st.Restored(ctx, l.Root, !l.Corrupt); err != nil {
			c.err = err
		}
	case c.Error != nil && !o.Repair:
		a.node.lost(l)
	}
	return c
}

// verifyTree proves the object that key names and, for a directory, everything below
// it, each object once. It reads only the store: a missing object is a result. It checks
// a directory, and repairs it with o.Repair, before it reads the entries.
func (a *stored) verifyTree(ctx context.Context, key string, o api.VerifyOptions, submit submitCheck) error {
	root, err := a.reader.Root(ctx, key)
	if err != nil {
		return err
	}
	info, err := a.st.Stat(ctx, root)
	if out := status.Of(err); err != nil && out != status.Corrupt && (out != status.NotFound || !o.Repair) {
		return err // a corrupt object is checked below, to report what is wrong
	}
	top := a.check(ctx, root, info.Size, o)
	if err := submit(func() checked { return top }); err != nil || top.err != nil || top.Error != nil {
		return err
	}
	for ref, err := range a.st.Collector().Refs(ctx, root) {
		if bad(err) {
			return nil // the damaged or missing directory was already yielded
		}
		check := func() checked { return a.check(ctx, ref.Root, ref.Size, o) }
		if err == nil && ref.Manifest {
			dir := check()
			check = func() checked { return dir }
		}
		if err == nil {
			err = submit(check)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// check reads and proves one object. With o.Repair it fetches a bad object again and
// reads it once more. Damage is in the result; any other failure is its err.
func (a *stored) check(ctx context.Context, root b3.Root, size int64, o api.VerifyOptions) checked {
	c := checked{Verified: api.Verified{Root: root, Size: size}}
	err := a.st.Verify(ctx, root)
	if o.Repair && bad(err) {
		if e := a.node.repair(ctx, root); e != nil {
			err = fmt.Errorf("%w; it could not be fetched again: %w", err, e)
		} else if err = a.st.Verify(ctx, root); err == nil {
			c.Repaired = true
			info, e := a.st.Stat(ctx, root)
			c.Size, err = info.Size, errors.Join(e, a.st.Restored(ctx, root, false))
		}
	}
	switch {
	case ctx.Err() != nil:
		c.err = ctx.Err()
	case bad(err):
		r := status.ReportOf(err)
		c.Error = &r
	default:
		c.err = err
	}
	return c
}

// bad reports whether err means that an object is damaged or missing. A missing
// object was never fetched, or was deleted since it was listed.
func bad(err error) bool {
	o := status.Of(err)
	return o == status.Corrupt || o == status.NotFound
}
