package node

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"allium/gateway"
	"allium/gateway/client"
	"allium/protocols/b3"
	"allium/protocols/manifest"
	"allium/protocols/status"
)

// verifyWorkers is how many objects one verify reads at once.
const verifyWorkers = 2

// errNoRepair says why nothing is fetched again.
var errNoRepair = status.Errorf(status.NotReady, "no node runs that could fetch what is damaged; start one with `allium run`, or leave --repair out")

// checked is the verdict on one object, or why there is none.
type checked struct {
	client.Verified
	err error
}

// submitCheck queues the check of one object.
type submitCheck func(check func() checked) error

// Verify implements client.Store.
func (a *storeAPI) Verify(ctx context.Context, key string, o client.VerifyOptions) iter.Seq2[client.Verified, error] {
	return func(yield func(client.Verified, error) bool) {
		if o.Repair {
			if a.noContent {
				yield(client.Verified{}, errNoContent)
				return
			}
			if a.repair == nil {
				yield(client.Verified{}, errNoRepair)
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
			yield(client.Verified{}, err)
		}
	}
}

func (a *storeAPI) verifyAll(ctx context.Context, o client.VerifyOptions, submit submitCheck) error {
	for info, err := range a.st.List(ctx) {
		if err == nil {
			err = submit(func() checked { return a.check(ctx, info.Root, info.Size, o) })
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// verifyTree proves what key names and, if that is a directory, everything
// below it. It reads the store alone: what is missing is a finding. What leads
// to more is checked, and mended, before that is read.
func (a *storeAPI) verifyTree(ctx context.Context, key string, o client.VerifyOptions, submit submitCheck) error {
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
	local := storeAPI{st: a.st, objects: localObjects{a.st}}
	c, err := local.objects.Open(ctx, root, gateway.OpenOptions{})
	if err != nil {
		return err
	}
	kind, err := kindOfContent(ctx, c)
	if err := errors.Join(err, c.Close()); err != nil || kind != client.Directory {
		return err
	}
	err = manifest.Walk(ctx, local.getter(), root, func(_ string, e manifest.Entry) error {
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
func (a *storeAPI) check(ctx context.Context, root b3.Root, size int64, o client.VerifyOptions) checked {
	c := checked{Verified: client.Verified{Root: root, Size: size}}
	err := a.st.Verify(ctx, root)
	if o.Repair && bad(err) {
		if e := a.repair(ctx, root); e != nil {
			err = fmt.Errorf("%w; it could not be fetched again: %w", err, e)
		} else if err = a.st.Verify(ctx, root); err == nil {
			c.Repaired = true
			info, e := a.st.Stat(ctx, root)
			c.Size, err = info.Size, e
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
