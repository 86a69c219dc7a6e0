package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"

	"allium/gateway"
	"allium/node/config"
	"allium/node/p2p"
	"allium/node/supervise"
	"allium/protocols/b3"
	"allium/protocols/bao"
	"allium/protocols/status"
	"allium/store"
)

// Offline is the store of a home directory that no node runs: the commands
// that need no network work on it directly. It implements client.Store.
type Offline struct {
	storeAPI
	services *supervise.Group
	ctx      context.Context
}

// OpenOffline opens the store below home. Another process on the same store is busy; a configuration without a store on disk is amnesia.
func OpenOffline(ctx context.Context, home string, cfg config.Config) (*Offline, error) {
	if cfg.Store.Backend == store.BackendMemory {
		return nil, status.Errorf(status.Amnesia, "this node keeps its store in RAM, and it does not run; start it with `allium run`")
	}
	c := storeConfig(home, cfg.Store)
	c.ScrubRate = 0 // what is not there for long does not look after itself
	st, err := store.New(c, store.Deps{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, err
	}
	o := &Offline{
		storeAPI: storeAPI{st: st, objects: offlineObjects{localObjects{st}}, noContent: cfg.Node.Profile == p2p.Seed},
		services: supervise.New(supervise.Deps{}),
		ctx:      context.WithoutCancel(ctx),
	}
	if err := o.services.Start(ctx, supervise.Service{Name: "store", Run: st.Run, Fatal: true}); err != nil {
		return nil, err
	}
	return o, nil
}

// Close finishes what was begun and closes the store.
func (o *Offline) Close() error {
	o.services.Stop(o.ctx) // the store only finishes what it has admitted
	return o.services.Err()
}

// storeConfig makes the store's directory absolute: a relative one lies below
// home.
func storeConfig(home string, c store.Config) store.Config {
	if !filepath.IsAbs(c.Dir) {
		c.Dir = filepath.Join(home, c.Dir)
	}
	return c
}

// localObjects opens what is in the store and nothing else.
type localObjects struct{ st *store.Store }

// Open implements gateway.Opener.
func (l localObjects) Open(ctx context.Context, root b3.Root, _ gateway.OpenOptions) (gateway.Content, error) {
	o, err := l.st.Open(ctx, root)
	if err != nil {
		return nil, err
	}
	return localContent{o}, nil
}

// Memory implements gateway.Objects.
func (l localObjects) Memory(root b3.Root) []byte { return l.st.Memory(root) }

// offlineObjects are localObjects that say what would help where one is missing.
type offlineObjects struct{ localObjects }

// Open implements gateway.Opener.
func (l offlineObjects) Open(ctx context.Context, root b3.Root, o gateway.OpenOptions) (gateway.Content, error) {
	c, err := l.localObjects.Open(ctx, root, o)
	if status.Of(err) == status.NotFound {
		return nil, status.Errorf(status.NotFound, "%s is not in the store, and no node runs that could fetch it; start one with `allium run`", root)
	}
	return c, err
}

// localContent is a stored object as the gateway reads it.
type localContent struct{ o *store.Object }

func (c localContent) Size() int64  { return c.o.Size() }
func (c localContent) Close() error { return c.o.Close() }

// Copy writes verified bytes; a damaged group ends it before a byte of it is
// written, and the object is not served again.
func (c localContent) Copy(ctx context.Context, w io.Writer, start, end int64) error {
	s := c.o.Reader().Section(start, end)
	defer s.Close()
	readErr, writeErr := transfer(ctx, w, s)
	return cmp.Or(writeErr, c.o.Failed(readErr))
}

// Encode is Copy with the proof; damage is told to the store as there.
func (c localContent) Encode(ctx context.Context, w io.Writer, start, end int64) error {
	e, err := bao.NewEncoder(c.o.Root(), c.o.Size(), b3.Range{Start: start, End: end}, c.o.Source())
	if err != nil {
		return err
	}
	readErr, writeErr := transfer(ctx, w, e)
	return cmp.Or(writeErr, c.o.Failed(readErr))
}

// transfer copies from to w until ctx ends. It returns what went wrong with the
// source apart from what went wrong with the destination, which the end of ctx
// counts as; at most one of the two is not nil.
func transfer(ctx context.Context, w io.Writer, from io.WriterTo) (readErr, writeErr error) {
	_, err := from.WriteTo(writerCtx{ctx, w})
	var we writeError
	if errors.As(err, &we) {
		return nil, we.err
	}
	return err, nil
}

// writerCtx ends a copy when its context does, and marks the errors of the
// destination so that they are not taken for the store's.
type writerCtx struct {
	ctx context.Context
	w   io.Writer
}

func (w writerCtx) Write(p []byte) (int, error) {
	if err := w.ctx.Err(); err != nil {
		return 0, writeError{err}
	}
	n, err := w.w.Write(p)
	if err != nil {
		return n, writeError{err}
	}
	return n, nil
}

type writeError struct{ err error }

func (e writeError) Error() string { return fmt.Sprintf("write: %v", e.err) }
