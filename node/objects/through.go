package objects

import (
	"bytes"
	"context"
	"errors"
	"io"

	"allium/gateway/api"
	"allium/gateway/content"
	"allium/gateway/verified"
	"allium/protocols/b3"
	"allium/protocols/status"
)

// Through opens what a gateway that need not be trusted has: every chunk group
// is proved here.
type Through struct{ Gateway *verified.Gateway }

// Open implements content.Opener. The size of an object that is opened whole is
// a claim until Copy has come to its end: a false one fails it. A small object is
// here as soon as it is open.
func (o Through) Open(ctx context.Context, root b3.Root, opt content.OpenOptions) (content.Content, error) {
	ctx, cancel := context.WithCancel(ctx)
	c := &gatewayContent{g: o.Gateway, root: root, cancel: cancel}
	var err error
	if opt.Whole {
		err = c.begin(ctx)
	} else {
		err = c.measure(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// gatewayContent is an object that a gateway sends.
type gatewayContent struct {
	g      *verified.Gateway
	root   b3.Root
	cancel context.CancelFunc // of rest
	size   int64
	head   []byte             // the first bytes, at most a group, proved
	rest   *verified.Download // what follows head; nil when that is all, or it was used
}

// begin asks for the whole object.
func (c *gatewayContent) begin(ctx context.Context) (err error) {
	if c.rest, err = c.g.Get(ctx, c.root, api.Range{End: -1}); err != nil {
		return err
	}
	c.size, _ = c.rest.Size()
	c.head = make([]byte, min(c.size, b3.GroupSize))
	if _, err := io.ReadFull(c.rest, c.head); err != nil || c.size > b3.GroupSize {
		return err
	}
	return c.drain(io.Discard)
}

// measure asks for the last bytes, which prove the size and may be all.
func (c *gatewayContent) measure(ctx context.Context) (err error) {
	if c.rest, err = c.g.Get(ctx, c.root, api.Range{Start: -b3.GroupSize, End: -1}); err != nil {
		return err
	}
	var tail bytes.Buffer
	if err := c.drain(&tail); err != nil {
		return err
	}
	if c.size <= int64(tail.Len()) {
		c.head = tail.Bytes()
	}
	return nil
}

// drain writes rest to its end.
func (c *gatewayContent) drain(w io.Writer) error {
	rest := c.rest
	c.rest = nil
	defer rest.Close()
	_, err := rest.WriteTo(w)
	c.size, _ = rest.Size()
	return err
}

func (c *gatewayContent) Size() int64 { return c.size }

// Close ends what is still being sent.
func (c *gatewayContent) Close() error {
	c.cancel()
	if c.rest != nil {
		return c.rest.Close()
	}
	return nil
}

// Copy implements content.Content.
func (c *gatewayContent) Copy(ctx context.Context, w io.Writer, start, end int64) error {
	w = writerCtx{ctx, w}
	err := func() error {
		if end <= int64(len(c.head)) {
			_, err := w.Write(c.head[start:end])
			return err
		}
		if c.rest == nil || start > 0 || end < c.size {
			d, err := c.g.Get(ctx, c.root, api.Range{Start: start, End: end})
			if err != nil {
				return err
			}
			defer d.Close()
			_, err = d.WriteTo(w)
			return err
		}
		defer context.AfterFunc(ctx, c.cancel)()
		if _, err := w.Write(c.head); err != nil {
			return err
		}
		return c.drain(w)
	}()
	var we writeError
	if errors.As(err, &we) {
		return we.err
	}
	return err
}

// Encode implements content.Content, of which nobody asks it here.
func (c *gatewayContent) Encode(context.Context, io.Writer, int64, int64) error {
	return status.Errorf(status.Unsupported, "what comes through a gateway is not encoded again; ask %s's own gateway", c.root)
}
