package localapi

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"allium/gateway/api"
	"allium/gateway/content"
	"allium/node/objects"
	"allium/protocols/b3"
	"allium/protocols/manifest"
	"allium/protocols/status"
	"allium/store/gc"
)

// verifyWorkers is how many objects one verify reads at once.
const verifyWorkers = 2

// checked is the verdict on one object, or why there is none.
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
			err := a.around.repairs()
			if a.cfg.Seed {
				err = objects.ErrSeed
			}
			if err != nil {
				yield(api.Verified{}, err)
				return
			}
		}
		var failed error
		err := inOrder(ctx, verifyWorkers, func(ctx context.Context, submit func(func() checked) error) error {
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
		if err != nil && !errors.Is(err, errStopped) {
			yield(api.Verified{}, err)
		}
	}
}

// verifyAll reads the structure of the log, proves every object, and then looks
// for what pins promise and is absent or damaged.
func (a *stored) verifyAll(ctx context.Context, o api.VerifyOptions, submit submitCheck) error {
	if _, err := a.st.CheckLog(ctx); err != nil { // what it finds is in the list of damage
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

// verifyPromises tells of what pins promise and is absent or damaged. What is
// absent is fetched where that is wanted, before what is below it is looked at,
// and is otherwise left to the repairs of the node, if one runs.
func (a *stored) verifyPromises(ctx context.Context, o api.VerifyOptions, submit submitCheck) error {
	whole := true
	err := a.st.Collector().Promises(ctx, gc.PromiseOptions{Fast: true}, func(l gc.Lost) error {
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

// checkPromise is check of what was lost when the walk saw it.
func (a *stored) checkPromise(ctx context.Context, l gc.Lost, o api.VerifyOptions) checked {
	if l.Corrupt { // it was read with all others, and fetched where that was wanted
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
		a.around.lost(l)
	}
	return c
}

// verifyTree proves what key names and, if that is a directory, everything
// below it. It reads the store alone: what is missing is a finding. What leads
// to more is checked, and mended, before that is read.
func (a *stored) verifyTree(ctx context.Context, key string, o api.VerifyOptions, submit submitCheck) error {
	root, err := a.root(ctx, key)
	if err != nil {
		return err
	}
	info, err := a.st.Stat(ctx, root)
	if out := status.Of(err); err != nil && out != status.Corrupt && (out != status.NotFound || !o.Repair) {
		return err // known to be damaged: reading it again says what is wrong
	}
	top := a.check(ctx, root, info.Size, o)
	if err := submit(func() checked { return top }); err != nil || top.err != nil || top.Error != nil {
		return err
	}
	local := objects.Local{Store: a.st}
	c, err := local.Open(ctx, root, content.OpenOptions{})
	if err != nil {
		return err
	}
	kind, err := kindOfContent(ctx, c)
	if err := errors.Join(err, c.Close()); err != nil || kind != api.Directory {
		return err
	}
	err = manifest.Walk(ctx, objects.Manifests(local), root, func(_ string, e manifest.Entry) error {
		switch e.Kind {
		case manifest.Link:
			return nil
		case manifest.Directory:
			dir := a.check(ctx, e.Root, e.Size, o)
			return submit(func() checked { return dir })
		}
		return submit(func() checked { return a.check(ctx, e.Root, e.Size, o) })
	})
	if o := status.Of(err); o == status.Corrupt || o == status.NotFound {
		return nil // the directory that ends the walk has been yielded as damaged or missing
	}
	return err
}

// check reads one object, fetches it again if that is wanted and reads it once
// more: damage is a value, anything else an error.
func (a *stored) check(ctx context.Context, root b3.Root, size int64, o api.VerifyOptions) checked {
	c := checked{Verified: api.Verified{Root: root, Size: size}}
	err := a.st.Verify(ctx, root)
	if o.Repair && bad(err) {
		if e := a.around.repair(ctx, root); e != nil {
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

// bad reports whether err says that an object is damaged, or not there: never
// fetched, or deleted since it was listed.
func bad(err error) bool {
	o := status.Of(err)
	return o == status.Corrupt || o == status.NotFound
}
